//! `NetworkPolicies` that keep the pods of a job from each other.

use std::collections::HashMap;

use serde_json::Value;

use fabric_policy::nodes::is_met;
use fabric_yaml::json::items;

use super::{Finding, Level};

/// The policies of an input, by namespace.
#[derive(Debug, Default)]
pub(super) struct NetworkPolicies(HashMap<String, Vec<Value>>);

impl NetworkPolicies {
    pub(super) fn add(&mut self, namespace: String, policy: &Value) {
        self.0.entry(namespace).or_default().push(policy.clone());
    }

    /// Finds a policy that selects a pod, in a namespace whose policies do not admit all traffic between such pods. Ranks
    /// use any port.
    pub(super) fn blocking(&self, namespace: &str, pod: &Value) -> Option<Finding> {
        if pod["spec"]["hostNetwork"] == true {
            return None;
        }
        let labels = &pod["metadata"]["labels"];
        let policies = self.0.get(namespace)?;
        [("Ingress", "ingress", "from"), ("Egress", "egress", "to")].into_iter().find_map(|(kind, rules, peers)| {
            let selects = |policy: &&Value| {
                let spec = &policy["spec"];
                let types = items(spec, "policyTypes");
                let is_kind = if types.is_empty() {
                    kind == "Ingress" || !spec[rules].is_null()
                } else {
                    types.iter().any(|one| one == kind)
                };
                is_kind && matches(&spec["podSelector"], labels, false)
            };
            let selecting: Vec<&Value> = policies.iter().filter(selects).collect();
            let admits = |policy: &&Value| {
                items(&policy["spec"], rules).iter().any(|rule| {
                    let ports = items(rule, "ports");
                    let all = items(rule, peers);
                    (ports.is_empty() || ports.iter().any(is_all)) && (all.is_empty() || all.iter().any(|peer| may_be(peer, labels)))
                })
            };
            let first = selecting.first().filter(|_| !selecting.iter().any(admits))?;
            let name = first["metadata"]["name"].as_str().unwrap_or_default();
            let message = format!(
                "admit all ports between the pods of the job: the NetworkPolicy `{name}` selects them for {kind}, and none \
                 of this input admits it, so that its ranks do not find each other"
            );
            Some(Finding::new(Level::Warning, "network_policy", "", message))
        })
    }
}

/// Returns whether an entry admits all ports that a process gets without privileges.
fn is_all(port: &Value) -> bool {
    let (first, last) = (port["port"].as_i64(), port["endPort"].as_i64());
    port["port"].is_null()
        || first.is_some_and(|first| first <= 1024) && last.is_some_and(|last| last >= 65_535)
}

/// Returns whether a peer of a rule can be a pod with these labels, in the same namespace. Addresses, and the labels of
/// namespaces and of controllers, are not known.
fn may_be(peer: &Value, labels: &Value) -> bool {
    !peer["ipBlock"].is_null() || peer["podSelector"].is_null() || matches(&peer["podSelector"], labels, true)
}

/// Returns whether a selector selects these labels, with an answer for a label that they lack, since a controller may
/// add it.
fn matches(selector: &Value, labels: &Value, of_absent: bool) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let is_met = |one: &Value| {
        let value = labels[one["key"].as_str().unwrap_or_default()].as_str();
        value.map_or(of_absent, |value| is_met(one, Some(value)))
    };
    equal.all(|(name, wanted)| labels.get(name).map_or(of_absent, |value| value == wanted))
        && items(selector, "matchExpressions").iter().all(is_met)
}
