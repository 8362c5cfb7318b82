//! The creation of a pod as a dry run, which passes through registration, Service, certificate and policy.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::core::admission::{UNCHANGED, WOULD_BE_INJECTED};
use crate::core::engine::{Outcome, SKIPPED, STAMP};
use crate::core::policy::{PodContext, Policy};
use crate::core::policy_set::{PolicySet, mutate};
use crate::core::validate;

use super::namespaces::selects;
use super::{Facts, Line, Release, is_forbidden, items, name};

/// The choices of the user for the pod.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    pub namespace: Option<String>,
    pub annotations: Vec<(String, String)>,
    pub gpu_resource: Option<String>,
    pub node_selector: Vec<(String, String)>,
    /// The webhook is expected to be in audit mode.
    pub audit: bool,
}

/// The outcome of a dry run.
#[derive(Debug)]
pub struct DryRun {
    pub namespace: String,
    /// The pod as it would be stored, or the message of the rejection.
    pub result: Result<Value, String>,
    /// The warnings that the client would see.
    pub warnings: Vec<String>,
}

impl Probe {
    /// A pod that one of the policies injects, on a node that it knows, with the choices of the user. It complies with
    /// the restricted Pod Security Standard, so that every namespace admits it. `None` if no policy injects such a pod.
    pub fn pod(&self, policies: &PolicySet, namespace: &str) -> Option<Value> {
        let providers = policies.policies().iter().map(|policy| &policy.definition().provider);
        // Where the nodes choose the provider, the pod must not select those of one.
        let selects_nodes = providers.collect::<BTreeSet<_>>().len() == 1;
        let is_chosen = !self.annotations.is_empty() || self.gpu_resource.is_some();
        let context = PodContext { namespace: Some(namespace.to_owned()), ..PodContext::default() };
        let is_injected =
            |pod: &Value| matches!(mutate(policies, pod.clone(), &context).outcome, Outcome::Mutated(_));
        let pods = policies.policies().iter().map(|policy| self.pod_of(policy, selects_nodes && !is_chosen));
        pods.into_iter().find(|pod| is_chosen || !selects_nodes || is_injected(pod))
    }

    fn pod_of(&self, policy: &Policy, selects_nodes: bool) -> Value {
        let sample = validate::sample(policy);
        let map = |pairs: &[(String, String)], otherwise: &Value| match pairs {
            [] => otherwise.clone(),
            pairs => {
                pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>().into()
            }
        };
        let limits = match &self.gpu_resource {
            Some(resource) => json!({resource: "8"}),
            None => sample["spec"]["containers"][0]["resources"]["limits"].clone(),
        };
        let known = if selects_nodes { &sample["spec"]["nodeSelector"] } else { &Value::Null };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "fabric-injector-check-",
                "annotations": map(&self.annotations, &sample["metadata"]["annotations"]),
                "labels": sample["metadata"]["labels"],
            },
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": map(&self.node_selector, known),
                "automountServiceAccountToken": false,
                "securityContext": {
                    // Without `runAsUser`: OpenShift refuses a user that is not of the namespace.
                    "runAsNonRoot": true,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "main",
                    // A dry run pulls no image.
                    "image": "registry.k8s.io/pause",
                    "resources": {"limits": limits},
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        })
    }
}

pub(super) fn line(facts: &Facts, release: &Release<'_>, probe: &Probe) -> Line {
    const CHECK: &str = "pod";
    let dry_run = match &facts.dry_run {
        Ok(dry_run) => dry_run,
        Err(error) => return Line::unread(CHECK, error),
    };
    let DryRun { namespace, result, warnings } = dry_run;
    let own = warnings.iter().filter(|warning| warning.starts_with("fabric-injector: "));
    let said: String = own.map(|warning| format!("\n{warning}")).collect();
    let audited = warnings.iter().find_map(|warning| warning.strip_prefix(UNCHANGED));
    let place = format!("of a dry run in the namespace `{namespace}`");
    let pod = match result {
        Ok(pod) => pod,
        Err(message) if is_forbidden(message) || is_no_namespace(message) => {
            return Line::unread(CHECK, message);
        }
        Err(message) => {
            let remedy = "the message names who rejects it: a failed call of the webhook, Pod Security, a quota, or another \
                          admission policy";
            return Line::fail(
                CHECK,
                format!("the API server rejects the pod {place}: {message}{said}"),
                remedy,
            );
        }
    };
    if pod["metadata"]["annotations"][SKIPPED].is_string() {
        return Line::fail(
            CHECK,
            format!("a policy leaves the pod {place} alone{said}"),
            "the warning has the reason",
        );
    }
    match (audited.map(|audited| audited.strip_prefix(WOULD_BE_INJECTED)), probe.audit) {
        (Some(None), _) => {
            return Line::fail(
                CHECK,
                format!("the pod {place} would not be injected{said}"),
                "the warning has the reason",
            );
        }
        (Some(Some(_)), false) => {
            let seen =
                format!("the pod {place} is not injected: the webhook is in audit mode, and changes no pod");
            return Line::fail(CHECK, seen, "use `--audit` to check what it would do");
        }
        (Some(Some(stamp)), true) => {
            let seen = format!("audit mode: without it, the pod {place} would be injected by {stamp}{said}");
            return Line::ok(CHECK, seen);
        }
        (None, _) => {}
    }
    let Some(stamp) = pod["metadata"]["annotations"][STAMP].as_str() else {
        let seen =
            format!("the pod {place} is not injected: it comes back without the annotation `{STAMP}`{said}");
        return Line::fail(CHECK, seen, &uncalled(facts, release, namespace, !said.is_empty()));
    };
    if probe.audit {
        let seen = format!("the pod {place} is injected by {stamp}: the webhook is not in audit mode");
        return Line::fail(CHECK, seen, "set `webhook.mode=audit`, or leave `--audit` out");
    }
    Line::ok(CHECK, format!("the pod {place} is injected by {stamp}{said}"))
}

fn is_no_namespace(message: &str) -> bool {
    message.starts_with("namespaces ") && message.ends_with(" not found")
}

/// The known causes for a pod without a trace of the webhook. The API server does not report to a client which webhooks
/// it called, nor that it ignored a failed call.
fn uncalled(facts: &Facts, release: &Release<'_>, namespace: &str, was_called: bool) -> String {
    if was_called {
        return "the warning has the reason".to_owned();
    }
    let Some(webhook) = release.webhook else { return "see the line `webhook`".to_owned() };
    let entry = &webhook["webhooks"][0];
    let mut namespaces = facts.namespaces.iter().flat_map(items);
    let labels = namespaces.find(|one| name(one) == namespace).map(|one| &one["metadata"]["labels"]);
    if labels.is_some_and(|labels| !selects(&entry["namespaceSelector"], labels)) {
        return format!(
            "the `namespaceSelector` of `{}` excludes the namespace `{namespace}`: choose another one with `--namespace`",
            name(webhook)
        );
    }
    let unmet = "the pod does not meet the conditions of the webhook, or no policy matches it";
    if entry["failurePolicy"] == "Ignore" {
        return format!(
            "a failed call was ignored (`failurePolicy: Ignore`), whose cause is in the lines `endpoints` and \
             `certificate`; or {unmet}"
        );
    }
    unmet.to_owned()
}
