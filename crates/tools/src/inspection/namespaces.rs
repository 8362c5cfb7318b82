//! The namespaces whose pods are injected: the Pod Security levels that they enforce, and other webhooks that change
//! their pods.

use serde_json::Value;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{Outcome, STAMP, validate};
use fabric_policy::Policy;
use fabric_policy::nodes::is_met;

use super::pod_security::forbidden;
use super::{Finding, Found, Read, Seen, list, name, names, ok, text, unread, warn};

/// The label with the level that a namespace enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Returns whether a webhook gets the pods of a namespace.
pub(super) fn selects(webhook: &Value, namespace: &Value) -> bool {
    let label = |key: &str| namespace["metadata"]["labels"].get(key).and_then(Value::as_str);
    let selector = &webhook["namespaceSelector"];
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    equal.all(|(key, value)| label(key) == value.as_str())
        && list(selector, "matchExpressions").all(|one| is_met(one, label(text(one, "key"))))
}

/// Returns whether a namespace of this name is known to enforce the level `restricted`.
pub fn is_restricted(namespaces: &Read, wanted: &str) -> bool {
    let mut all = namespaces.iter().flat_map(|all| list(all, "items"));
    all.any(|one| name(one) == wanted && one["metadata"]["labels"][ENFORCE] == "restricted")
}

/// Returns whether a namespace enforces a level that may refuse additions of policies.
pub(super) fn enforces_level(namespace: &Value) -> bool {
    let level = &namespace["metadata"]["labels"][ENFORCE];
    level == "baseline" || level == "restricted"
}

/// Returns whether a policy injects pods of a namespace.
pub(super) fn takes(policy: &Policy, namespace: &str) -> bool {
    let only = &policy.definition().matcher.namespaces;
    only.is_empty() || only.iter().any(|name| name == namespace)
}

/// The namespaces whose pods the webhook gets.
pub(super) fn in_scope<'f>(seen: &Seen<'f>) -> Result<impl Iterator<Item = &'f Value> + use<'f>, Finding> {
    let webhook = &seen.webhook()?["webhooks"][0];
    let all = seen.facts.namespaces.as_ref().map_err(unread)?;
    Ok(list(all, "items").filter(move |namespace| selects(webhook, namespace)))
}

/// Finds the namespaces that refuse additions of the policies in use.
pub(super) fn pod_security(seen: &Seen<'_>) -> Found {
    let policies = seen.policies()?;
    let mut found = Vec::new();
    for level in ["baseline", "restricted"] {
        let enforces = |namespace: &&Value| namespace["metadata"]["labels"][ENFORCE] == level;
        let namespaces: Vec<&str> = in_scope(seen)?.filter(enforces).map(name).collect();
        for policy in seen.chosen(policies) {
            let namespaces: Vec<&str> =
                namespaces.iter().copied().filter(|name| takes(policy, name)).collect();
            let refused = refused(level, policies, policy).join(", ");
            if !namespaces.is_empty() && !refused.is_empty() {
                let (policy, namespaces) = (policy.name(), names(namespaces));
                found.push(format!("`{level}` refuses what `{policy}` adds: {refused}, in {namespaces}"));
            }
        }
    }
    if found.is_empty() {
        return ok("no namespace enforces a level that refuses what the policies add");
    }
    let remedy = "for namespaces with such jobs, leave the fields out by parameters, or see docs/pod-security.md for an \
                  exception; for others, there is nothing to do";
    warn(found.join("\n"), remedy)
}

/// The sample pod of a policy, as the policy injects it.
pub(super) fn injected_sample(policies: &PolicySet, policy: &Policy) -> Option<Value> {
    let mut sample = validate::sample(policy);
    // A pod with the stamp of a policy keeps its provider, whatever the nodes are.
    sample["metadata"]["annotations"][STAMP] = policy.stamp().into();
    match mutate(policies, sample, &validate::context(policy)).outcome {
        Outcome::Mutated(injected) => Some(injected.pod),
        _ => None,
    }
}

/// The values that a policy adds to its sample pod, and that a level forbids.
fn refused(level: &str, policies: &PolicySet, policy: &Policy) -> Vec<String> {
    let before = forbidden(level, &validate::sample(policy));
    let injected = injected_sample(policies, policy).map(|pod| forbidden(level, &pod)).unwrap_or_default();
    injected.difference(&before).cloned().collect()
}

/// Names the webhooks that the API server calls after this one for the same pods.
pub(super) fn other_webhooks(seen: &Seen<'_>) -> Found {
    let own = name(seen.webhook()?);
    let namespaces: Vec<&Value> = in_scope(seen)?.collect();
    let all = seen.facts.webhooks.iter().flat_map(|all| list(all, "items"));
    let mut found = Vec::new();
    for other in all.filter(|other| name(other) != own) {
        let later = list(other, "webhooks").filter(|entry| {
            // The API server calls them by name (`mutating_webhook_manager.go`), and some a second time.
            (name(other) > own || entry["reinvocationPolicy"] == "IfNeeded")
                && gets_pods(entry)
                && namespaces.iter().any(|namespace| selects(entry, namespace))
        });
        found.extend(later.map(|entry| format!("{}/{}", name(other), text(entry, "name"))));
    }
    if found.is_empty() {
        return ok("no other webhook is called after this one for the same pods");
    }
    let found = names(found);
    let remedy = "nothing, as long as they leave the fields of the policies alone, for which the server is called again, \
                  and annotate no pod on behalf of its author: such a pod is not injected, unless the webhook has a name \
                  before this one";
    warn(format!("called after this one for pods of the same namespaces: {found}"), remedy)
}

/// Returns whether a rule of a webhook includes the creation of pods.
fn gets_pods(webhook: &Value) -> bool {
    list(webhook, "rules").any(|rule| {
        let has = |key, wanted: &[&str]| {
            list(rule, key).any(|value| value == "*" || wanted.iter().any(|wanted| value == wanted))
        };
        has("apiGroups", &[""])
            && has("apiVersions", &["v1"])
            && has("resources", &["pods", "*/*"])
            && has("operations", &["CREATE"])
    })
}
