//! The texts that messages about a policy point into.

use std::sync::Arc;

use fabric_yaml::Span;

/// A file of a policy, and what it is in the policy.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The name of the policy.
    pub policy: String,
    /// The name of the file, for messages.
    pub file: String,
    pub text: Arc<str>,
    pub(crate) lines: usize,
    /// False for a part of policies.
    pub(crate) is_policy: bool,
    /// The policy that it extends itself, and the place of that name in the file.
    pub(crate) extends: Option<(String, Span)>,
}

impl SourceFile {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let (policy, file) = (String::new(), file.to_owned());
        Self { policy, file, text: text.into(), lines, is_policy: false, extends: None }
    }
}

/// The file that has a line, and the line in it. The lines of files count on from one to the next.
pub(crate) fn at_line(files: &[SourceFile], mut line: usize) -> (usize, usize) {
    let mut at = 0;
    while at + 1 < files.len() && line > files[at].lines {
        line -= files[at].lines;
        at += 1;
    }
    (at, line)
}

/// The position of the extension that has a place; `None` for other files.
pub(crate) fn extension_at(files: &[SourceFile], span: Span) -> Option<usize> {
    let at = at_line(files, span.line).0;
    files.get(at).filter(|file| file.extends.is_some()).map(|_| at)
}
