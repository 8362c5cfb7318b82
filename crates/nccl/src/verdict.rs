//! The verdicts about a rank or a job.

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

impl Verdict {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleNode => "single-node",
            Self::Fabric => "fabric",
            Self::Unknown => "unknown",
            Self::Tcp => "tcp",
            Self::Mixed => "mixed",
            Self::Crash => "crash",
        }
    }
}
