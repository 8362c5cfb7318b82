//! The comments at the top of a file of the corpus, and how they are compared with what was found.

use fabric_policy::{Severity, SourceError};

/// An error or a warning that a file has to get.
pub(crate) struct Expected {
    pub(crate) severity: String,
    /// The file of `# with:`, if the message is about that one.
    file: Option<String>,
    line: usize,
    column: Option<usize>,
    /// Empty for any code.
    pub(crate) code: String,
    /// A part of the message or of the hint.
    fragment: String,
}

pub(crate) struct Expectations {
    pub(crate) messages: Vec<Expected>,
    /// Files that are checked along with this one.
    pub(crate) with: Vec<String>,
    /// Other messages may follow from the same mistake.
    more: bool,
}

/// An error or a warning of `policy check`.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(super) severity: &'static str,
    file: String,
    line: usize,
    column: usize,
    code: &'static str,
    /// The message and its hint.
    pub(super) text: String,
}

impl Finding {
    pub(crate) fn of(error: &SourceError) -> Self {
        let diagnostic = &error.diagnostic;
        let severity = if diagnostic.severity == Severity::Error { "error" } else { "warning" };
        Self {
            severity,
            file: error.file.to_string(),
            // An error about the whole file has no line.
            line: diagnostic.span.line.max(1),
            column: diagnostic.span.column,
            code: diagnostic.code,
            text: format!("{}; {}", diagnostic.message, diagnostic.hint.as_deref().unwrap_or_default()),
        }
    }
}

impl Expected {
    /// Reads `error 14 code: fragment`, or `error 14:9 code: fragment`.
    fn parse(text: &str) -> Option<Self> {
        let (severity, rest) = text.split_once(' ')?;
        let (file, rest) = match rest.split_once(".yaml:") {
            Some((file, rest)) => (Some(format!("{file}.yaml")), rest),
            None => (None, rest),
        };
        let (place, fragment) = rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")))?;
        let mut words = place.split_whitespace();
        let (line, column) = words.next().map(|place| place.split_once(':').unwrap_or((place, "")))?;
        Some(Self {
            severity: Some(severity).filter(|word| ["error", "warning"].contains(word))?.to_owned(),
            file,
            line: line.parse().ok()?,
            column: column.parse().ok(),
            code: words.next().unwrap_or_default().to_owned(),
            fragment: fragment.trim().to_owned(),
        })
    }

    fn is(&self, found: &Finding, own: &str) -> bool {
        self.severity == found.severity
            && found.file.ends_with(self.file.as_deref().unwrap_or(own))
            && self.line == found.line
            && self.column.is_none_or(|column| column == found.column)
            && (self.code.is_empty() || self.code == found.code)
            && found.text.contains(&self.fragment)
    }
}

impl Expectations {
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        let mut expectations = Self { messages: Vec::new(), with: Vec::new(), more: false };
        let (mut lines, mut says_nothing) = (0, false);
        for line in text.trim_start_matches('\u{feff}').lines().take_while(|line| line.starts_with('#')) {
            if let Some(with) = line.strip_prefix("# with: ") {
                expectations.with.push(with.trim().to_owned());
            } else if let Some(expected) = line.strip_prefix("# expect: ") {
                lines += 1;
                says_nothing |= expected.trim() == "nothing";
                expectations.more |= expected.trim() == "more";
                expectations.messages.extend(Expected::parse(expected));
            }
        }
        let read = expectations.messages.len() + usize::from(says_nothing) + usize::from(expectations.more);
        if lines == 0 || lines != read || (says_nothing && lines > 1) {
            return Err(format!("{read} of {lines} lines `# expect:` can be read"));
        }
        Ok(expectations)
    }

    /// The messages that are missing and those that are not expected; empty if there are none.
    pub(crate) fn difference(&self, own: &str, found: &[Finding]) -> String {
        let mut left: Vec<&Finding> = found.iter().collect();
        let mut lines = Vec::new();
        for expected in &self.messages {
            if let Some(at) = left.iter().position(|found| expected.is(found, own)) {
                left.remove(at);
                continue;
            }
            let Expected { severity, file, line, column, code, fragment } = expected;
            let file = file.as_deref().unwrap_or(own);
            let column = column.map(|column| format!(":{column}")).unwrap_or_default();
            lines.push(format!("  missing: {severity} {file}:{line}{column} {code}: {fragment}"));
        }
        for Finding { severity, file, line, column, code, text } in left.into_iter().filter(|_| !self.more) {
            lines.push(format!("  not expected: {severity} {file}:{line}:{column} {code}: {text}"));
        }
        lines.join("\n")
    }
}
