//! The evaluation of a policy for a pod: the condition of the policy, and the rules that apply to each container.
//!
//! It reads the analysis and changes nothing. The merge evaluates the values that the rules add.

mod condition;
mod rules;
mod scope;

pub use condition::{analyse_named, analysis_if_condition_is_true, condition_values, has_gpus_or_rules};
pub(super) use rules::{Row, Rules, State, failed, rule_that_joins_host};
pub(super) use scope::Scope;
