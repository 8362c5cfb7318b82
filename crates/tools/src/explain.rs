//! The explanation of a policy, and of the injection of a pod: facts, and their form as text.
//!
//! `policy` has the facts about a policy, and `pod` those about the injection of a pod. They only read: the record of
//! the engine has the outcome of each value.

mod columns;
mod parameters;
mod pod;
mod policy;

pub use columns::Text;
pub use fabric_engine::{ConditionFact, Read};
pub use parameters::{FileLine, ParameterFact, SourceKind, Sources, ValueFact};
pub use pod::{
    Explainer, FieldFact, MatchFact, PartFact, PodFact, PodParameter, ReasonFact, RuleResult, VariableValue,
    WarningFact, pod_text,
};
pub use policy::{NeedFact, NeedKind, PolicyFact, RuleFact, policy, policy_text};

/// The version of the JSON form, which changes if a field is removed or changes its meaning.
pub const VERSION: u32 = 5;
