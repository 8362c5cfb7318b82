//! The texts that messages about a policy point into.

/// The name and text of a policy file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The name of the policy.
    pub policy: String,
    /// The name of the file, for messages.
    pub file: String,
    pub text: String,
}

impl SourceFile {
    pub(super) fn lines(&self) -> usize {
        self.text.split('\n').count()
    }
}
