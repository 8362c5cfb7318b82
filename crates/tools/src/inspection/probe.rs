//! The creation of a pod as a dry run, which passes through registration, Service, certificate and policy.

use serde_json::{Map, Value};

use fabric_engine::admission::{UNCHANGED, WOULD_BE_INJECTED};
use fabric_engine::policy_set::PolicySet;
use fabric_engine::{PROVIDER, SKIPPED, STAMP};
use fabric_policy::interpolation::text_of;

use super::namespaces::{enforces_level, selects, takes};
use super::{Found, Read, Release, Seen, Unread, fail, list, name, names, ok, unread};

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
    /// The pod that was created.
    pub asked: Value,
    /// The pod as it would be stored, or the message of the rejection.
    pub result: Result<Value, String>,
    /// The warnings that the client would see.
    pub warnings: Vec<String>,
}

impl DryRun {
    /// The stamp of the policy that injected the pod, or would have injected it in audit mode.
    pub(super) fn stamp(&self) -> Option<&str> {
        let stored = self.result.as_ref().ok().and_then(|pod| pod["metadata"]["annotations"][STAMP].as_str());
        let audited = || self.audited()?.strip_prefix(WOULD_BE_INJECTED);
        stored.or_else(audited)
    }

    /// The message of a webhook in audit mode about the pod.
    fn audited(&self) -> Option<&str> {
        self.warnings.iter().find_map(|warning| warning.strip_prefix(UNCHANGED))
    }

    /// The namespace of the pod, and the fields that choose its policy.
    fn place(&self) -> String {
        let entries = |value: &'_ Value| value.as_object().cloned().unwrap_or_default();
        let spec = &self.asked["spec"];
        let mut chosen = entries(&spec["containers"][0]["resources"]["limits"]);
        chosen.shift_remove("memory");
        chosen.extend(entries(&spec["nodeSelector"]));
        chosen.extend(
            entries(&self.asked["metadata"]["annotations"]).into_iter().filter(|one| one.0 == PROVIDER),
        );
        let chosen: Vec<String> =
            chosen.iter().map(|(key, value)| format!("`{key}: {}`", text_of(value))).collect();
        format!("the pod of a dry run in the namespace `{}` ({})", self.namespace, chosen.join(", "))
    }
}

impl Probe {
    /// The namespace of the pod: without a choice, `default` if the webhook gets its pods, else the first such
    /// namespace, of those that the first policy takes. One that enforces a Pod Security level may refuse the pod, and
    /// comes last.
    pub fn namespace(
        &self,
        release: &Release<'_>,
        namespaces: &Read,
        policies: &PolicySet,
    ) -> Option<String> {
        let (None, Ok(namespaces), Some(webhook)) = (&self.namespace, namespaces, release.webhook) else {
            return Some(self.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        };
        let known = list(namespaces, "items").filter(|one| selects(&webhook["webhooks"][0], one));
        let taken =
            known.filter(|one| policies.policies().first().is_none_or(|policy| takes(policy, name(one))));
        let chosen = taken.min_by_key(|one| (enforces_level(one), name(one) != "default", name(one)));
        chosen.map(|one| name(one).to_owned())
    }

    /// Whether the user describes the pod, at least in part.
    pub(super) fn describes_pod(&self) -> bool {
        !self.annotations.is_empty() || self.gpu_resource.is_some() || !self.node_selector.is_empty()
    }
}

pub(super) fn examine(seen: &Seen<'_>) -> Vec<Found> {
    match &seen.facts.dry_runs {
        Ok(dry_runs) => dry_runs.iter().map(|dry_run| finding(seen, dry_run)).collect(),
        Err(error) => vec![Err(unread(error))],
    }
}

/// Returns whether RBAC refuses the creation of a pod. Admission refuses one with the same status and reason, so that
/// only the message tells them apart (kubernetes/apiserver, `responsewriters/errors.go`).
fn lacks_right(message: &str) -> bool {
    message.contains(r#"" cannot "#) && message.contains(r#" resource ""#)
}

fn finding(seen: &Seen<'_>, dry_run: &DryRun) -> Found {
    let DryRun { namespace, result, warnings, .. } = dry_run;
    let own = warnings.iter().filter(|warning| warning.starts_with("fabric-injector: "));
    let said = own.fold(String::new(), |all, warning| all + "\n" + warning);
    let place = dry_run.place()
        + if is_example(seen) { ", an example, because the cluster has no such node," } else { "" };
    let has_reason = "the warning has the reason";
    let pod = match result {
        Ok(pod) => pod,
        Err(message) if lacks_right(message) => return Err(unread(&Unread::Forbidden(message.clone()))),
        Err(message) if *message == format!("namespaces \"{namespace}\" not found") => {
            return Err(unread(&message.as_str().into()));
        }
        Err(message) => {
            let remedy = "the message names what rejects it: a failed call of the webhook, Pod Security, a quota, \
                          or another admission policy";
            return fail(format!("the API server rejects {place}: {message}{said}"), remedy);
        }
    };
    let stamp = |key: &str| pod["metadata"]["annotations"][key].as_str();
    match (stamp(STAMP), dry_run.audited().map(|audited| audited.strip_prefix(WOULD_BE_INJECTED))) {
        (None, Some(Some(_))) if !seen.probe.audit => fail(
            format!("{place} is not injected: the webhook is in audit mode, and changes no pod"),
            "use `--audit` to check what it would do",
        ),
        (None, Some(Some(by))) => {
            ok(format!("audit mode: without it, {place} would be injected by {by}{said}"))
        }
        (Some(by), _) if seen.probe.audit => fail(
            format!("{place} is injected by {by}: the webhook is not in audit mode"),
            "set `webhook.mode=audit`, or leave `--audit` out",
        ),
        (Some(by), _) => ok(format!("{place} is injected by {by}{said}")),
        (None, Some(None)) => fail(format!("{place} would not be injected{said}"), has_reason),
        (None, None) if stamp(SKIPPED).is_some() => {
            fail(format!("{place} is left alone by the policy{said}"), has_reason)
        }
        (None, None) => {
            let keys = dry_run.asked["metadata"]["annotations"].as_object().into_iter().flat_map(Map::keys);
            let removed: Vec<&String> = keys.filter(|key| stamp(key).is_none()).collect();
            if said.is_empty() && !removed.is_empty() {
                let told = format!("{place} is not injected: another webhook removes {}", names(removed));
                return fail(
                    told,
                    "correct the webhook: `kubectl get mutatingwebhookconfigurations` lists all",
                );
            }
            let seen_so = format!("{place} is not injected: it has no annotation `{STAMP}`{said}");
            fail(seen_so, if said.is_empty() { uncalled(seen, namespace) } else { has_reason.to_owned() })
        }
    }
}

/// Returns whether the pods are for nodes that policies know, and not for those of the cluster.
fn is_example(seen: &Seen<'_>) -> bool {
    let (Ok(policies), Ok(nodes)) = (&seen.facts.policies, &seen.facts.nodes) else { return false };
    let mut gpus = policies.policies().iter().flat_map(|policy| &policy.definition().gpus.resources);
    let watched = seen.release.option("--watch-nodes").next().is_some();
    watched && !seen.probe.describes_pod() && !gpus.any(|gpu| nodes.iter().any(|node| node.count(gpu) > 0))
}

/// The known causes for a pod without a trace of the webhook. The API server does not report to a client which webhooks
/// it called, nor that it ignored a failed call.
fn uncalled(seen: &Seen<'_>, namespace: &str) -> String {
    let Some(webhook) = seen.release.webhook else { return "see the line `webhook`".to_owned() };
    let entry = &webhook["webhooks"][0];
    let mut namespaces = seen.facts.namespaces.iter().flat_map(|all| list(all, "items"));
    let excludes = |one: &Value| name(one) == namespace && !selects(entry, one);
    let unmet = "the pod does not meet the conditions of the webhook, or no policy matches it";
    if let Some(causes) = seen.causes() {
        causes
    } else if namespaces.any(excludes) {
        let selector =
            format!("the `namespaceSelector` of `{}` excludes the namespace `{namespace}`", name(webhook));
        format!("{selector}: choose another one with `--namespace`")
    } else if entry["failurePolicy"] == "Ignore" {
        let ignored = "a failed call was ignored (`failurePolicy: Ignore`)";
        format!("{ignored}, whose cause is in the lines `endpoints` and `certificate`; or {unmet}")
    } else {
        unmet.to_owned()
    }
}
