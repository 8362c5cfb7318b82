//! The files that policies can extend without being in use themselves.

use std::sync::OnceLock;

use crate::source::SourceErrors;

use super::PolicyFile;

/// A file that policies can extend. It is read when one does.
#[derive(Debug)]
pub struct Extendable {
    /// `metadata.name` of the file.
    pub(super) name: &'static str,
    file: &'static str,
    text: &'static str,
    read: OnceLock<Result<PolicyFile, SourceErrors>>,
}

impl Extendable {
    /// `file` is the name of the file for messages.
    pub const fn new(name: &'static str, file: &'static str, text: &'static str) -> Self {
        Self { name, file, text, read: OnceLock::new() }
    }

    pub(super) fn read(&self) -> Result<&PolicyFile, SourceErrors> {
        self.read.get_or_init(|| PolicyFile::read(self.file, self.text)).as_ref().map_err(Clone::clone)
    }
}
