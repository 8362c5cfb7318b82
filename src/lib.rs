//! The program around the crates in `crates`. It reads and prints; they decide.
//!
//! | to change | look at |
//! |---|---|
//! | a command, an option, what is printed | [`cli`] |
//! | HTTPS, limits, health, reloads | [`server`] |
//! | what is read from an API server or written to it | [`cluster`] |
//! | logs, metrics, traces | [`telemetry`] |
//! | which policies are in use, and the built-in ones | [`policy_sources`], [`builtin`] |
//!
//! These modules are for the program and its tests, and change without notice.

#![doc(hidden)]
// The commands in `cli::host` use the rest.
#![cfg_attr(target_family = "wasm", allow(dead_code))]

#[cfg(not(target_family = "wasm"))]
pub mod authority;
pub mod builtin;
pub mod cli;
#[cfg_attr(target_family = "wasm", path = "no_cluster.rs")]
pub mod cluster;
mod files;
#[cfg(not(target_family = "wasm"))]
mod pem;
pub mod policy_sources;
#[cfg(not(target_family = "wasm"))]
pub mod server;
pub mod stream;
#[cfg(not(target_family = "wasm"))]
pub mod telemetry;
