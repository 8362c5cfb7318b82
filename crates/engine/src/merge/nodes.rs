//! What a rule says about nodes next to what the pod says: a pod that no node meets by both does not start.

use serde_json::{Value, json};

use fabric_policy::PodContext;
use fabric_policy::matcher::{current, spellings};
use fabric_policy::nodes::{expressions, is_met, terms};
use fabric_policy::work::goes_on;

use super::rule::Merge;
use crate::analysis::copy;
use crate::record::{Cursor, OrReason};
use fabric_yaml::json::items;

/// The field of a pod's affinity that excludes nodes.
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The steps to read a requirement, without its values.
const STEPS_OF_REQUIREMENT: usize = 20;

/// The fields with which a rule chooses the nodes of a pod.
pub(super) const FIELDS: [&str; 2] = ["nodeSelector", "affinity"];

/// What a pod says about its nodes.
pub(super) fn choice_of(pod: &Value, context: &PodContext) -> OrReason<Value> {
    let field = |name: &str| copy(&pod["spec"][name], context);
    let (name, selector, affinity) = (field("nodeName")?, field("nodeSelector")?, field("affinity")?);
    Ok(json!({"nodeName": name, "nodeSelector": selector, "affinity": affinity}))
}

impl Merge<'_, '_> {
    /// What the pod has that excludes the nodes with a label, which a rule adds to a node selector.
    pub(super) fn excludes_label(&self, selector: &Cursor<'_>, key: &str, value: &str) -> Option<String> {
        let own = |name: &str| spellings(name).find_map(|name| selector.get(name)?.as_str());
        let label = |name: &str| if current(name) == current(key) { Some(value) } else { own(name) };
        // Both are labels of each node, with the same value.
        let other = spellings(key).filter(|name| *name != key);
        let mut other = other.filter_map(|name| Some((name, selector.get(name)?.as_str()?)));
        let mut unmet = self.unmet(terms(&self.pod.nodes), label).into_iter();
        self.node_name()
            .or_else(|| other.find(|(_, own)| *own != value).map(|(name, own)| format!("{name}: {own}")))
            .or_else(|| unmet.find(|one| current(key_of(one)) == current(key)).map(brief))
    }

    /// What the pod has that excludes all nodes of an affinity, which a rule requires.
    pub(super) fn excludes_affinity(&self, wanted: &Value) -> Option<String> {
        let selector = &self.pod.nodes["nodeSelector"];
        let label = |name: &str| spellings(name).find_map(|name| selector[name].as_str());
        let unmet = self.unmet(wanted["nodeSelectorTerms"].as_array()?, label);
        let own = |one: &&Value| Some(format!("{}: {}", key_of(one), label(key_of(one))?));
        self.node_name().or_else(|| unmet.iter().find_map(own))
    }

    /// The node that the pod is bound to. Only its kubelet reads the other fields, to refuse the pod.
    fn node_name(&self) -> Option<String> {
        let name = self.pod.nodes["nodeName"].as_str().filter(|name| !name.is_empty());
        name.map(|name| format!("nodeName: {name}"))
    }

    /// The requirements that nodes with some labels do not meet, if each term has one. Of a label without a value, nothing
    /// is known. A term without requirements matches no node.
    fn unmet<'t, 'v>(&self, terms: &'t [Value], label: impl Fn(&str) -> Option<&'v str>) -> Vec<&'t Value> {
        let is_unmet = |one: &&Value| {
            let steps = STEPS_OF_REQUIREMENT + items(one, "values").len();
            goes_on(self.analysis.work.as_ref(), steps)
                && label(key_of(one)).is_some_and(|value| !is_met(one, Some(value)))
        };
        let mut unmet = Vec::new();
        for term in terms {
            let before = unmet.len();
            unmet.extend(expressions(term).filter(is_unmet));
            let is_empty =
                ["matchExpressions", "matchFields"].iter().all(|list| items(term, list).is_empty());
            if unmet.len() == before && !is_empty {
                return Vec::new();
            }
        }
        unmet
    }
}

fn key_of(requirement: &Value) -> &str {
    requirement["key"].as_str().unwrap_or_default()
}

/// A requirement of an affinity for a message, without all of its values.
fn brief(requirement: &Value) -> String {
    let operator = requirement["operator"].as_str().unwrap_or_default();
    let values = items(requirement, "values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    format!("nodeAffinity: {} {operator} {values}", key_of(requirement)).trim_end().to_owned()
}
