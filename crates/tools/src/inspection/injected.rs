//! The changes since a pod was injected: of the policy, or of the pod.

use std::sync::Arc;

use serde_json::Value;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{CLAIMS, NODES, Outcome, STAMP};
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;

/// The limit on named fields.
const MOST_FIELDS: usize = 3;

/// The changes since a pod was injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The policy in use has another digest.
    Policy { before: String, now: String },
    /// Fields that the policy would write again, or why it would refuse the pod.
    Pod(String),
}

/// Compares a pod of the cluster with the result of the policies in use. `None` if nothing has changed, or if no policy
/// injected the pod.
pub fn change(pod: &Value, policies: &PolicySet, nodes: Option<Arc<Nodes>>) -> Option<Change> {
    let before = pod["metadata"]["annotations"][STAMP].as_str()?;
    let (name, _) = before.split_once('@')?;
    let policy = policies.policies().iter().find(|policy| policy.name() == name);
    if policy.is_none_or(|policy| policy.stamp() != before) {
        let now = policy
            .map_or_else(|| format!("no policy `{name}` is in use"), |policy| policy.stamp().to_owned());
        return Some(Change::Policy { before: before.to_owned(), now });
    }
    let mut again = pod.clone();
    if let Some(spec) = again["spec"].as_object_mut() {
        spec.shift_remove("nodeName");
    }
    let namespace = pod["metadata"]["namespace"].as_str().map(str::to_owned);
    let context = PodContext { namespace, nodes, ..PodContext::default() };
    match mutate(policies, again, &context).outcome {
        Outcome::Mutated(mutated) => {
            let mut fields = mutated.operations().summary();
            fields.retain(|field| ![NODES, CLAIMS].iter().any(|key| field.contains(key)));
            let more = if fields.len() > MOST_FIELDS { ", …" } else { "" };
            let shown = fields.iter().take(MOST_FIELDS).map(String::as_str).collect::<Vec<_>>().join(", ");
            (!fields.is_empty()).then(|| Change::Pod(shown + more))
        }
        Outcome::Refused { reason } => Some(Change::Pod(reason.to_string())),
        Outcome::Skipped { .. } | Outcome::Unchanged { .. } => None,
    }
}
