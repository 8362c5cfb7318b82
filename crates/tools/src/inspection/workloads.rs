//! The workloads whose pods this version would refuse, if they were created now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{CLAIMS, NODES, Outcome, Reason, SKIPPED, STAMP};
use fabric_policy::PodContext;
use fabric_yaml::counted;

use super::namespaces::selects;
use super::{Found, Read, Release, Seen, list, name, names, ok, text, unread, warn};

/// Tries the pods of a cluster page by page, and keeps no more than the names of workloads.
#[derive(Debug)]
pub struct Workloads<'p> {
    policies: &'p PolicySet,
    /// The nodes and claims of the cluster.
    cluster: PodContext,
    /// The namespaces whose pods the webhook gets, if they are known.
    namespaces: Option<BTreeSet<&'p str>>,
    found: Refused,
}

/// The workloads whose pods are not injected, or would be refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The pods that request the fabric.
    pub asking: usize,
    /// The names of the workloads, by the reason why their pods are refused.
    pub workloads: BTreeMap<String, BTreeSet<String>>,
    /// The pods that request the fabric and are not injected.
    pub uninjected: usize,
    /// The names of their workloads.
    pub uninjected_workloads: BTreeSet<String>,
    /// The names of workloads, by the reason why new pods would not get the fabric or not use it.
    pub without_fabric: BTreeMap<String, BTreeSet<String>>,
    /// The controllers of injected pods, with the time at which the newest one was created.
    pub injected: BTreeMap<String, String>,
}

impl<'p> Workloads<'p> {
    pub fn new(
        policies: &'p PolicySet,
        cluster: PodContext,
        release: &Release<'_>,
        namespaces: &'p Read,
    ) -> Self {
        let of_webhook = |webhook: &Value| {
            let all = namespaces.as_ref().ok()?;
            let selected = list(all, "items").filter(|one| selects(&webhook["webhooks"][0], one));
            Some(selected.map(name).collect())
        };
        let namespaces = release.webhook.and_then(of_webhook);
        Self { policies, cluster, namespaces, found: Refused::default() }
    }

    /// Tries the pods of a list.
    pub fn page(&mut self, mut pods: Value) {
        for pod in pods["items"].as_array_mut().into_iter().flatten() {
            self.pod(pod.take());
        }
    }

    pub fn finish(self) -> Refused {
        self.found
    }

    fn pod(&mut self, mut pod: Value) {
        let metadata = &pod["metadata"];
        let namespace = text(metadata, "namespace").to_owned();
        let is_gone = metadata["deletionTimestamp"].is_string()
            || ["Succeeded", "Failed"].contains(&text(&pod["status"], "phase"));
        let is_excluded = self.namespaces.as_ref().is_some_and(|all| !all.contains(namespace.as_str()));
        if is_gone || is_excluded {
            return;
        }
        let owner = owner(&pod);
        let controller = controller(&pod).map(|(kind, name)| format!("{kind} {namespace}/{name}"));
        let created = text(&pod["metadata"], "creationTimestamp").to_owned();
        let was_injected = forget_decision(&mut pod);
        let context = PodContext { namespace: Some(namespace), ..self.cluster.clone() };
        let mutation = mutate(self.policies, pod, &context);
        let asks = mutation.policy.is_some() || !matches!(mutation.outcome, Outcome::Unchanged { .. });
        self.found.asking += usize::from(asks);
        let code = mutation.without_fabric();
        let why = code.and_then(|code| match &mutation.outcome {
            Outcome::Mutated(_) => {
                mutation.warnings.iter().find(|one| one.code() == code).map(ToString::to_string)
            }
            // A pod that an earlier version of the policy injected has the fabric.
            _ if was_injected => None,
            other => other.reason().map(ToString::to_string),
        });
        if !was_injected && (why.is_some() || matches!(mutation.outcome, Outcome::Mutated(_))) {
            self.found.uninjected += 1;
            self.found.uninjected_workloads.insert(owner.clone());
        }
        if let Some(why) = why {
            self.found.without_fabric.entry(why).or_default().insert(owner.clone());
        }
        if let Some(controller) = controller.filter(|_| was_injected) {
            let newest = self.found.injected.entry(controller).or_default();
            *newest = std::mem::take(newest).max(created);
        }
        match mutation.outcome {
            // The claim may be that of the policy which injected the pod.
            Outcome::Refused { reason: Reason::Conflict { .. } } if was_injected => {}
            Outcome::Refused { reason } => {
                self.found.workloads.entry(reason.to_string()).or_default().insert(owner);
            }
            _ => {}
        }
    }
}

/// Removes the traces of the earlier decision from a pod, to decide again. Returns whether it was injected.
fn forget_decision(pod: &mut Value) -> bool {
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.shift_remove("nodeName");
    }
    let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() else { return false };
    let was_injected = annotations.contains_key(STAMP);
    for key in [STAMP, NODES, CLAIMS, SKIPPED] {
        annotations.shift_remove(key);
    }
    was_injected
}

/// Kind, namespace and name of the controller of a pod, or of the pod itself. The ReplicaSet of a Deployment is that.
fn owner(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    let namespace = text(metadata, "namespace");
    let Some((kind, name)) = controller(pod) else {
        return format!("Pod {namespace}/{}", name(pod));
    };
    let hash = metadata["labels"]["pod-template-hash"].as_str();
    match hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-')) {
        Some(deployment) if kind == "ReplicaSet" => format!("Deployment {namespace}/{deployment}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}

/// Kind and name of the controller of a pod.
fn controller(pod: &Value) -> Option<(&str, &str)> {
    let mut owners = list(&pod["metadata"], "ownerReferences");
    owners.find(|owner| owner["controller"] == true).map(|owner| (text(owner, "kind"), text(owner, "name")))
}

pub(super) fn refused(seen: &Seen<'_>) -> Found {
    seen.policies()?;
    let Refused { asking, workloads, .. } = seen.facts.workloads.as_ref().map_err(unread)?;
    let pods = format!("{} that a policy decides about", counted(*asking, "running pod"));
    if *asking == 0 {
        return ok("no policy decides about a running pod");
    }
    if workloads.is_empty() {
        return ok(format!("none of {pods} would be refused now"));
    }
    let all: BTreeSet<&String> = workloads.values().flatten().collect();
    let reasons = workloads.iter().map(|(reason, workloads)| format!("{}: {reason}", names(workloads)));
    warn(
        format!(
            "new pods of {} would be refused now, with {pods}\n{}",
            counted(all.len(), "workload"),
            reasons.collect::<Vec<_>>().join("\n")
        ),
        "correct these workloads, before an upgrade to this version: their pods keep running, but cannot be \
         created again",
    )
}
