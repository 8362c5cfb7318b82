//! fabric-injector.
pub mod policy;
pub mod quantity;
pub mod yaml;
