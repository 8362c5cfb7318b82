//! The namespaces whose pods are injected: what they refuse, and who else changes their pods.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::engine::Outcome;
use crate::core::nodes::holds;
use crate::core::policy::Policy;
use crate::core::policy_set::{PolicySet, mutate};
use crate::core::validate;

use super::pod_security::forbidden;
use super::{Facts, Line, Read, Release, items, name, names};

/// The label with the level that a namespace enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// The namespaces whose pods the webhook gets.
fn in_scope<'f>(namespaces: &'f Value, entry: &'f Value) -> impl Iterator<Item = &'f Value> {
    let selector = &entry["namespaceSelector"];
    items(namespaces).filter(|namespace| selects(selector, &namespace["metadata"]["labels"]))
}

/// The namespace for a dry run: `default` if the webhook gets its pods, else the first such namespace, of those that
/// the policy names if it names some. `None` if the webhook gets no pods.
pub fn probe_namespace(
    release: &Release<'_>,
    namespaces: &Read,
    policies: &Read<PolicySet>,
) -> Option<String> {
    let (Ok(namespaces), Some(webhook)) = (namespaces, release.webhook) else {
        return Some("default".to_owned());
    };
    let policy = policies.as_ref().ok().and_then(|policies| policies.policies().first());
    let mut found: Vec<&str> = in_scope(namespaces, &webhook["webhooks"][0]).map(name).collect();
    found.retain(|name| policy.is_none_or(|policy| takes(policy, name)));
    found.sort_by_key(|name| (*name != "default", *name));
    found.first().map(|name| (*name).to_owned())
}

/// Returns whether a policy injects pods of a namespace.
fn takes(policy: &Policy, namespace: &str) -> bool {
    let only = &policy.definition().matcher.namespaces;
    only.is_empty() || only.iter().any(|name| name == namespace)
}

/// Returns whether a label selector selects an object with these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    equal.all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|one| holds(one, label(one["key"].as_str().unwrap_or_default())))
}

/// Finds the namespaces that refuse what the policies in use add.
pub(super) fn pod_security(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "pod-security";
    let Some(webhook) = release.webhook else { return Line::without(CHECK, "the webhook") };
    let namespaces = match &facts.namespaces {
        Ok(namespaces) => namespaces,
        Err(error) => return Line::unread(CHECK, error),
    };
    let Ok(policies) = &facts.policies else { return Line::without(CHECK, "a policy that can be loaded") };
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for namespace in in_scope(namespaces, &webhook["webhooks"][0]) {
        let Some(level) =
            namespace["metadata"]["labels"][ENFORCE].as_str().filter(|level| *level != "privileged")
        else {
            continue;
        };
        for policy in policies.policies().iter().filter(|policy| takes(policy, name(namespace))) {
            let refused = refused(level, policies, policy);
            if !refused.is_empty() {
                let what = format!("`{level}` refuses what `{}` adds: {}", policy.name(), refused.join(", "));
                found.entry(what).or_default().push(name(namespace));
            }
        }
    }
    if found.is_empty() {
        return Line::ok(CHECK, "no namespace enforces a level that refuses what the policies add");
    }
    let of = |(what, namespaces): (String, Vec<&str>)| format!("{what}, in {}", names(namespaces));
    let seen: Vec<String> = found.into_iter().map(of).collect();
    let remedy = "for namespaces with such jobs, leave the fields out by parameters, or see docs/pod-security.md for an \
                  exception; for others, there is nothing to do";
    Line::warn(CHECK, seen.join("\n"), remedy)
}

/// The values that a policy adds to its sample pod, and that a level forbids.
fn refused(level: &str, policies: &PolicySet, policy: &Policy) -> Vec<String> {
    let sample = validate::sample(policy);
    let before = forbidden(level, &sample);
    match mutate(policies, sample, &validate::context(policy)).outcome {
        Outcome::Mutated(injected) => forbidden(level, &injected.pod).difference(&before).cloned().collect(),
        _ => Vec::new(),
    }
}

/// Names the webhooks that the API server calls after this one for the same pods.
pub(super) fn other_webhooks(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "other-webhooks";
    let Some(webhook) = release.webhook else { return Line::without(CHECK, "the webhook") };
    let (all, namespaces) = match (&facts.webhooks, &facts.namespaces) {
        (Err(error), _) | (_, Err(error)) => return Line::unread(CHECK, error),
        (Ok(all), Ok(namespaces)) => (all, namespaces),
    };
    let entry = &webhook["webhooks"][0];
    let mut found = Vec::new();
    for other in items(all).filter(|other| name(other) != name(webhook)) {
        // The API server calls configurations in the order of their names.
        let comes_later = name(other) > name(webhook);
        for theirs in other["webhooks"].as_array().into_iter().flatten() {
            let is_called = comes_later || theirs["reinvocationPolicy"] == "IfNeeded";
            let mut shared = in_scope(namespaces, entry)
                .filter(|namespace| selects(&theirs["namespaceSelector"], &namespace["metadata"]["labels"]));
            if is_called && gets_pods(theirs) && shared.next().is_some() {
                found.push(format!("{}/{}", name(other), theirs["name"].as_str().unwrap_or_default()));
            }
        }
    }
    if found.is_empty() {
        return Line::ok(CHECK, "no other webhook is called after this one for the same pods");
    }
    let seen = format!(
        "called after this one for pods of the same namespaces: {}",
        names(found.iter().map(String::as_str))
    );
    let remedy = "nothing, as long as they leave the fields of the policies alone: the server is called again for a pod \
                  that they have changed";
    Line::warn(CHECK, seen, remedy)
}

/// Returns whether a rule of a webhook has the creation of pods.
fn gets_pods(webhook: &Value) -> bool {
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    rules.any(|rule| {
        [("apiGroups", ""), ("apiVersions", "v1"), ("resources", "pods"), ("operations", "CREATE")]
            .into_iter()
            .all(|(key, wanted)| {
                let mut values = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                values.any(|value| value == wanted || value == "*" || key == "resources" && value == "*/*")
            })
    })
}
