//! How the webhook is registered with the API server: which pods it is asked about, and which pods the guard notices.
//!
//! Both follow from the policies in use, so that the API server and the engine cannot disagree about whom a policy is
//! for. The chart writes the same text from the same files; a test compares the two.

mod changes;
mod conditions;

pub use changes::{
    ConditionOwner, ca_bundle, guard_changes, is_managed_by, register, register_guard, service,
    webhook_changes,
};
pub use conditions::{GPUS, MATCHES, guard_conditions, webhook_condition};

/// One of the `matchConditions` of a webhook or of a ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// By this name it is found again.
    pub name: &'static str,
    /// CEL, as the API server reads it.
    pub expression: String,
}
