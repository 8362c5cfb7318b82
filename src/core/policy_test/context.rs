//! The `context` of a case: facts about a pod that the pod does not contain.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::nodes::Nodes;
use crate::core::policy::PodContext;
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{Checked, all};
use crate::core::yaml::Node;

/// The facts that a case gives.
#[derive(Debug, Default)]
pub(super) struct Context {
    namespace: Option<String>,
    /// The kind of the owner: `Kind.group`.
    owner: Option<String>,
    nodes: Option<Arc<Nodes>>,
}

impl Context {
    pub(super) fn read(node: &Node) -> Checked<Self> {
        let mut fields = Fields::of(node, "`context`")?;
        let namespace = fields.optional("namespace", |node| reader::text(node, "`namespace`"));
        let owner = fields.optional("owner", |node| reader::text(node, "`owner`"));
        let nodes =
            fields.optional("nodes", |node| all(reader::items(node, "`nodes`")?.iter().map(read_node)));
        fields.finish()?;
        let nodes: Option<Vec<Value>> = nodes?;
        let nodes = nodes.and_then(|nodes| Nodes::read(&json!({"items": nodes})).ok()).map(Arc::new);
        Ok(Self { namespace: namespace?.map(str::to_owned), owner: owner?.map(str::to_owned), nodes })
    }

    pub(super) fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// Adds the facts to those that follow from a manifest.
    pub(super) fn add_to(&self, mut context: PodContext) -> PodContext {
        if self.namespace.is_some() {
            context.namespace.clone_from(&self.namespace);
        }
        if let Some(owner) = &self.owner {
            context.owner_kinds = vec![owner.clone()];
        }
        context.nodes.clone_from(&self.nodes);
        context
    }
}

/// A Ready node with what decides.
fn read_node(node: &Node) -> Checked<Value> {
    let mut fields = Fields::of(node, "a node")?;
    let mut value = |key: &'static str| fields.node(key).map(Node::to_value);
    let object = json!({
        "metadata": {"labels": value("labels")},
        "spec": {"providerID": value("providerID"), "taints": value("taints")},
        "status": {"capacity": value("capacity"), "conditions": [{"type": "Ready", "status": "True"}]},
    });
    fields.finish()?;
    Ok(object)
}
