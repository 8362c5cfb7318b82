//! The comments that an edit loses.

use std::collections::HashMap;

use super::super::layout::Layout;

/// A comment of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The line number, from 1.
    pub line: usize,
    /// The comment with its `#`.
    pub text: String,
}

/// The comments of a text that another text no longer has.
pub(super) fn lost(before: &str, after: &str) -> Vec<Comment> {
    let (mut line, mut counted) = (1, 0);
    let comment = |(at, text): (usize, &str)| {
        line += memchr::memchr_iter(b'\n', &before.as_bytes()[counted..at]).count();
        counted = at;
        Comment { line, text: text.to_owned() }
    };
    missing(all(before), all(after)).into_iter().map(comment).collect()
}

/// The texts, each with its position, that other ones do not have as often.
pub(crate) fn missing<'t>(before: Vec<(usize, &'t str)>, after: Vec<(usize, &str)>) -> Vec<(usize, &'t str)> {
    let mut kept: HashMap<&str, usize> = HashMap::new();
    for (_, text) in after {
        *kept.entry(text).or_default() += 1;
    }
    let mut missing = before;
    missing.retain(|(_, text)| match kept.get_mut(text) {
        Some(times) if *times > 0 => {
            *times -= 1;
            false
        }
        _ => true,
    });
    missing
}

/// The comments of a text with their positions. If the text has no layout, also what only looks like a comment.
fn all(text: &str) -> Vec<(usize, &str)> {
    if let Some(layout) = Layout::read(text, false) {
        return layout.comments(0..text.len());
    }
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let begins = |at: &usize| line[..*at].ends_with([' ', '\t']) || *at == 0;
        if let Some(at) = line.match_indices('#').map(|(at, _)| at).find(begins) {
            found.push((start + at, line[at..].trim_end()));
        }
        start += line.len();
    }
    found
}

/// The length of the leading lines that have only a `---`, directives, white space or a comment, in bytes.
pub(super) fn head(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_ascii();
        let marker = trimmed == "---" || trimmed.starts_with("--- #") || trimmed.starts_with('%');
        if !(trimmed.is_empty() || trimmed.starts_with('#') || marker) {
            break;
        }
        length += line.len();
    }
    length
}
