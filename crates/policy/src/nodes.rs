//! The nodes of a cluster, as plain data: the properties that decide where a pod can be scheduled, and the resources
//! that they offer.
//!
//! It reads Node and `ResourceSlice` objects and the fields of a pod that choose nodes. It is independent of policies:
//! the engine decides which labels and resources matter.

mod candidates;
mod devices;
mod requirements;
mod slices;

pub use devices::Devices;
pub use slices::Slice;

pub use candidates::scheduling_of;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cache::Cache;
use crate::objects::NamedObject;
use fabric_yaml::quantity::Quantity;

pub use requirements::{expressions, is_met, terms};

/// The nodes of a cluster at one moment.
#[derive(Debug)]
pub struct Nodes {
    list: Vec<Arc<Node>>,
    /// The drivers of devices that are not of one node.
    shared: HashSet<Arc<str>>,
    /// The kinds of nodes that pods fit, by the fields that decide them. A search in thousands of nodes takes longer
    /// than an injection, and the pods of a job repeat it.
    pub kinds: Cache<String, Arc<[NodeKind]>>,
    /// The policies for the nodes that pods fit.
    pub named: Cache<String, Named>,
}

/// The policies for the nodes that a pod fits.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// True if the pod fits nodes now, which then decide.
    pub fits_now: bool,
    /// True if the nodes that decide have GPUs.
    pub have_gpus: bool,
    /// For each policy, whether it is for one of them.
    pub policies: Vec<bool>,
}

/// The bytes of the results of each kind of search.
const SEARCHES: usize = 2 << 20;
/// More devices than any node has: the sum of those of all resources and nodes does not overflow.
const MOST_DEVICES: i64 = 1 << 32;

impl Default for Nodes {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            shared: HashSet::new(),
            kinds: Cache::new(SEARCHES),
            named: Cache::new(SEARCHES),
        }
    }
}

/// Nodes that are alike in everything that a policy reads of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeKind {
    /// The labels that the policy reads.
    pub labels: BTreeMap<String, String>,
    /// Each node's amount of the first of the policy's GPU resources that it offers.
    pub gpus: i64,
    /// The resources that parameters look for and the devices of the fabric, with each node's amount.
    pub resources: BTreeMap<String, i64>,
    /// The networks of those for whose networks parameters look, as the pod names them: `name` or `namespace/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, String>,
}

/// One node. The texts are shared with other nodes by [`Texts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    name: Arc<str>,
    /// The keys of the labels, sorted.
    label_keys: Arc<[Arc<str>]>,
    /// Their values, in the same order.
    label_values: Arc<[Arc<str>]>,
    /// The extended resources of `status.capacity`, the devices of `ResourceSlices` and those of classes, sorted. An
    /// unhealthy device lowers `status.allocatable`, and must not raise a ratio.
    resources: Vec<(Arc<str>, i64)>,
    /// Those that `status.allocatable` has fewer of, and how many it has.
    unhealthy: Vec<(Arc<str>, i64)>,
    /// The amounts of other resources that pods can get, such as memory.
    amounts: Vec<(Arc<str>, Quantity)>,
    /// The devices of its `ResourceSlices`.
    devices: Vec<Devices>,
    taints: Arc<[Taint]>,
    provider_id: Arc<str>,
    is_ready: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Taint {
    key: Arc<str>,
    value: Arc<str>,
    effect: Arc<str>,
}

/// Texts that many nodes have in common, and the keys of the labels that each of them has, each stored once.
#[derive(Debug, Default)]
pub struct Texts {
    texts: HashSet<Arc<str>>,
    lists: HashSet<Arc<[Arc<str>]>>,
}

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    fn shared_list(&mut self, list: &[Arc<str>]) -> Arc<[Arc<str>]> {
        if let Some(known) = self.lists.get(list) {
            return Arc::clone(known);
        }
        let new: Arc<[Arc<str>]> = list.into();
        self.lists.insert(Arc::clone(&new));
        new
    }

    /// Drops the texts that no node uses any more.
    pub fn drop_unused(&mut self) {
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }
}

/// Objects, read one by one.
#[derive(Debug, Default)]
pub struct Objects {
    texts: Texts,
    nodes: Vec<Arc<Node>>,
    slices: Vec<Slice>,
    /// Those that pods name.
    pub named: Vec<NamedObject>,
}

impl Objects {
    /// Reads a Node, a `ResourceSlice`, or an object that pods name; an error for another object. One
    /// without a kind is a Node.
    pub fn read(&mut self, object: &Value) -> Result<(), String> {
        match object["kind"].as_str() {
            None | Some("Node") => self.nodes.push(Arc::new(Node::read(object, &mut self.texts))),
            Some("ResourceSlice") => self.slices.push(Slice::read(object, &mut self.texts)),
            Some(other) => match NamedObject::read(object, "default") {
                Some(named) => self.named.push(named),
                None => return Err(format!("is not a node, but of the kind `{other}`")),
            },
        }
        Ok(())
    }

    /// Reads the items of a list, or one Node. The error is a sentence.
    pub fn of_list(value: &Value) -> Result<Self, String> {
        let kind = value["kind"].as_str().unwrap_or_default();
        let items = match (kind, value["items"].as_array()) {
            ("Node", _) => std::slice::from_ref(value),
            (_, Some(items)) => items.as_slice(),
            _ => return Err("it is neither a list of nodes nor a node".to_owned()),
        };
        let mut objects = Self::default();
        for (at, item) in items.iter().enumerate() {
            objects.read(item).map_err(|error| format!("`items[{at}]` {error}"))?;
        }
        Ok(objects)
    }

    pub fn nodes(self) -> Nodes {
        Nodes::with_slices(self.nodes, &self.slices)
    }
}

impl Nodes {
    /// These nodes, with the devices of these slices.
    pub fn with_slices<'s>(
        nodes: impl IntoIterator<Item = Arc<Node>>,
        slices: impl IntoIterator<Item = &'s Slice>,
    ) -> Self {
        let devices = slices::devices(slices);
        let with_devices = |node: Arc<Node>| match devices.get(&*node.name) {
            Some(devices) => Arc::new(node.with(devices)),
            None => node,
        };
        let shared =
            devices.get("").into_iter().flatten().map(|devices| Arc::clone(&devices.driver)).collect();
        Self { list: nodes.into_iter().map(with_devices).collect(), shared, ..Self::default() }
    }

    /// Returns whether a driver offers devices that are not of one node.
    pub fn has_shared(&self, driver: &str) -> bool {
        self.shared.contains(driver)
    }

    /// The nodes, each with resources that its capacity does not have.
    pub(crate) fn with_resources(self, mut offered: impl FnMut(&Node) -> BTreeMap<Arc<str>, i64>) -> Self {
        let with_resources = |mut node: Arc<Node>| {
            let offered = offered(&node);
            if !offered.is_empty() {
                Arc::make_mut(&mut node).add(&offered);
            }
            node
        };
        Self { list: self.list.into_iter().map(with_resources).collect(), ..self }
    }

    /// Reads the items of a list of nodes and `ResourceSlices`, or one Node. The error is a sentence.
    pub fn read(value: &Value) -> Result<Self, String> {
        Objects::of_list(value).map(Objects::nodes)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.list.iter().map(Arc::as_ref)
    }
}

impl Node {
    /// Reads a Node object. A field of another type than the API server accepts counts as absent.
    pub fn read(node: &Value, texts: &mut Texts) -> Self {
        let (metadata, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
        let mut text = |value: &Value| texts.shared(value.as_str().unwrap_or_default());
        let name = text(&metadata["name"]);
        let provider_id = text(&spec["providerID"]);
        let taints = spec["taints"].as_array().into_iter().flatten().map(|taint| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
            effect: text(&taint["effect"]),
        });
        let taints = taints.collect();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let mut labels: Vec<_> = labels
            .map(|(key, value)| (texts.shared(key), texts.shared(value.as_str().unwrap_or_default())))
            .collect();
        labels.sort_unstable();
        let (keys, values): (Vec<_>, Vec<_>) = labels.into_iter().unzip();
        let mut extended = |key: &str| -> Vec<_> {
            let amounts = status[key].as_object().into_iter().flatten();
            let extended = amounts.filter(|(name, _)| name.contains('/'));
            extended
                .filter_map(|(name, amount)| Some((name, Quantity::from_value(amount)?.as_count()?)))
                .map(|(name, count)| (texts.shared(name), count.min(MOST_DEVICES)))
                .collect()
        };
        let (mut resources, mut unhealthy) = (extended("capacity"), extended("allocatable"));
        unhealthy.retain(|(name, count)| resources.iter().any(|(known, all)| known == name && all > count));
        unhealthy.shrink_to_fit();
        resources.sort_unstable();
        let allocatable = status["allocatable"].as_object().into_iter().flatten();
        let other = allocatable.filter(|(name, _)| !name.contains('/'));
        let amounts = other
            .filter_map(|(name, amount)| Some((texts.shared(name), Quantity::from_value(amount)?)))
            .collect();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        let (label_keys, label_values) = (texts.shared_list(&keys), values.into());
        Self {
            name,
            label_keys,
            label_values,
            resources,
            unhealthy,
            amounts,
            devices: Vec::new(),
            taints,
            provider_id,
            is_ready,
        }
    }

    /// The node with devices that its capacity does not have.
    fn with(&self, devices: &[&Devices]) -> Self {
        let mut node = Self { devices: devices.iter().copied().cloned().collect(), ..self.clone() };
        let mut offered: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for one in devices {
            *offered.entry(Arc::clone(&one.name)).or_default() += one.count;
        }
        node.add(&offered);
        node
    }

    /// Adds resources that its capacity does not have.
    fn add(&mut self, offered: &BTreeMap<Arc<str>, i64>) {
        self.resources.retain(|(name, count)| *count > 0 || !offered.contains_key(name));
        let new = offered.iter().filter(|(name, _)| self.count(name) == 0);
        let new: Vec<_> = new.map(|(name, count)| (Arc::clone(name), *count)).collect();
        self.resources.extend(new);
        self.resources.sort_unstable();
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn provider_id(&self) -> &str {
        &self.provider_id
    }

    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.label_keys.iter().zip(&*self.label_values).map(|(key, value)| (&**key, &**value))
    }

    /// The labels whose keys begin with a text.
    pub(crate) fn labels_from<'n>(&'n self, start: &'n str) -> impl Iterator<Item = (&'n str, &'n str)> {
        let first = self.label_keys.partition_point(|key| &**key < start);
        let labels = self.label_keys[first..].iter().zip(&self.label_values[first..]);
        labels.map(|(key, value)| (&**key, &**value)).take_while(move |(key, _)| key.starts_with(start))
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.label_keys.binary_search_by(|known| (**known).cmp(key)).ok()?;
        Some(&self.label_values[at])
    }

    /// The extended resources that the node has, and how many of each.
    pub fn resources(&self) -> impl Iterator<Item = (&str, i64)> {
        self.resources.iter().filter(|(_, count)| *count > 0).map(|(name, count)| (&**name, *count))
    }

    /// How many of an extended resource pods can get, if it is fewer than the node has.
    pub fn healthy(&self, resource: &str) -> Option<i64> {
        self.unhealthy.iter().find(|(name, _)| **name == *resource).map(|(_, count)| *count)
    }

    /// How much pods can get of a resource that is not extended, such as memory or huge pages; `None` if the node does not
    /// say it.
    pub fn amount(&self, resource: &str) -> Option<Quantity> {
        self.amounts.iter().find(|(name, _)| **name == *resource).map(|(_, amount)| *amount)
    }

    /// The number of devices of a driver for dynamic resource allocation.
    pub fn devices_of(&self, driver: &str) -> i64 {
        self.devices.iter().filter(|devices| *devices.driver == *driver).map(|devices| devices.count).sum()
    }

    /// The devices of its `ResourceSlices`.
    pub fn devices(&self) -> &[Devices] {
        &self.devices
    }

    /// How many of an extended resource the node has.
    pub fn count(&self, resource: &str) -> i64 {
        self.registered(resource).unwrap_or_default()
    }

    /// The same; `None` if the node never had the resource. If its device plugin is gone, the kubelet keeps the resource
    /// with the amount 0.
    pub fn registered(&self, resource: &str) -> Option<i64> {
        let at = self.resources.binary_search_by(|(known, _)| (**known).cmp(resource)).ok()?;
        Some(self.resources[at].1)
    }
}
