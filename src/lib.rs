//! fabric-injector.
pub mod engine;
pub mod policy;
pub mod policy_set;
pub mod quantity;
mod self_check;
pub mod yaml;
