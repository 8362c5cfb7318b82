//! The `context` of a case: facts about a pod that the pod does not contain.

use std::sync::Arc;

use serde_json::{Value, json};

use fabric_policy::nodes::Nodes;
use fabric_policy::objects::{NamedObject, ObjectKind, ObjectName};
use fabric_policy::source::reader::{self, Fields};
use fabric_policy::source::{Checked, all};
use fabric_policy::{Diagnostic, PodContext};
use fabric_yaml::{Entry, Node};

use super::keys;

/// Reads the facts that a case gives: the namespace, the kind of the owner as `Kind.group`, the nodes, and the
/// objects that pods name.
pub(super) fn read(node: &Node) -> Checked<PodContext> {
    let mut fields = Fields::read(node, &keys::CONTEXT)?;
    let namespace = fields.optional("namespace", |node| reader::text(node, "`namespace`"));
    let owner = fields.optional("owner", |node| reader::text(node, "`owner`"));
    let nodes = fields.optional("nodes", |node| all(reader::items(node, "`nodes`")?.iter().map(read_node)));
    let own = namespace.as_ref().ok().copied().flatten().unwrap_or("default");
    let claims = fields.optional("claims", |node| {
        all(reader::items(node, "`claims`")?.iter().map(|item| read_claim(item, own)))
    });
    let networks = fields.optional("networks", |node| {
        all(reader::entries(node, "`networks`")?.iter().map(|entry| read_network(entry, own)))
    });
    fields.finish()?;
    let objects: [Option<Vec<NamedObject>>; 2] = [claims?, networks?];
    let are_given = objects.iter().any(Option::is_some);
    let objects = are_given.then(|| Arc::new(objects.into_iter().flatten().flatten().collect()));
    let nodes: Option<Vec<Value>> = nodes?;
    let nodes = nodes.and_then(|nodes| Nodes::read(&json!({"items": nodes})).ok()).map(Arc::new);
    let owner_kinds = owner?.into_iter().map(str::to_owned).collect();
    let namespace = namespace?.map(str::to_owned);
    Ok(PodContext { namespace, owner_kinds, nodes, objects, ..PodContext::default() })
}

/// Adds the facts that a case gives to those that follow from a manifest.
pub(super) fn add(given: &PodContext, context: PodContext) -> PodContext {
    let PodContext { namespace, owner_kinds, nodes, objects, .. } = given.clone();
    let owner_kinds = if owner_kinds.is_empty() { context.owner_kinds } else { owner_kinds };
    PodContext { namespace: namespace.or(context.namespace), owner_kinds, nodes, objects, ..context }
}

/// An object that says what claims bring.
fn read_claim(node: &Node, namespace: &str) -> Checked<NamedObject> {
    let value = node.to_value();
    // Only access for administrators brings nothing.
    let is_whole = |object: &NamedObject| match object {
        NamedObject::Claim { requests, .. } => {
            !requests.is_empty() || value.to_string().contains("adminAccess")
        }
        NamedObject::Class { .. } => true,
        NamedObject::Network { .. } => false,
    };
    NamedObject::read(&value, namespace).filter(is_whole).ok_or_else(|| {
        let kinds = ObjectKind::all().filter(|kind| !matches!(kind, ObjectKind::Network(_)));
        let kinds = kinds.map(|kind| format!("`{}`", kind.api().kind)).collect::<Vec<_>>().join(", ");
        let message = "an entry of `claims` is no object that says what claims bring";
        Diagnostic::new(node.span, message)
            .hint(format!(
                "write one with a name, a `kind` of {kinds}, and its `devices.requests` as the API has them"
            ))
            .into()
    })
}

/// A network, whose key can have its namespace, with its resource.
fn read_network(entry: &Entry<Node>, own: &str) -> Checked<NamedObject> {
    let (namespace, name) = entry.key.split_once('/').unwrap_or((own, &entry.key));
    let resource = reader::text(&entry.value, "the resource of a network")?;
    let kind = ObjectKind::of_multus();
    Ok(NamedObject::Network {
        name: ObjectName::new(kind, namespace, name),
        resource: Some(resource.to_owned()),
    })
}

/// A Ready node with the fields that decide.
fn read_node(node: &Node) -> Checked<Value> {
    let mut fields = Fields::read(node, &keys::NODE)?;
    let mut value = |key: &'static str| fields.node(key).map(Node::to_value);
    let object = json!({
        "metadata": {"labels": value("labels")},
        "spec": {"providerID": value("providerID"), "taints": value("taints")},
        "status": {"capacity": value("capacity"), "conditions": [{"type": "Ready", "status": "True"}]},
    });
    fields.finish()?;
    Ok(object)
}
