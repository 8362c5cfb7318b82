//! The program around the crates below `crates`: the command line, the server, the reconciler of its registration,
//! files and telemetry.
//!
//! These modules are for the program and its tests, and change without notice.

#![doc(hidden)]

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
