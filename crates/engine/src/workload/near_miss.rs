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
    pub const CODES: &[&str] = &[
        "misspelled_trigger",
        "trigger_as_label",
        "trigger_on_workload",
        "misplaced_trigger",
        "trigger_not_a_string",
        "other_trigger_value",
        "misspelled_gpu",
        "misplaced_gpu",
        "gpu_without_limit",
        "no_gpu_request",
        "peer_without_trigger",
        "different_nodes",
        WORKLOAD_WITHOUT_TRIGGER,
        "adapters_by_path",
        "data_over_tcp",
        "mesh_sidecar",
        "interface_not_in_pod",
        "other_gloo_interface",
        "small_shared_memory",
        "capability_prefix",
        "requested_by_hand",
        "not_checked",
    ];
}
