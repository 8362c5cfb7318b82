//! The facts about a policy: what its files have, with the values of the parameters, and what it needs.
//!
//! They come from the definition and the values of the parameters, without a pod.

mod known;
mod needs;
mod text;

use serde::Serialize;
use serde_json::Value;

use fabric_policy::definition::entries;
use fabric_policy::{Policy, Rule};

use super::lines::{FileLine, in_file};
use super::parameters::{ParameterFact, Sources, declared};
use known::{constants, with_known_values};
use needs::needs;
pub use needs::{NeedFact, NeedKind};
pub use text::policy_text;

/// A policy with the values of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyFact {
    pub name: String,
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    pub parameters: Vec<ParameterFact>,
    /// The labels of `machines`, each with its rows. Those of an extension follow those of its base, which they precede
    /// in effect.
    pub machines: Vec<Value>,
    /// The rest of `spec`, with that of the files that it extends, and with values in place of the expressions that the
    /// parameters decide for every pod.
    pub spec: Value,
    /// The entries of `devices.add` and the rules.
    pub rules: Vec<RuleFact>,
    pub needs: Vec<NeedFact>,
}

/// A rule, or an entry of `devices.add`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleFact {
    pub name: String,
    pub place: FileLine,
    /// The value of `when` if it is the same for every pod with these parameters.
    pub applies: Option<bool>,
}

/// The facts about a policy with the values of its parameters.
pub fn policy(policy: &Policy, sources: &Sources<'_>) -> PolicyFact {
    let definition = policy.definition();
    let constants = constants(policy);
    let spec = with_known_values(definition, &constants);
    let rule = |rule: &Rule| RuleFact {
        name: rule.name.clone(),
        place: in_file(definition, rule.span),
        applies: rule.when.as_ref().map_or(Some(true), |when| when.is_true(&constants).ok()),
    };
    let machines = entries(definition.spec.get("machines")).iter();
    PolicyFact {
        name: definition.name.clone(),
        file: definition.file.clone(),
        extends: definition.extends.clone(),
        parameters: declared(policy, sources),
        machines: machines
            .map(|label| [(label.key.clone(), label.value.to_value())].into_iter().collect())
            .collect(),
        rules: definition.rules.iter().map(rule).collect(),
        needs: needs(policy, &spec),
        spec,
    }
}
