//! Errors in a policy or a values file, each with the lines that it is about.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use fabric_yaml::escape;

use super::diagnostic::{Diagnostic, Severity, UNKNOWN_NAME};
use super::problems::{MOST_SHOWN, Problems};
use super::source_file::{SourceFile, at_line};

/// The most of a line that is for programs, in bytes.
const MOST_OF_LINE: usize = 4_096;

/// A [`Diagnostic`] together with the file that it is about, ready to be shown.
///
/// [`fmt::Display`] gives the message, `file:line:column`, the line itself and the hint, without color.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The name of the file as the user wrote it.
    pub file: Box<str>,
    pub text: Arc<str>,
    pub diagnostic: Box<Diagnostic>,
}

impl SourceError {
    pub fn new(file: &str, text: impl Into<Arc<str>>, diagnostic: Diagnostic) -> Self {
        Self { file: file.into(), text: text.into(), diagnostic: Box::new(diagnostic) }
    }

    /// An error in the files of a policy and of its bases, whose lines count on from one file to the next.
    pub(crate) fn in_files(files: &[SourceFile], mut diagnostic: Diagnostic) -> Self {
        let (at, line) = at_line(files, diagnostic.span.line);
        diagnostic.span.line = line;
        let Some(file) = files.get(at) else { return Self::new("", "", diagnostic) };
        if diagnostic.code == UNKNOWN_NAME && !file.is_policy && !diagnostic.is_misspelling {
            let hint = "a part can read names of the policy that takes it: declare it there, in `variables`";
            diagnostic = diagnostic.hint(hint);
        }
        Self::in_file(file, diagnostic)
    }

    pub(crate) fn in_file(file: &SourceFile, diagnostic: Diagnostic) -> Self {
        Self::new(&file.file, Arc::clone(&file.text), diagnostic)
    }

    /// The line that the error is about, or the beginning of a long one.
    pub fn line(&self) -> &str {
        let line = self.text.lines().nth(self.diagnostic.span.line.saturating_sub(1)).unwrap_or_default();
        &line[..line.floor_char_boundary(MOST_OF_LINE)]
    }
}

impl std::error::Error for SourceError {}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.diagnostic.span;
        // Only the line is laid out: a file can have thousands of errors.
        let line = self.text.split('\n').nth(span.line.max(1) - 1).unwrap_or_default();
        let start = byte_offset(line, span.column.max(1));
        let end = byte_offset(line, span.column.max(1) + span.length.max(1)).max(start);
        let level = match self.diagnostic.severity {
            Severity::Warning => Level::WARNING,
            Severity::Error => Level::ERROR,
        };
        let title = level.primary_title(escape::line(&self.diagnostic.message));
        let mut group = title.element(
            Snippet::source(line)
                .line_start(span.line.max(1))
                .path(escape::line(&self.file))
                .annotation(AnnotationKind::Primary.span(start..end)),
        );
        if let Some(hint) = &self.diagnostic.hint {
            group = group.element(Level::HELP.with_name("hint").message(escape::line(hint)));
        }
        f.write_str(&Renderer::plain().render(&[group]))
    }
}

/// The errors of one or several files, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceErrors(Vec<SourceError>);

impl SourceErrors {
    pub fn new(errors: Vec<SourceError>) -> Self {
        // The texts of files are long, and nearly always the same.
        let mut known = HashSet::new();
        let mut is_new = |error: &SourceError| known.insert((error.file.clone(), error.diagnostic.clone()));
        Self(errors.into_iter().filter(|error| is_new(error)).collect())
    }

    /// The first error at each place: an expression that fails for one node or pod usually fails for others.
    pub fn first_at_each_place(errors: Vec<SourceError>) -> Self {
        let mut known = HashSet::new();
        let mut is_new = |error: &SourceError| known.insert((error.file.clone(), error.diagnostic.span));
        Self(errors.into_iter().filter(|error| is_new(error)).collect())
    }

    /// The errors in the files of a policy and of its bases, in the order of the text.
    pub(crate) fn in_files(files: &[SourceFile], problems: Problems) -> Self {
        let mut problems: Vec<Diagnostic> = problems.into_iter().collect();
        problems.sort_by_key(|problem| (problem.span.line, problem.span.column));
        Self::new(problems.into_iter().map(|problem| SourceError::in_files(files, problem)).collect())
    }
}

impl From<SourceError> for SourceErrors {
    fn from(error: SourceError) -> Self {
        Self(vec![error])
    }
}

impl IntoIterator for SourceErrors {
    type Item = SourceError;
    type IntoIter = std::vec::IntoIter<SourceError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl std::error::Error for SourceErrors {}

impl fmt::Display for SourceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
        f.write_str(&shown.join("\n\n"))?;
        let more = self.0.len() - shown.len();
        if more > 0 { write!(f, "\n\nand {more} more") } else { Ok(()) }
    }
}

/// The byte offset of a column; the end of the line for a column beyond it.
fn byte_offset(line: &str, column: usize) -> usize {
    line.char_indices().nth(column - 1).map_or(line.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use crate::source::suggestion::suggest;
    use fabric_yaml::Span;

    use super::*;

    #[test]
    fn a_message_shows_file_line_column_the_line_and_the_hint() {
        let diagnostic = Diagnostic::new(Span { line: 2, column: 3, length: 4 }, "unknown key `naem`")
            .hint(suggest("naem", ["name", "rules"]));
        let shown = SourceError::new("p.yaml", "spec:\n  naem: x\n", diagnostic).to_string();
        assert!(shown.starts_with("error: unknown key `naem`"), "{shown}");
        assert!(shown.contains("p.yaml:2:3"), "{shown}");
        assert!(shown.contains("  naem: x"), "{shown}");
        assert!(shown.contains("^^^^"), "{shown}");
        assert!(shown.contains("hint: did you mean `name`?"), "{shown}");
    }

    #[test]
    fn a_place_beyond_the_text_is_shown_without_panic() {
        let diagnostic = Diagnostic::new(Span { line: 99, column: 99, length: 9 }, "ends too early");
        assert!(
            SourceError::new("p.yaml", "a: ü\n", diagnostic.clone()).to_string().contains("ends too early")
        );
        assert!(SourceError::new("p.yaml", "", diagnostic).to_string().contains("p.yaml"));
    }
}
