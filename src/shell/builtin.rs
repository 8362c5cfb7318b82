//! The policies that are compiled into the program.

use crate::core::policy::{Definition, SourceError};

/// A policy file that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// The provider that it is for.
    pub text: &'static str,
}

/// Every built-in policy, by name. The files are those in the folder `policies`.
pub const POLICIES: &[BuiltIn] = &[
    BuiltIn { name: "aws-efa", text: include_str!("../../policies/aws-efa.yaml") },
    BuiltIn { name: "azure-infiniband", text: include_str!("../../policies/azure-infiniband.yaml") },
    BuiltIn { name: "gcp-tcpxo", text: include_str!("../../policies/gcp-tcpxo.yaml") },
    BuiltIn { name: "oci-sriov", text: include_str!("../../policies/oci-sriov.yaml") },
];

/// The policy of a server that was told nothing: the cloud that most people have.
pub const DEFAULT: &str = "aws-efa";

/// The built-in policy of this name.
pub fn find(name: &str) -> Option<BuiltIn> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

impl BuiltIn {
    /// Reads the policy.
    pub fn definition(self) -> Result<Definition, SourceError> {
        Definition::read(&format!("policies/{}.yaml", self.name), self.text)
    }
}
