//! The nodes of a cluster, as plain data: what decides which of them a pod can be scheduled to, and what they offer.
//!
//! It reads Node objects and the fields of a pod that choose nodes. It knows no policy: which labels and resources
//! matter is for the engine to say.

mod candidates;

pub(crate) use candidates::scheduling_of;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use crate::core::quantity::Quantity;

pub(crate) use candidates::holds;

/// The nodes of a cluster at one moment.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: Vec<Arc<Node>>,
    /// The kinds of nodes that pods fit.
    pub(crate) kinds: Known<Vec<NodeKind>>,
    /// The policies that name the nodes which pods fit.
    pub(crate) named: Known<Vec<bool>>,
}

/// Nodes that are alike in everything that a policy reads of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeKind {
    /// The labels that the policy reads.
    pub(crate) labels: BTreeMap<String, String>,
    /// How many each node has of the first of the policy's GPU resources that it offers.
    pub(crate) gpus: i64,
    /// The resources that parameters look for and the devices of the fabric, and how many each node has.
    pub(crate) resources: BTreeMap<String, i64>,
}

/// What was found about these nodes, by what decides it. Looking at thousands of nodes takes longer than an injection,
/// and the pods of a job look for the same ones.
#[derive(Debug)]
pub(crate) struct Known<T>(RwLock<HashMap<String, T>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> Known<T> {
    /// The bound on what is kept: the keys come from users.
    const MOST: usize = 256;

    pub(crate) fn of(&self, key: String, find: impl FnOnce() -> T) -> T {
        if let Some(known) = self.0.read().ok().and_then(|known| known.get(&key).cloned()) {
            return known;
        }
        let found = find();
        if let Ok(mut known) = self.0.write()
            && known.len() < Self::MOST
        {
            known.insert(key, found.clone());
        }
        found
    }
}

/// One node. The texts are shared with other nodes by [`Texts`].
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    name: Arc<str>,
    /// Sorted.
    labels: Vec<(Arc<str>, Arc<str>)>,
    /// The extended resources of `status.capacity` that are not 0, sorted. An unhealthy device lowers
    /// `status.allocatable`, and must not raise a ratio.
    resources: Vec<(Arc<str>, i64)>,
    taints: Vec<Taint>,
    provider_id: Arc<str>,
    is_ready: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Taint {
    key: Arc<str>,
    value: Arc<str>,
    effect: Arc<str>,
}

/// Texts that many nodes have in common, each stored once.
#[derive(Debug, Default)]
pub struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }

    /// Drops the texts that no node has any more.
    pub fn drop_unused(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

impl FromIterator<Arc<Node>> for Nodes {
    fn from_iter<I: IntoIterator<Item = Arc<Node>>>(nodes: I) -> Self {
        Self { nodes: nodes.into_iter().collect(), ..Self::default() }
    }
}

impl Nodes {
    /// Reads the items of a `NodeList`, or one Node. The error is a sentence.
    pub fn read(value: &Value) -> Result<Self, String> {
        let mut texts = Texts::default();
        let kind = value["kind"].as_str().unwrap_or_default();
        let items = match (kind, value["items"].as_array()) {
            ("Node", _) => std::slice::from_ref(value),
            (_, Some(items)) => items.as_slice(),
            _ => return Err("it is neither a list of nodes nor a node".to_owned()),
        };
        let kinds = items.iter().enumerate().filter_map(|(at, item)| Some((at, item["kind"].as_str()?)));
        if let Some((at, other)) = kinds.into_iter().find(|(_, kind)| *kind != "Node") {
            return Err(format!("`items[{at}]` is no node, but of the kind `{other}`"));
        }
        Ok(items.iter().map(|item| Arc::new(Node::read(item, &mut texts))).collect())
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(Arc::as_ref)
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
        let resources = status["capacity"].as_object().into_iter().flatten();
        let mut resources: Vec<_> = resources
            .filter(|(name, _)| name.contains('/'))
            .filter_map(|(name, amount)| Some((name, Quantity::from_value(amount)?.as_count()?)))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (texts.shared(name), count))
            .collect();
        resources.sort_unstable();
        let is_ready = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        Self { name, labels, resources, taints, provider_id, is_ready }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn provider_id(&self) -> &str {
        &self.provider_id
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The extended resources that the node has, and how many of each.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (&str, i64)> {
        self.resources.iter().map(|(name, count)| (&**name, *count))
    }

    /// How many of an extended resource the node has.
    pub(crate) fn count(&self, resource: &str) -> i64 {
        let at = self.resources.binary_search_by(|(known, _)| (**known).cmp(resource));
        at.map_or(0, |at| self.resources[at].1)
    }
}
