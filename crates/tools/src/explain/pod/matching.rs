//! The parts of `match` of a policy, each with the value that a pod has.

use serde::Serialize;
use serde_json::Value;

use fabric_policy::matcher::namespace_of;
use fabric_policy::{Matcher, PodContext, Policy};

use fabric_engine::ConditionFact;

/// A policy that was considered for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatchFact {
    pub policy: String,
    /// True if each part holds.
    pub matches: bool,
    pub parts: Vec<PartFact>,
    /// The condition `match.when`, if the other parts hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
}

/// One key of `match`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartFact {
    pub key: &'static str,
    pub wanted: Vec<String>,
    /// The values of the pod; empty if it has none.
    pub seen: Vec<String>,
    pub holds: bool,
}

/// The keys of `match` except `when`.
pub(super) fn parts(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<PartFact> {
    let matcher = &policy.definition().matcher;
    let metadata = &pod["metadata"];
    let mut parts = Vec::new();
    let mut add = |key, wanted: Vec<String>, seen: Vec<String>, holds| {
        if !wanted.is_empty() {
            parts.push(PartFact { key, wanted, seen, holds });
        }
    };
    add(
        "anyAnnotation",
        pairs(&matcher.any_annotation),
        seen_annotations(&matcher.any_annotation, metadata),
        matcher.is_triggered(&metadata["annotations"], context),
    );
    add(
        "exceptAnnotation",
        pairs(&matcher.except_annotation),
        seen_annotations(&matcher.except_annotation, metadata),
        matcher.exception(&metadata["annotations"]).is_none(),
    );
    add(
        "labels",
        pairs(&matcher.labels),
        seen_labels(matcher, metadata, context),
        matcher.labels_hold(&metadata["labels"], context),
    );
    add(
        "namespaces",
        matcher.namespaces.clone(),
        vec![namespace_of(metadata, context).to_owned()],
        matcher.namespace_holds(metadata, context),
    );
    add(
        "ownerKinds",
        matcher.owner_kinds.clone(),
        owners(metadata, context),
        matcher.owners_hold(&metadata["ownerReferences"], context),
    );
    parts
}

fn pairs(pairs: &[(String, String)]) -> Vec<String> {
    pairs.iter().map(|(key, value)| format!("{key}: {value}")).collect()
}

fn pair(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{key}: {text}")),
        // An annotation that YAML reads as a boolean or a number.
        other => Some(format!("{key}: {other} (not a string)")),
    }
}

fn seen_annotations(wanted: &[(String, String)], metadata: &Value) -> Vec<String> {
    wanted.iter().filter_map(|(key, _)| pair(key, &metadata["annotations"][key.as_str()])).collect()
}

fn seen_labels(matcher: &Matcher, metadata: &Value, context: &PodContext) -> Vec<String> {
    let of = |(key, _): &(String, String)| {
        let given = context.labels.iter().find(|(name, _)| name == key);
        pair(key, &metadata["labels"][key.as_str()])
            .or_else(|| given.map(|(key, value)| format!("{key}: {value}")))
    };
    matcher.labels.iter().filter_map(of).collect()
}

fn owners(metadata: &Value, context: &PodContext) -> Vec<String> {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let kinds = references.filter_map(|owner| owner["kind"].as_str().map(str::to_owned));
    context.owner_kinds.iter().cloned().chain(kinds).collect()
}
