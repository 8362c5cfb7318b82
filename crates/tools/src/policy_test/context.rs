//! The `context` of a case: facts about a pod that the pod does not contain.

use std::sync::Arc;

use serde_json::{Value, json};

use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::source::reader::{self, Fields};
use fabric_policy::source::{Checked, all};
use fabric_yaml::Node;

use super::keys;

/// Reads the facts that a case gives: the namespace, the kind of the owner as `Kind.group`, and the nodes.
pub(super) fn read(node: &Node) -> Checked<PodContext> {
    let mut fields = Fields::of(node, &keys::CONTEXT)?;
    let namespace = fields.optional("namespace", |node| reader::text(node, "`namespace`"));
    let owner = fields.optional("owner", |node| reader::text(node, "`owner`"));
    let nodes = fields.optional("nodes", |node| all(reader::items(node, "`nodes`")?.iter().map(read_node)));
    fields.finish()?;
    let nodes: Option<Vec<Value>> = nodes?;
    let nodes = nodes.and_then(|nodes| Nodes::read(&json!({"items": nodes})).ok()).map(Arc::new);
    let owner_kinds = owner?.into_iter().map(str::to_owned).collect();
    Ok(PodContext { namespace: namespace?.map(str::to_owned), owner_kinds, nodes, ..PodContext::default() })
}

/// Adds the facts that a case gives to those that follow from a manifest.
pub(super) fn add(given: &PodContext, mut context: PodContext) -> PodContext {
    if given.namespace.is_some() {
        context.namespace.clone_from(&given.namespace);
    }
    if !given.owner_kinds.is_empty() {
        context.owner_kinds.clone_from(&given.owner_kinds);
    }
    context.nodes.clone_from(&given.nodes);
    context
}

/// A Ready node with the fields that decide.
fn read_node(node: &Node) -> Checked<Value> {
    let mut fields = Fields::of(node, &keys::NODE)?;
    let mut value = |key: &'static str| fields.node(key).map(Node::to_value);
    let object = json!({
        "metadata": {"labels": value("labels")},
        "spec": {"providerID": value("providerID"), "taints": value("taints")},
        "status": {"capacity": value("capacity"), "conditions": [{"type": "Ready", "status": "True"}]},
    });
    fields.finish()?;
    Ok(object)
}
