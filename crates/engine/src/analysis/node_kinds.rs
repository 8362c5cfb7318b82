//! The nodes that a pod can be scheduled to, grouped by the properties that a policy reads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};

use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::matcher::{LabelsRead, namespace_of, spellings};
use fabric_policy::nodes::{Node, NodeKind, Nodes, scheduling_of};
use fabric_policy::objects::KnownObjects;
use fabric_policy::work::{Work, goes_on};
use fabric_policy::{Definition, PodContext, Policy, SelectedLabel};
use fabric_yaml::each_once;

use super::containers::requests;
use super::own_devices;
use crate::record::{NODES, STAMP};

/// The limit on the kinds of nodes, and on the values of a label. A pod that can be scheduled to more selects no node
/// closely enough for its facts to be known.
const MAX_KINDS: usize = 32;

/// The kinds of nodes of an earlier injection; none for a pod that was injected without nodes. The nodes may have
/// changed since, but the decision stays. A value that no injection wrote counts as absent.
pub(crate) fn kinds_of_earlier_injection(pod: &Value, context: &PodContext) -> Option<Vec<NodeKind>> {
    let is_stamped = || pod["metadata"]["annotations"][STAMP].is_string().then(Vec::new);
    recorded(pod, context).or_else(is_stamped)
}

/// The kinds of nodes that an earlier injection recorded.
pub(super) fn recorded(pod: &Value, context: &PodContext) -> Option<Vec<NodeKind>> {
    let text = pod["metadata"]["annotations"][NODES].as_str()?;
    let kinds: Vec<NodeKind> = serde_json::from_value(context.read(text).ok()?).ok()?;
    // No injection writes more.
    (kinds.len() <= MAX_KINDS).then_some(kinds)
}

/// The content of the annotation that [`kinds_of_earlier_injection`] reads.
pub(crate) fn written(kinds: &[NodeKind]) -> String {
    json!(kinds).to_string()
}

/// The kinds of nodes that a pod can be scheduled to and that have the GPUs that it requests.
pub(super) fn kinds(policy: &Policy, pod: &Value, nodes: &Nodes, context: &PodContext) -> Vec<NodeKind> {
    let gpus = requested_gpus(policy.definition(), pod);
    let found = nodes.kinds.get_or_find(
        // The pods of a job have the same nodes.
        || format!("{} {gpus:?} {}", policy.stamp(), scheduling_of(pod)),
        context.namespace.as_deref().unwrap_or_default(),
        context.work.as_ref(),
        || Ok::<_, Infallible>(found(policy, pod, &gpus, nodes, context).into()),
    );
    let Ok(kinds) = found;
    let mut kinds = kinds.to_vec();
    for kind in &mut kinds {
        add_networks(policy, kind, pod, context);
    }
    kinds
}

/// Adds the networks that parameters look for. They depend on the namespace of the pod, and change without the nodes.
fn add_networks(policy: &Policy, kind: &mut NodeKind, pod: &Value, context: &PodContext) {
    let Some(known) = &context.objects else { return };
    let own = namespace_of(&pod["metadata"], context);
    let parameters = policy.definition().by_node().filter_map(|one| one.from_nodes.as_ref());
    let mut lists: Vec<_> =
        parameters.filter(|one| one.gives_networks()).map(|one| one.names(kind)).collect();
    // A resource has one network: that of the longest list, whose networks are in one namespace.
    lists.sort_by_key(|resources| Reverse(resources.len()));
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for resources in lists {
        let is_known = resources.iter().any(|resource| found.contains_key(*resource));
        let networks = known.networks_of(&resources, own, context.work.as_ref()).filter(|_| !is_known);
        found.extend(resources.into_iter().map(str::to_owned).zip(networks.into_iter().flatten()));
    }
    kind.networks = found;
}

fn found(policy: &Policy, pod: &Value, gpus: &[i64], nodes: &Nodes, context: &PodContext) -> Vec<NodeKind> {
    let (definition, work) = (policy.definition(), context.work.as_ref());
    let known = context.objects.as_deref();
    let candidates = candidates(definition, pod, gpus, nodes, work);
    let labels: Vec<&str> = match &policy.nodes.labels {
        LabelsRead::These(labels) => labels.iter().map(String::as_str).collect(),
        LabelsRead::All => common_labels(&candidates, work),
    };
    let mut found: Vec<(Seen<'_>, usize)> = Vec::new();
    // Thousands of nodes have the same few resources.
    let mut devices: HashMap<&str, bool> = HashMap::new();
    for node in candidates {
        if !goes_on(work, 2 * (4 + labels.len())) {
            break;
        }
        let value = |label: &&str| spellings(label).find_map(|label| node.label(label));
        let mut is_device = |name| *devices.entry(name).or_insert_with(|| is_device(policy, name, known));
        let resources = node.resources().filter(|(name, _)| is_device(name)).collect();
        let seen =
            Seen { labels: labels.iter().map(value).collect(), gpus: gpus_of(definition, node), resources };
        match found.iter_mut().find(|(known, _)| *known == seen) {
            Some((_, nodes)) => *nodes += 1,
            None => found.push((seen, 1)),
        }
        if found.len() > MAX_KINDS {
            return Vec::new();
        }
    }
    // Where other nodes have devices of the fabric, a pod that requests them is not scheduled to one without.
    if found.iter().any(|(seen, _)| !seen.resources.is_empty()) {
        found.retain(|(seen, _)| !seen.resources.is_empty());
    }
    // Within a pool, the most common offer counts. Of two equally common offers, the smaller one fits all of the nodes.
    let mut kinds: BTreeSet<NodeKind> = BTreeSet::new();
    found.sort_by_key(|(seen, nodes)| (Reverse(*nodes), seen.devices()));
    let mut pools: Vec<(&[Option<&str>], i64)> = Vec::new();
    for (seen, _) in &found {
        let pool = (seen.labels.as_slice(), seen.gpus);
        if !pools.contains(&pool) {
            pools.push(pool);
            kinds.insert(seen.kind(&labels));
        }
    }
    kinds.into_iter().collect()
}

/// Returns whether a resource is a device of the policy's fabric, by its name or its class, or one that the policy's
/// parameters look for.
pub fn is_device(policy: &Policy, name: &str, known: Option<&KnownObjects>) -> bool {
    let mut parameters = policy.definition().by_node().filter_map(|one| one.from_nodes.as_ref());
    // Of the classes, a parameter looks for one of the fabric.
    own_devices::is_own(name, policy.devices(), known)
        || !name.starts_with(DEVICE_CLASS) && parameters.any(|from_nodes| from_nodes.looks_for(name))
}

/// The node's amount of the first of the policy's GPU resources that it offers. A device plugin and a DRA driver can
/// both offer a GPU, under different names.
fn gpus_of(definition: &Definition, node: &Node) -> i64 {
    let counts = definition.gpus.resources.iter().map(|name| node.count(name));
    counts.into_iter().find(|count| *count > 0).unwrap_or_default()
}

/// The properties of a node that a policy reads.
#[derive(PartialEq)]
struct Seen<'n> {
    labels: Vec<Option<&'n str>>,
    gpus: i64,
    resources: Vec<(&'n str, i64)>,
}

impl Seen<'_> {
    fn devices(&self) -> i64 {
        self.resources.iter().map(|(_, count)| count).sum()
    }

    fn kind(&self, labels: &[&str]) -> NodeKind {
        let known = labels
            .iter()
            .zip(&self.labels)
            .filter_map(|(label, value)| Some(((*label).to_owned(), (*value)?.to_lowercase())));
        NodeKind {
            labels: known.collect(),
            gpus: self.gpus,
            resources: self.resources.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            networks: BTreeMap::new(),
        }
    }
}

/// The amount of each of the policy's GPU resources that a pod requests.
fn requested_gpus(definition: &Definition, pod: &Value) -> Vec<i64> {
    let requests = requests(pod);
    definition.gpus.resources.iter().map(|name| requests[name.as_str()].as_i64().unwrap_or(0)).collect()
}

/// The nodes that a pod can be scheduled to and that have the GPUs that it requests; for a pod without GPUs, those with
/// any. If there are none, those that the policy's tolerations add.
fn candidates<'n>(
    definition: &Definition,
    pod: &'n Value,
    gpus: &[i64],
    nodes: &'n Nodes,
    work: Option<&'n Work>,
) -> Vec<&'n Node> {
    let names = &definition.gpus.resources;
    let fits = |node: &&Node| {
        // A device class is not a resource of a node.
        let offers = |name: &String| {
            if name.starts_with(DEVICE_CLASS) { gpus_of(definition, node) } else { node.count(name) }
        };
        gpus_of(definition, node) > 0
            && names.iter().zip(gpus).all(|(name, requested)| offers(name) >= *requested)
    };
    let with = |is_exempt: &dyn Fn(&str) -> bool| -> Vec<&'n Node> {
        nodes.candidates(pod, is_exempt, work).into_iter().filter(fits).collect()
    };
    let own = with(&|_| false);
    if own.is_empty() { with(&|taint| definition.tolerates(taint)) } else { own }
}

/// The labels that all nodes have with one value.
fn common_labels<'n>(nodes: &[&'n Node], work: Option<&Work>) -> Vec<&'n str> {
    let Some((first, others)) = nodes.split_first() else { return Vec::new() };
    let mut common: Vec<(&str, &str)> = first.labels().collect();
    for node in others {
        if !goes_on(work, 2 * common.len()) {
            break;
        }
        common.retain(|(key, value)| node.label(key) == Some(value));
    }
    common.into_iter().map(|(key, _)| key).collect()
}

/// The labels that all kinds have, with their values.
pub(super) fn labels_of_kinds(kinds: &[NodeKind]) -> Vec<Arc<SelectedLabel>> {
    let Some(first) = kinds.first() else { return Vec::new() };
    let labels =
        first.labels.keys().filter(|label| kinds.iter().all(|kind| kind.labels.contains_key(*label)));
    labels
        .map(|label| {
            let values = each_once(kinds.iter().filter_map(|kind| kind.labels.get(label)));
            let values = values.into_iter().cloned().collect();
            Arc::new(SelectedLabel { label: label.clone(), values })
        })
        .collect()
}
