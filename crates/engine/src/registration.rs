//! The registration of the webhook and of the guard.
//!
//! Their conditions are generated from the policies in use. The API server and the engine therefore agree about the
//! pods that a policy matches. The chart generates the same text; a test compares both. Servers write `caBundle` only.

mod conditions;
mod configuration;

pub use conditions::{ASKS, MATCHES, advice_condition, guard_conditions, webhook_conditions};
pub use configuration::is_managed_by;
pub use configuration::{ca_bundle, ca_bundle_changes, differing_condition, service};

/// One of the `matchConditions` of a webhook or of a ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The name, which identifies the condition in an object.
    pub name: &'static str,
    /// The expression, in CEL.
    pub expression: String,
}
