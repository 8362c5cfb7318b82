//! The program around the core: the command line, the server, the reconciler of its registration, files and telemetry.

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
