//! A finding about a workload.

/// The code of a workload that spans nodes and does not request the fabric.
pub const WORKLOAD_WITHOUT_TRIGGER: &str = "workload_without_trigger";

/// The weight of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No action is needed.
    Note,
    /// The pods do not get everything that the policy has for them, or the workload requests the fabric without effect.
    Warning,
    /// The API server refuses the pods.
    Error,
}

/// A fact about a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The stable code; empty for advice that only `mutate` shows.
    pub code: String,
    /// JSON Pointer from the document's root, for a near miss to the key that must change.
    pub pointer: String,
    /// A sentence that names the field: the change, and the reason for it.
    pub message: String,
    /// The runtime from which a `TrainJob` takes its pod template. If the runtime requests the fabric, no action is
    /// needed.
    pub runtime: Option<String>,
}

impl Finding {
    /// A finding that does not depend on another document.
    pub fn new(level: Level, code: &str, pointer: impl Into<String>, message: String) -> Self {
        Self { level, code: code.to_owned(), pointer: pointer.into(), message, runtime: None }
    }

    /// A near miss: something that has no effect, or a bad one, and the change that it needs.
    pub(super) fn warning(code: &str, pointer: impl Into<String>, message: String) -> Self {
        Self::new(Level::Warning, code, pointer, message)
    }

    pub(crate) fn note(code: &str, pointer: impl Into<String>, message: String) -> Self {
        Self::new(Level::Note, code, pointer, message)
    }
}
