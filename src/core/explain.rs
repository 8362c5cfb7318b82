//! The explanation of a policy, and of the injection of a pod: facts, and their form as text.
//!
//! The facts are read off the policy, off the trace of an injection, and off its conditions, which are evaluated again.

mod additions;
mod condition;
mod constants;
mod fields;
mod matching;
mod needs;
mod parameters;
mod place;
mod pod;
mod pod_text;
mod policy;
mod policy_text;
mod rules;
mod split;
mod text;

pub use additions::{AdditionFact, RuleFact};
pub use condition::{ConditionFact, Operand, Read};
pub use fields::FieldFact;
pub use matching::{MatchFact, PartFact};
pub use needs::{NeedFact, NeedKind};
pub use parameters::{ParameterFact, SourceKind, Sources, ValueFact};
pub use place::Place;
pub use pod::{ContainerFact, Explainer, NodeFact, PodFact, PodParameter, ReasonFact, WarningFact};
pub use pod_text::pod_text;
pub use policy::{
    FabricFact, GpuFact, MessageFact, PolicyFact, SettingsFact, TriggerFact, VariableFact, policy,
};
pub use policy_text::policy_text;
pub use rules::{ContainerCondition, RuleResult, VariableValue};

/// The version of the JSON form, which changes if a field is removed or changes its meaning.
pub const VERSION: u32 = 1;
