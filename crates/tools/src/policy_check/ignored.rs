//! Comments that suppress warnings: `# fabric-injector: ignore CODE`, at the end of a line, on the lines above it, or
//! in the head of a file for all of it.

use std::collections::{HashMap, HashSet};

use fabric_policy::source::{UNUSED_SUPPRESSION, suggest};
use fabric_policy::{Diagnostic, Severity, SourceError, WARNINGS};
use fabric_yaml::Span;

const MARK: &str = "# fabric-injector: ignore ";

/// A code in such a comment.
struct Ignored {
    span: Span,
    is_used: bool,
}

/// The line of the warnings, or `None` for those of the whole file, and the code.
type Key<'t> = (Option<usize>, &'t str);

/// Drops the warnings that comments suppress, and adds one for each code that suppresses none.
pub(super) fn without_ignored(files: &[(String, String)], found: Vec<SourceError>) -> Vec<SourceError> {
    let mut comments: Vec<HashMap<Key<'_>, Ignored>> = files.iter().map(|(_, text)| read(text)).collect();
    if comments.iter().all(HashMap::is_empty) {
        return found;
    }
    let by_name: HashMap<&str, usize> =
        files.iter().enumerate().map(|(at, (file, _))| (file.as_str(), at)).collect();
    let mut kept = found;
    kept.retain(|error| {
        let diagnostic = &error.diagnostic;
        let Some(at) = by_name.get(&*error.file).filter(|_| diagnostic.severity == Severity::Warning) else {
            return true;
        };
        let mut keys = [Some(diagnostic.span.line), None].into_iter().map(|line| (line, diagnostic.code));
        let Some(key) = keys.find(|key| comments[*at].contains_key(key)) else { return true };
        if let Some(ignored) = comments[*at].get_mut(&key) {
            ignored.is_used = true;
        }
        false
    });
    // In a file with errors, some warnings are unknown.
    let broken: HashSet<Box<str>> = kept
        .iter()
        .filter(|error| error.diagnostic.severity == Severity::Error)
        .map(|error| error.file.clone())
        .collect();
    for ((file, text), codes) in files.iter().zip(comments).filter(|((file, _), _)| !broken.contains(&**file))
    {
        for ((_, code), ignored) in codes.into_iter().filter(|(_, ignored)| !ignored.is_used) {
            let message = format!("there is no warning `{code}` to ignore here");
            let diagnostic = Diagnostic::warning(UNUSED_SUPPRESSION, ignored.span, message);
            let is_known = WARNINGS.contains(&code);
            let hint = if is_known {
                "remove it from the comment".to_owned()
            } else {
                suggest(code, WARNINGS.iter().copied())
            };
            kept.push(SourceError::new(file, text.as_str(), diagnostic.hint(hint)));
        }
    }
    kept
}

fn read(text: &str) -> HashMap<Key<'_>, Ignored> {
    let mut codes = HashMap::new();
    let mut in_head = true;
    // Comments on lines of their own apply to the next line.
    let mut above: Vec<(&str, Span)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (content, comment) =
            line.split_once(MARK).map_or((line, None), |(content, rest)| (content, Some(rest)));
        let column = content.chars().count() + 1;
        let length = line.chars().count() + 1 - column;
        let span = Span { line: at + 1, column, length };
        let named = comment.into_iter().flat_map(|rest| rest.split(',')).map(|code| (code.trim(), span));
        above.extend(named);
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let about = (!std::mem::take(&mut in_head)).then_some(at + 1);
        for (code, span) in above.drain(..) {
            // A comment at the end of the first line is not in the head.
            let about = if span.line == at + 1 { Some(at + 1) } else { about };
            codes.insert((about, code), Ignored { span, is_used: false });
        }
    }
    codes
}
