//! The verdicts about a rank or a job.

use std::fmt;

use serde::Serialize;

/// Which network carries the data between the nodes of a job. A later one counts before an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// None is needed.
    SingleNode,
    /// The fast network, or `NVLink` between nodes.
    Fabric,
    /// The log does not show it.
    Unknown,
    Tcp,
    /// Some ranks use the fabric, and others TCP.
    Mixed,
    /// The job ended.
    Crash,
}

/// The name in reports.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
