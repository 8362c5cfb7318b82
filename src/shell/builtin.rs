//! The policies that are compiled into the program.

use crate::core::policy::{Definition, PolicyFile, SourceErrors, definitions};

/// A policy file that is compiled into the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// The name of the policy, which is also that of its file.
    pub name: &'static str,
    /// The YAML text of the file.
    pub text: &'static str,
}

/// All built-in policies, sorted by name: the files in the folder `policies`.
pub const POLICIES: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// The policy that `serve` uses if no option or variable names one.
pub const DEFAULT: &str = "aws-efa";

/// Returns the built-in policy with this name.
pub fn find(name: &str) -> Option<BuiltIn> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

/// The files of all built-in policies, which policies of the operator can extend.
pub(crate) fn files() -> Result<Vec<PolicyFile>, SourceErrors> {
    POLICIES.iter().map(|policy| policy.file()).collect()
}

impl BuiltIn {
    /// Parses the text.
    pub fn definition(self) -> Result<Definition, SourceErrors> {
        let own = self.file()?;
        let bases = if own.base().is_some() { files()? } else { Vec::new() };
        let mut found = definitions(&[own], &bases)?;
        // A file in use that no other one extends is one policy.
        Ok(found.remove(0))
    }

    fn file(self) -> Result<PolicyFile, SourceErrors> {
        PolicyFile::read(&format!("policies/{}.yaml", self.name), self.text)
    }
}
