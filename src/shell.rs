//! The shells around the core: the command line, the server, the reconciler of its registration, and the files and
//! telemetry that they use.

pub mod authority;
pub mod builtin;
pub mod cli;
pub mod cluster;
mod files;
mod pem;
pub mod policy_sources;
pub mod server;
pub mod stream;
pub mod telemetry;
