//! The pools of a cluster: groups of similar nodes, their resources, the results for pods on them, and their problems.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::explain::{Explainer, PodFact, PodParameter, SourceKind, Sources};
use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Warning, WarningKind, is_device};
use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::matcher::selection::{INSTANCE_TYPE, LabelsRead};
use fabric_policy::nodes::{Node, Nodes};
use fabric_policy::objects::KnownObjects;
use fabric_policy::{PodContext, Policy};
use fabric_yaml::{counted, first_names};

/// Nodes with the same labels, as far as policies read them, and the same GPUs.
#[derive(Debug, Default, Serialize)]
pub struct Pool {
    /// The instance type, or another label that policies read; empty if the nodes have none of them.
    pub machine: String,
    pub labels: BTreeMap<String, String>,
    pub nodes: usize,
    pub ready: usize,
    /// The GPUs of a node, by resource.
    pub gpus: BTreeMap<String, i64>,
    /// The fabric devices of a node. If the nodes differ, those that most of them have.
    pub devices: BTreeMap<String, i64>,
    /// The policy that injects a pod on these nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The parameters whose values follow from the nodes or their labels.
    pub parameters: Vec<PodParameter>,
    pub problems: Vec<Problem>,
}

/// Something about a pool that needs action.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Lower-case letters and `_`, for programs.
    pub code: String,
    pub message: String,
}

/// The pools of nodes with GPUs, in the order of their machines.
pub fn pools(
    policies: &PolicySet,
    sources: Sources<'_>,
    nodes: &Arc<Nodes>,
    objects: Option<&Arc<KnownObjects>>,
) -> Vec<Pool> {
    let labels = labels(policies);
    let mut groups: BTreeMap<_, Vec<&Node>> = BTreeMap::new();
    for node in nodes.iter() {
        let gpus = of_policies(node, policies, |policy, name| {
            policy.definition().gpus.resources.iter().any(|gpu| gpu == name)
        });
        if !gpus.is_empty() {
            let value = |label: &String| Some((label.clone(), node.label(label)?.to_owned()));
            let labels: BTreeMap<String, String> = labels.iter().filter_map(value).collect();
            groups.entry((labels, gpus)).or_default().push(node);
        }
    }
    let explainer = Explainer { policies, sources };
    let context =
        PodContext { nodes: Some(Arc::clone(nodes)), objects: objects.cloned(), ..PodContext::default() };
    let examined = |((labels, gpus), nodes): (_, Vec<&Node>)| {
        let (mut pool, typical) = pool(policies, labels, gpus, &nodes, objects.map(Arc::as_ref));
        if let Some(node) = typical {
            let (mutation, fact) = explainer.pod(&sample(&pool, policies, node), &context);
            pool.add_result(&mutation, fact);
        }
        pool
    };
    groups.into_iter().map(examined).collect()
}

/// The labels that any policy reads.
fn labels(policies: &PolicySet) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for policy in policies.policies() {
        if let LabelsRead::These(read) = &policy.nodes.labels {
            labels.extend(read.iter().cloned());
        }
    }
    labels
}

/// The resources of a node that are `wanted` by a policy. Those of classes stand for devices that have other names, too.
fn of_policies(
    node: &Node,
    policies: &PolicySet,
    wanted: impl Fn(&Policy, &str) -> bool,
) -> BTreeMap<String, i64> {
    let resources = node.resources().filter(|(name, _)| !name.starts_with(DEVICE_CLASS));
    let resources = resources.map(|(name, count)| (name.to_owned(), count));
    resources.filter(|(name, _)| policies.policies().iter().any(|policy| wanted(policy, name))).collect()
}

/// A pool without a result, and a node with what its pods can rely on.
fn pool<'n>(
    policies: &PolicySet,
    labels: BTreeMap<String, String>,
    gpus: BTreeMap<String, i64>,
    nodes: &[&'n Node],
    known: Option<&KnownObjects>,
) -> (Pool, Option<&'n Node>) {
    let devices = |node: &Node| of_policies(node, policies, |policy, name| is_device(policy, name, known));
    let ready: Vec<&Node> = nodes.iter().copied().filter(|node| node.is_ready()).collect();
    let typical = typical(&ready, devices).or(nodes.first().copied());
    let instance_type = labels.get(INSTANCE_TYPE).or_else(|| labels.values().next());
    let mut pool = Pool {
        machine: instance_type.cloned().unwrap_or_default(),
        nodes: nodes.len(),
        ready: ready.len(),
        devices: typical.map(devices).unwrap_or_default(),
        labels,
        gpus,
        ..Pool::default()
    };
    pool.problems = differences(&pool.devices, &ready);
    pool.problems.extend(unhealthy(pool.gpus.keys().chain(pool.devices.keys()), &ready));
    if ready.is_empty() {
        let message = "no node is Ready: see `kubectl describe node`".to_owned();
        pool.problems.push(Problem::new("no_node_ready", message));
    }
    (pool, typical)
}

/// A node with the devices that pods can rely on: the number on most nodes that have any, or the lower of two equally
/// common numbers.
fn typical<'n>(ready: &[&'n Node], devices: impl Fn(&Node) -> BTreeMap<String, i64>) -> Option<&'n Node> {
    let mut groups: BTreeMap<BTreeMap<String, i64>, Vec<&Node>> = BTreeMap::new();
    for node in ready {
        groups.entry(devices(node)).or_default().push(node);
    }
    let key = |(devices, nodes): &(BTreeMap<String, i64>, Vec<&Node>)| {
        (devices.is_empty(), Reverse(nodes.len()), devices.values().sum::<i64>())
    };
    groups.into_iter().min_by_key(key).and_then(|(_, nodes)| nodes.first().copied())
}

/// The devices that some of the nodes have none of, or another number.
fn differences(typical: &BTreeMap<String, i64>, ready: &[&Node]) -> Vec<Problem> {
    const SHOWN: usize = 3;
    let mut problems = Vec::new();
    for (name, count) in typical {
        let mut found = |code: &str, is_such: &dyn Fn(Option<i64>) -> bool, what: &str| {
            let such = ready.iter().filter(|node| is_such(node.registered(name)));
            let nodes: Vec<&str> = such.map(|node| node.name()).collect();
            if !nodes.is_empty() {
                let all = counted(ready.len(), "Ready node");
                let message = format!("{} of {all} {what}: {}", nodes.len(), first_names(&nodes, SHOWN));
                problems.push(Problem::new(code, message));
            }
        };
        // The kubelet keeps a resource that is gone with 0 (`pkg/kubelet/nodestatus/setters.go`).
        let gone = format!("no longer offer `{name}`; see whether the device plugin runs there");
        found("plugin_missing", &|seen| seen == Some(0), &gone);
        let never = format!(
            "never offered `{name}`; the device plugin has not run there, or they were created without such devices"
        );
        found("plugin_missing", &|seen| seen.is_none(), &never);
        let other = format!("have another number of `{name}` than {count}, on which pods count");
        found("counts_differ", &|seen| seen.is_some_and(|seen| seen > 0 && seen != *count), &other);
    }
    problems
}

/// The GPUs and devices that pods get fewer of than the nodes have.
fn unhealthy<'n>(names: impl Iterator<Item = &'n String>, ready: &[&Node]) -> Vec<Problem> {
    let of = |name: &String| {
        let healthy: Vec<i64> = ready.iter().filter_map(|node| node.healthy(name)).collect();
        let (count, least) = (healthy.len(), healthy.into_iter().min()?);
        let message = format!(
            "{count} of {} have unhealthy devices, so that pods get fewer of `{name}`, on one of them {least}: see the \
             log of the device plugin there",
            counted(ready.len(), "Ready node")
        );
        Some(Problem::new("devices_unhealthy", message))
    };
    names.filter_map(of).collect()
}

impl Problem {
    fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message }
    }
}

impl Pool {
    /// Adds the result for a pod that has all GPUs of a node.
    fn add_result(&mut self, mutation: &Mutation, fact: PodFact) {
        self.policy.clone_from(&mutation.policy);
        let reason = mutation.outcome.reason();
        self.problems.extend(reason.map(|reason| Problem::new(reason.code(), reason.to_string())));
        let about_nodes =
            ["no_node_fits", "parameter_assumed", "nodes_disagree", "nodes_offer_less", "nodes_offer_more"];
        let is_about_nodes = |warning: &&Warning| {
            about_nodes.contains(&warning.code()) || matches!(warning.kind, WarningKind::Policy { .. })
        };
        let warnings = mutation.warnings.iter().filter(is_about_nodes);
        self.problems.extend(warnings.map(|warning| Problem::new(warning.code(), warning.to_string())));
        let of_nodes = |parameter: &PodParameter| {
            parameter.used
                && matches!(
                    parameter.value.source,
                    SourceKind::Nodes | SourceKind::Machines | SourceKind::ValuesTable
                )
        };
        self.parameters = fact.parameters.into_iter().filter(of_nodes).collect();
    }
}

/// A pod that requests the fabric in every way that policies accept, and that has all GPUs of a node.
fn sample(pool: &Pool, policies: &PolicySet, node: &Node) -> Value {
    let triggers = policies.triggers().into_iter();
    let annotations: BTreeMap<&str, &str> =
        triggers.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    // In the order of the policy, the first that the node offers.
    let mut known = policies.policies().iter().flat_map(|policy| &policy.definition().gpus.resources);
    let gpus = known.find_map(|name| Some((name, *pool.gpus.get(name)?)));
    let limits: BTreeMap<&String, i64> = gpus.into_iter().collect();
    json!({
        "metadata": {"name": "sample", "annotations": annotations},
        "spec": {
            "nodeName": node.name(),
            "containers": [{"name": "gpus", "image": "sample", "resources": {"limits": limits}}],
        },
    })
}
