//! The registration of the webhook and of the guard.
//!
//! Their conditions are generated from the policies in use, so that the API server and the engine agree about the pods
//! that a policy matches. The chart generates the same text from the same files; a test compares both.

mod changes;
mod conditions;

pub use changes::{ConditionOwner, ca_bundle, guard_changes, service, webhook_changes};
pub(crate) use changes::{is_managed_by, register, register_guard};
pub use conditions::{MATCHES, guard_conditions, webhook_condition};

/// One of the `matchConditions` of a webhook or of a ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The name, which identifies the condition in an object.
    pub name: &'static str,
    /// The expression, in CEL.
    pub expression: String,
}
