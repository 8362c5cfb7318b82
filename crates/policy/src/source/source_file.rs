//! The texts that messages about a policy point into.

use std::sync::Arc;

/// The name and text of a policy file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The name of the policy.
    pub policy: String,
    /// The name of the file, for messages.
    pub file: String,
    pub text: Arc<str>,
}

/// The file that has a line, and the line in it. The lines of files count on from one to the next.
pub(crate) fn at_line(files: &[SourceFile], mut line: usize) -> (usize, usize) {
    let mut at = 0;
    while at + 1 < files.len() && line > files[at].lines() {
        line -= files[at].lines();
        at += 1;
    }
    (at, line)
}

impl SourceFile {
    pub(crate) fn lines(&self) -> usize {
        self.text.bytes().filter(|byte| *byte == b'\n').count() + 1
    }
}
