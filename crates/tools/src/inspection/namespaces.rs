//! The namespaces whose pods are injected: the Pod Security levels that they enforce, and other webhooks that change
//! their pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{Outcome, STAMP, validate};
use fabric_policy::Policy;
use fabric_policy::nodes::is_met;

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
fn in_scope<'f>(seen: &Seen<'f>) -> Result<impl Iterator<Item = &'f Value> + use<'f>, Finding> {
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

/// The values that a policy adds to its sample pod, and that a level forbids.
fn refused(level: &str, policies: &PolicySet, policy: &Policy) -> Vec<String> {
    let mut sample = validate::sample(policy);
    let before = forbidden(level, &sample);
    // A pod with the stamp of a policy keeps its provider, whatever the nodes are.
    sample["metadata"]["annotations"][STAMP] = policy.stamp().into();
    match mutate(policies, sample, &validate::context(policy)).outcome {
        Outcome::Mutated(injected) => forbidden(level, &injected.pod).difference(&before).cloned().collect(),
        _ => Vec::new(),
    }
}

/// Names the webhooks that the API server calls after this one for the same pods.
pub(super) fn other_webhooks(seen: &Seen<'_>) -> Found {
    let own = name(seen.webhook()?);
    let namespaces: Vec<&Value> = in_scope(seen)?.collect();
    let all = seen.facts.webhooks.iter().flat_map(|all| list(all, "items"));
    let mut found = Vec::new();
    for other in all.filter(|other| name(other) != own) {
        let later = list(other, "webhooks").filter(|entry| {
            // The API server calls configurations in the order of their names, and some a second time.
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
    let remedy = "nothing, as long as they leave the fields of the policies alone: the server is called again for a pod \
                  that they have changed";
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

/// The capabilities that `baseline` allows.
const CAPABILITIES: &str = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID \
     SETPCAP SETUID SYS_CHROOT";
/// The sources of volumes that `restricted` allows.
const VOLUMES: &str = "configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret";

fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// The values of a pod that a level forbids. They do not include values that `restricted` requires and the pod lacks.
fn forbidden(level: &str, pod: &Value) -> BTreeSet<String> {
    let restricted = level == "restricted";
    let spec = &pod["spec"];
    let mut found = BTreeSet::new();
    let switches = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| spec[key] == true);
    found.extend(switches.map(|key| format!("`{key}`")));
    for volume in list(spec, "volumes") {
        let mut sources = volume.as_object().into_iter().flat_map(|volume| volume.keys());
        let source = sources.find(|key| *key != "name").map_or("emptyDir", String::as_str);
        if source == "hostPath" {
            found.insert(format!("the host path {}", volume["hostPath"]["path"]));
        } else if restricted && !has(VOLUMES, source) {
            found.insert(format!("a volume of the type `{source}`"));
        }
    }
    let containers = list(spec, "initContainers").chain(list(spec, "containers"));
    for context in containers.chain([spec]).map(|owner| &owner["securityContext"]) {
        of_context(context, restricted, &mut found);
    }
    found
}

fn of_context(context: &Value, restricted: bool, found: &mut BTreeSet<String>) {
    let capabilities = if restricted { "NET_BIND_SERVICE" } else { CAPABILITIES };
    let added = list(&context["capabilities"], "add").filter_map(Value::as_str);
    found
        .extend(added.filter(|name| !has(capabilities, name)).map(|name| format!("the capability `{name}`")));
    let unconfined = json!("Unconfined");
    let values = [
        ("/privileged", json!(true), true),
        ("/seccompProfile/type", unconfined.clone(), true),
        ("/appArmorProfile/type", unconfined, true),
        ("/allowPrivilegeEscalation", json!(true), restricted),
        ("/runAsNonRoot", json!(false), restricted),
        ("/runAsUser", json!(0), restricted),
    ];
    let set =
        values.iter().filter(|(at, value, is_checked)| *is_checked && context.pointer(at) == Some(value));
    found.extend(set.map(|(at, value, _)| format!("`{}: {value}`", at[1..].replace('/', "."))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(level: &str, spec: &Value) -> Vec<String> {
        forbidden(level, &json!({"spec": spec})).into_iter().collect()
    }

    #[test]
    fn each_level_forbids_its_values() {
        let spec = json!({
            "hostNetwork": true,
            "volumes": [{"name": "a", "hostPath": {"path": "/sys"}}, {"name": "b", "nfs": {}}, {"name": "c"}],
            "containers": [{"securityContext": {"capabilities": {"add": ["IPC_LOCK", "KILL"]}, "runAsUser": 0}}],
            "initContainers": [{"securityContext": {"privileged": true, "seccompProfile": {"type": "Unconfined"}}}],
        });
        let baseline = [
            "`hostNetwork`",
            "`privileged: true`",
            "`seccompProfile.type: \"Unconfined\"`",
            "the capability `IPC_LOCK`",
            "the host path \"/sys\"",
        ];
        assert_eq!(found("baseline", &spec), baseline);
        let more = ["a volume of the type `nfs`", "the capability `KILL`", "`runAsUser: 0`"];
        let restricted = found("restricted", &spec);
        for value in baseline.iter().chain(&more) {
            assert!(restricted.iter().any(|found| found == value), "{value}: {restricted:?}");
        }
        assert_eq!(restricted.len(), baseline.len() + more.len());
        let context = json!({"capabilities": {"add": ["NET_BIND_SERVICE"]}});
        assert!(found("restricted", &json!({"containers": [{"securityContext": context}]})).is_empty());
    }
}
