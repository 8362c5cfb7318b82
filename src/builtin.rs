//! The policies that are compiled into the program, and their parts.

use std::sync::LazyLock;

use fabric_policy::{self as policy, Definition, Extendable, PolicyFile, SourceErrors};

/// A policy file that is compiled into the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// The name of the policy or part, which is also that of its file.
    pub name: &'static str,
    /// The path of the file.
    pub file: &'static str,
    /// The YAML text of the file.
    pub text: &'static str,
}

/// All built-in policies, sorted by name: the files in the folder `policies`.
pub const POLICIES: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// The parts of policies: the files in the folder `policies/parts`.
pub const PARTS: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/parts.rs"));

/// The policy that `serve` uses if no option or variable names one.
pub const DEFAULT: &str = "aws-efa";

/// Returns the built-in policy with this name.
pub fn find(name: &str) -> Option<BuiltIn> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

/// Returns the built-in policy or part with this name.
pub(crate) fn find_file(name: &str) -> Option<BuiltIn> {
    find(name).or_else(|| PARTS.iter().find(|part| part.name == name).copied())
}

/// All built-in policies with their parts.
pub(crate) fn definitions() -> Result<Vec<Definition>, SourceErrors> {
    POLICIES.iter().map(|policy| policy.definition()).collect()
}

/// The files of all built-in policies and parts, which policies can extend.
pub fn files() -> &'static [Extendable] {
    static FILES: LazyLock<Vec<Extendable>> = LazyLock::new(|| {
        POLICIES.iter().chain(PARTS).map(|one| Extendable::new(one.name, one.file, one.text)).collect()
    });
    &FILES
}

/// Returns whether a policy is a built-in one with its parts. The tests of this program try those on sample pods.
pub(crate) fn is_built_in(definition: &Definition) -> bool {
    files_of(definition).all(|(name, text)| has_file(name, text))
}

/// Returns whether a file is that of the built-in policy or part of its name.
pub(crate) fn has_file(name: &str, text: &str) -> bool {
    find_file(name).is_some_and(|one| one.text == text)
}

/// The files of a policy: the name and the text of each.
pub(crate) fn files_of(definition: &Definition) -> impl Iterator<Item = (&str, &str)> {
    definition.sources.iter().map(|source| (source.policy.as_str(), &*source.text))
}

impl BuiltIn {
    /// The policy with its parts.
    pub fn definition(self) -> Result<Definition, SourceErrors> {
        // A policy is one definition.
        Ok(policy::definitions(&[PolicyFile::read(self.file, self.text)?], files())?.remove(0))
    }
}
