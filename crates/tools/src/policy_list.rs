//! The facts about a policy for programs that do not evaluate policies, such as the chart.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use fabric_policy::{Definition, Parameter};

/// A policy with the parts that it inherits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedPolicy {
    pub name: String,
    pub provider: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    pub gpu_resources: Vec<String>,
    pub r#match: ListedMatch,
    pub parameters: BTreeMap<String, ListedParameter>,
}

/// The `match` of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedMatch {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub any_annotation: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub except_annotation: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_kinds: Vec<String>,
    /// The policy has a `when`, which only the engine evaluates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub when: bool,
}

/// The values that a parameter can have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedParameter {
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// The bounds of the values of a parameter, or of the length of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Value>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<String>>,
}

impl Bounds {
    pub(crate) fn new(parameter: &Parameter) -> Self {
        Self {
            minimum: parameter.minimum.clone(),
            maximum: parameter.maximum.clone(),
            one_of: parameter.one_of.clone(),
        }
    }
}

/// The facts about a policy.
pub fn listed(definition: &Definition) -> ListedPolicy {
    let matcher = &definition.matcher;
    let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect();
    let parameters = definition.parameters.iter();
    ListedPolicy {
        name: definition.name.clone(),
        provider: definition.provider.clone(),
        description: definition.description.clone(),
        extends: definition.extends.clone(),
        gpu_resources: definition.gpus.resources.clone(),
        r#match: ListedMatch {
            any_annotation: map(&matcher.any_annotation),
            except_annotation: map(&matcher.except_annotation),
            labels: map(&matcher.labels),
            namespaces: matcher.namespaces.clone(),
            owner_kinds: matcher.owner_kinds.clone(),
            when: matcher.when.is_some(),
        },
        parameters: parameters.map(|one| (one.name.clone(), listed_parameter(one))).collect(),
    }
}

fn listed_parameter(parameter: &Parameter) -> ListedParameter {
    ListedParameter { kind: parameter.kind.name(), bounds: Bounds::new(parameter) }
}
