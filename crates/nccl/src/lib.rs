//! Which network a job used, and why: read from the logs of its pods.
//!
//! The tables below `signatures` give the meaning of log lines. [`Log`] reads lines into the facts of each process,
//! [`Diagnosis`] groups processes into jobs and judges them. The state of a pod and the counters of its adapters are
//! added to its log.
//!
//! This crate depends neither on policies nor on the engine. No pattern of a log is in its code.

mod bandwidth;
mod counters;
mod groups;
mod jobs;
mod log;
mod origin;
mod pods;
mod process;
mod ranks;
mod reasons;
mod report;
mod signatures;
mod tables;
mod verdict;

pub use counters::SCRIPT as COUNTERS;
pub use jobs::{Diagnosis, Job};
pub use log::Log;
pub use pods::{container_with_devices, devices_gone, folder_of_log};
pub use report::text;
pub use signatures::{Signatures, SignaturesError};
pub use verdict::Verdict;
