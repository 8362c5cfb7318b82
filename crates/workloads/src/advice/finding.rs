//! A finding about a workload.

/// The code of a workload that spans nodes and does not request the fabric.
pub const WORKLOAD_WITHOUT_TRIGGER: &str = "workload_without_trigger";

/// A request for the fabric that has no effect, and the change that gives it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearMiss {
    /// The stable code, one of [`NearMiss::CODES`].
    pub code: &'static str,
    /// JSON Pointer from the document's root to the key that must change.
    pub pointer: String,
    /// The change, and the reason for it.
    pub message: String,
}

impl NearMiss {
    pub const CODES: &[&str] = fabric_engine::FINDINGS;
}
