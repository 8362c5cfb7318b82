//! fabric-injector.
pub mod yaml;
