//! Which network a job used, and why: read from the logs of its pods.
//!
//! What lines say is in the tables below `signatures`. [`Log`] reads lines into the facts of each process, [`Diagnosis`]
//! groups processes into jobs and judges them. What a
//! pod and the counters of its adapters say is added to the log. Nothing here knows policies or the engine.

mod bandwidth;
mod counters;
mod facts;
mod groups;
mod jobs;
mod knowledge;
mod log;
mod origin;
mod pods;
mod report;
mod verdict;

pub use counters::SCRIPT as COUNTERS;
pub use jobs::{Diagnosis, Job};
pub use knowledge::{Knowledge, KnowledgeError};
pub use log::Log;
pub use pods::{container_with_devices, devices_gone};
pub use report::text;
pub use verdict::Verdict;
