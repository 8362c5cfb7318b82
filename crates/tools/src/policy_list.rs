//! The facts about a policy for programs that do not evaluate policies, such as the chart.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use fabric_policy::{Definition, Parameter};

/// The bounds of the values of a parameter, or of the length of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The facts about a policy, with the parts that it inherits.
pub fn listed(definition: &Definition) -> Value {
    let matcher = &definition.matcher;
    let map = |pairs: &[(String, String)]| json!(pairs.iter().cloned().collect::<BTreeMap<_, _>>());
    let listed = |one: &Parameter| ListedParameter { kind: one.kind.name(), bounds: Bounds::new(one) };
    let parameters = definition.parameters.iter().map(|one| (&one.name, listed(one)));
    let mut listed = json!({
        "name": definition.name,
        "provider": definition.provider,
        "description": definition.description,
        "extends": definition.extends,
        "gpuResources": definition.gpus.resources,
        "match": {
            "anyAnnotation": map(&matcher.any_annotation),
            "exceptAnnotation": map(&matcher.except_annotation),
            "labels": map(&matcher.labels),
            "namespaces": matcher.namespaces,
            "ownerKinds": matcher.owner_kinds,
            // Only the engine evaluates it.
            "when": matcher.when.is_some(),
        },
        "parameters": parameters.collect::<BTreeMap<_, _>>(),
    });
    let is_empty = |value: &Value| [json!({}), json!([]), json!(false)].contains(value);
    if let Some(parts) = listed["match"].as_object_mut() {
        parts.retain(|_, part| !is_empty(part));
    }
    if let Some(facts) = listed.as_object_mut() {
        facts.retain(|_, fact| !fact.is_null());
    }
    listed
}

/// The values that a parameter can have.
#[derive(Serialize)]
struct ListedParameter {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    bounds: Bounds,
}
