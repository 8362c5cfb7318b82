//! The workloads whose pods this version would refuse if they were created now, the running pods that requested the fabric
//! and do not use it, and the changes since a pod was injected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use fabric_engine::admission::Mode;
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{CLAIMS, NODES, Outcome, Reason, SKIPPED, STAMP, WITHOUT_FABRIC, absent_objects};
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::ObjectName;
use fabric_yaml::counted;

use super::namespaces::{injected_sample, selects};
use super::{
    Finding, Found, NOT_CHECKED, Read, Release, Seen, fail, list, name, names, ok, text, unread, warn,
};

/// Tries the pods of a cluster page by page, and keeps no more than the names of workloads.
#[derive(Debug)]
pub struct Workloads<'p> {
    policies: &'p PolicySet,
    /// The nodes and claims of the cluster.
    cluster: PodContext,
    /// The namespaces whose pods the webhook gets, or got before somebody edited it, if they are known.
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
    /// The names of workloads, by the object that their injected pods name and the cluster lacks.
    pub absent: BTreeMap<ObjectName, BTreeSet<String>>,
    /// The controllers of injected pods, with the time at which the newest one was created.
    pub injected: BTreeMap<String, String>,
}

impl<'p> Workloads<'p> {
    /// `others` are those of [`other_selectors`](super::other_selectors).
    pub fn new(
        policies: &'p PolicySet,
        cluster: PodContext,
        release: &Release<'p>,
        namespaces: &'p Read,
        others: &[&Value],
    ) -> Self {
        let of_webhook = |webhook: &'p Value| {
            let all = namespaces.as_ref().ok()?;
            let of_webhook = &webhook["webhooks"][0];
            let is_of_servers = |one: &Value| Some(name(one)) == release.namespace();
            let selected = |one: &&Value| {
                let is_of_others = others.iter().any(|other| selects(other, one)) && !is_of_servers(one);
                selects(of_webhook, one) || is_of_others
            };
            Some(list(all, "items").filter(selected).map(name).collect())
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
        let absent = if was_injected { absent_objects(&pod, &context) } else { Vec::new() };
        for object in absent {
            self.found.absent.entry(object).or_default().insert(owner.clone());
        }
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
    for key in [STAMP, NODES, CLAIMS, SKIPPED, WITHOUT_FABRIC] {
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

/// The limit on lines about Events.
const MOST_EVENTS: usize = 5;
/// The parts of messages about pods that the webhook or the guard refused, or for which no server answered.
const REFUSALS: &[&str] = &[
    "denied the request: fabric-injector: ",
    "failed calling webhook \"pods.fabric-injector.io\"",
    "fabric-injector did not inject it",
];

/// The parts of messages that refuse a pod for what policies add, if they name it.
const OF_ADDED: &[&str] = &["exceeded quota", "violates PodSecurity"];

pub(super) fn uninjected(seen: &Seen<'_>) -> Found {
    seen.policies()?;
    let all = seen.facts.workloads.as_ref().map_err(unread)?;
    let (count, be) =
        (counted(all.uninjected, "running pod"), if all.uninjected == 1 { "is" } else { "are" });
    if seen.release.option("--mode").any(|mode| mode == Mode::Audit.name()) {
        return ok(format!("{count} requested the fabric and {be} not injected, in audit mode"));
    }
    let mut found = Vec::new();
    if all.uninjected > 0 {
        let workloads = names(&all.uninjected_workloads);
        found.push(format!("{count} requested the fabric and {be} not injected: {workloads}"));
    }
    let reasons = all.without_fabric.iter();
    found.extend(reasons.map(|(reason, workloads)| format!("{}: {reason}", names(workloads))));
    match &seen.facts.events {
        Ok(events) => found.extend(refusals(events, all, &names_added(seen)?)),
        // What the pods show fails all the same.
        Err(error) if found.is_empty() => return Err(unread(error)),
        Err(error) => found.push(format!("Events are {NOT_CHECKED}{error}")),
    }
    if found.is_empty() {
        return ok("each running pod that requested the fabric is injected, and none was refused lately");
    }
    let first = seen.causes().map(|causes| causes + ", then ").unwrap_or_default();
    let is_of_added = found.iter().any(|line| OF_ADDED.iter().any(|part| line.contains(part)));
    let allow = "raise the quota, or see `pod-security`, for what the policy adds; ";
    let remedy = format!(
        "{first}{}correct what a line names in the pod template, and create the pods again: running ones stay as \
         they are; if new ones come out the same, see `other-webhooks`",
        if is_of_added { allow } else { "" }
    );
    fail(found.join("\n"), remedy)
}

/// The names of devices, capabilities and volumes of the host that policies add, by which the API server refuses a pod.
fn names_added(seen: &Seen<'_>) -> Result<BTreeSet<String>, Finding> {
    let policies = seen.policies()?;
    let mut found = BTreeSet::new();
    for policy in seen.chosen(policies) {
        let Some(pod) = injected_sample(policies, policy) else { continue };
        let is_gpu = |name: &String| policy.definition().gpus.resources.contains(name);
        for container in list(&pod["spec"], "containers").chain(list(&pod["spec"], "initContainers")) {
            let amounts = container["resources"]["limits"].as_object().into_iter().flatten();
            let devices = amounts.map(|(name, _)| name).filter(|name| name.contains('/') && !is_gpu(name));
            let capabilities = list(&container["securityContext"]["capabilities"], "add");
            found.extend(devices.cloned().chain(capabilities.filter_map(Value::as_str).map(str::to_owned)));
        }
        let volumes = list(&pod["spec"], "volumes").filter(|volume| volume.get("hostPath").is_some());
        found.extend(volumes.map(|volume| text(volume, "name").to_owned()));
    }
    Ok(found)
}

/// A line for each workload whose pods were refused, by its newest Event. A workload whose pods were injected later was
/// refused for a reason that is over.
fn refusals(events: &Value, all: &Refused, added: &BTreeSet<String>) -> Vec<String> {
    let mut newest = BTreeMap::new();
    for event in list(events, "items") {
        let Some(is_of_added) = is_refusal(event, added) else { continue };
        let object = &event["involvedObject"];
        let owner =
            format!("{} {}/{}", text(object, "kind"), text(object, "namespace"), text(object, "name"));
        let this = (last_time(event), !is_of_added, text(event, "message"));
        if all.injected.get(&owner).is_none_or(|injected| injected.as_str() < this.0) {
            let known = newest.entry(owner).or_insert(this);
            *known = this.max(*known);
        }
    }
    // What a policy adds is refused until somebody changes it; an outage ends.
    let mut found: Vec<_> = newest.into_iter().collect();
    found.sort_by_key(|(_, (_, is_other, _))| *is_other);
    let more = found.len().saturating_sub(MOST_EVENTS);
    let more = (more > 0).then(|| format!("and {}", counted(more, "more workload")));
    let shown = found.into_iter().take(MOST_EVENTS);
    shown
        .map(|(owner, (_, _, why))| format!("new pods of `{owner}` are refused: {why}"))
        .chain(more)
        .collect()
}

/// Whether an Event is about pods that were refused: true for what a policy adds.
fn is_refusal(event: &Value, added: &BTreeSet<String>) -> Option<bool> {
    let has = |part: &str| text(event, "message").contains(part);
    let is_of_added = OF_ADDED.iter().any(|part| has(part)) && added.iter().any(|name| has(name));
    (is_of_added || REFUSALS.iter().any(|part| has(part))).then_some(is_of_added)
}

/// The time of the last occurrence of an Event.
pub fn last_time(event: &Value) -> &str {
    let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
    let own = times.into_iter().find_map(Value::as_str);
    own.unwrap_or_else(|| text(&event["metadata"], "creationTimestamp"))
}

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
            let mut fields = mutated.summary();
            fields.retain(|field| ![NODES, CLAIMS].iter().any(|key| field.contains(key)));
            let more = if fields.len() > MOST_FIELDS { ", …" } else { "" };
            let shown = fields.iter().take(MOST_FIELDS).map(String::as_str).collect::<Vec<_>>().join(", ");
            (!fields.is_empty()).then(|| Change::Pod(shown + more))
        }
        Outcome::Refused { reason } => Some(Change::Pod(reason.to_string())),
        Outcome::Skipped { .. } | Outcome::Unchanged { .. } => None,
    }
}
