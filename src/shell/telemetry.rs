//! Metrics, log and traces of a server.

pub mod logs;
mod metrics;
mod process;
#[cfg_attr(not(feature = "otlp"), path = "telemetry/no_traces.rs")]
pub mod traces;

pub use metrics::{Answered, Metrics, Reloaded, Shed};
