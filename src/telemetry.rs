//! What operators see of a running server: metrics and logs.

pub mod logs;
mod metrics;
mod process;

pub use metrics::{Answered, Metrics, Reloaded, Shed};
