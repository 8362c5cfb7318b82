//! Tools for questions about policies, workloads and clusters.
//!
//! | for | module |
//! |---|---|
//! | an author of policies | [`policy_check`], [`policy_review`] at `kubectl apply`, [`policy_test`] with coverage, [`policy_list`], [`policy_schema`] |
//! | an author of workloads | [`explain`], [`lint`] |
//! | an operator | [`inspection`] (the command `check`), [`pools`] (`nodes`), [`manifests`] (`manifests`), [`helm_values`] (`--values`) |
//!
//! The engine decides; this crate calls it, and describes its record. It prints nothing, and calls no API server: the
//! program reads the objects of a cluster and passes them in.

pub mod explain;
pub mod helm_values;
pub mod inspection;
pub mod lint;
pub mod manifests;
pub mod policy_check;
pub mod policy_list;
pub mod policy_review;
pub mod policy_schema;
pub mod policy_test;
pub mod pools;
