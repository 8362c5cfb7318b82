//! The JSON Schemas (draft 2020-12) of policy files and of their cases, for editors and for checks without this program.
//!
//! A schema accepts every file that loads, and refuses what a schema can refuse: it knows the keys, their types, the
//! fields of a Pod and the forms of names, but neither expressions nor what depends on two values. Tests compare its keys
//! with those of the parser, and its fields with the tables of `core::schema`.

/// The schema of a policy file.
pub const POLICY: &str = include_str!("../../schemas/policy.json");

/// The schema of a file of cases.
pub const CASES: &str = include_str!("../../schemas/cases.json");

#[cfg(test)]
mod tests;
