//! Metrics, log and traces of a server.

pub mod logs;
mod metrics;
mod process;
#[cfg_attr(not(feature = "otlp"), path = "telemetry/no_traces.rs")]
pub(crate) mod traces;

pub use metrics::Metrics;
pub(crate) use metrics::{Answered, CERTIFICATE, INTERNAL, POLICIES, Reloaded, Shed};
