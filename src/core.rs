//! The pure core: text and values in, text and values out.
//!
//! No module in this folder reads a file or a clock, uses the network, logs or prints. `tests/core/purity.rs` enforces that.

pub mod admission;
mod counted;
pub mod diagnosis;
pub mod engine;
pub mod escape;
pub mod explain;
pub mod inspection;
pub(crate) mod installation;
mod json;
pub mod lint;
pub mod manifest;
pub mod nodes;
mod pointer;
pub mod policy;
pub mod policy_check;
pub mod policy_list;
pub mod policy_schema;
pub mod policy_set;
pub mod policy_test;
pub mod pools;
pub mod quantity;
pub mod registration;
pub mod rotation;
mod schema;
mod validate;
pub mod values;
pub mod work;
pub mod workload;
pub mod yaml;

pub use counted::counted;
