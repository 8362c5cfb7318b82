//! The rules of a policy, and the fields that they add.

use serde::Serialize;
use serde_json::Value;

use crate::core::policy::{OnConflict, Policy, Rule};

use super::condition::source;
use super::constants::constants;
use super::overlay::{self, OverlayField};
use super::path::text;
use super::place::{Files, Place};

/// A rule, with the fields that it adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleFact {
    pub name: String,
    pub place: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The value of `when` if it is the same for every pod with these parameters.
    pub applies: Option<bool>,
    /// The condition for each container.
    pub containers: String,
    pub requires_pod_network: bool,
    pub on_conflict: &'static str,
    /// The fields of each selected container.
    pub container: Vec<AdditionFact>,
    /// The fields of the pod.
    pub pod: Vec<AdditionFact>,
}

/// A field that a rule adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdditionFact {
    /// The path from the container or the pod.
    pub path: String,
    /// The value as the policy has it.
    pub value: Value,
    /// The value with these parameters, if it is the same for every pod; `null` if the field is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
}

/// The condition of rules and settings without `containers`.
pub(super) const GPU_CONTAINERS: &str = "gpus > 0";

/// The rules of a policy with the values of its parameters.
pub(super) fn rules(policy: &Policy, files: &Files<'_>) -> Vec<RuleFact> {
    let constants = constants(policy);
    let additions = |fields: Vec<OverlayField>| -> Vec<AdditionFact> {
        let addition = |field: OverlayField| AdditionFact {
            path: text(&field.path),
            value: field.written,
            constant: field.error.is_none().then(|| field.value.unwrap_or(Value::Null)),
        };
        fields.into_iter().map(addition).collect()
    };
    let fact = |rule: &Rule| RuleFact {
        name: rule.name.clone(),
        place: files.item("rules", "name", &rule.name),
        when: rule.when.as_ref().map(source),
        applies: rule.when.as_ref().map_or(Some(true), |when| when.holds(&constants).ok()),
        containers: rule.containers.as_ref().map_or_else(|| GPU_CONTAINERS.to_owned(), source),
        requires_pod_network: rule.requires_pod_network,
        on_conflict: match rule.on_conflict {
            OnConflict::Keep => "keep",
            OnConflict::Replace => "replace",
            OnConflict::Refuse => "refuse",
        },
        container: additions(overlay::of_container(&rule.container, Some(&constants))),
        pod: additions(overlay::of_pod(&rule.pod, Some(&constants))),
    };
    policy.definition().rules.iter().map(fact).collect()
}
