//! `devices` of a policy. An entry of `add` is read as a rule, with the overlays that an author would write by hand.

use std::collections::BTreeSet;

use crate::definition::{AddsDevices, Definition, DeviceList, OnConflict, Rule, add_names_of_variables};
use crate::expression::Expression;
use crate::interpolation::{Interpolation, Names, Phase, first_read};
use crate::keys;
use crate::overlay::{self, Addition, NETWORKS, Section};
use crate::parameter::Variable;
use crate::source::reader::{self, Fields};
use crate::source::{
    CONFLICTING_RULES, Checked, DUPLICATE_NAME, Diagnostic, MISSING_KEY, Problems, TOO_EARLY,
};
use fabric_yaml::{Content, Entry, Node, Span};

/// The names that the devices of the fabric go by, and the rules that add devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub list: Option<DeviceList>,
    pub(super) add: Vec<Rule>,
    /// True if an entry of `add` has a problem.
    pub(super) has_unread: bool,
}

impl Devices {
    /// Reads the parts without problems.
    pub(super) fn read(&mut self, node: &Node, names: &Names, variables: &[Variable]) -> Checked<()> {
        let mut fields = Fields::read(node, &keys::DEVICES)?;
        self.list = DeviceList::read(&mut fields, node.span, names).ok().flatten();
        let _ = fields.optional("add", |node| {
            let mut problems = Problems::default();
            for item in problems.take(reader::items(node, "`add`")).unwrap_or_default() {
                let Some(entry) = problems.take(entry(item, names, variables)) else {
                    self.has_unread = true;
                    continue;
                };
                if self.add.iter().any(|known| known.name == entry.name) {
                    let message = format!("two entries of `add` are called `{}`", entry.name);
                    problems.add(Diagnostic::error(DUPLICATE_NAME, item.span, message));
                }
                self.add.push(entry);
            }
            problems.result(())
        });
        fields.finish()
    }
}

fn entry(node: &Node, names: &Names, variables: &[Variable]) -> Checked<Rule> {
    let mut fields = Fields::read(node, &keys::DEVICE)?;
    let name = fields.required("name", |node| reader::dns_label(node, "the name of an entry"));
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
    let keys = ["resources", "networks", "claims"];
    let given = keys.map(|key| fields.node(key));
    let [resources, networks, claims] = given;
    if given.iter().all(Option::is_none) && !keys.iter().any(|key| fields.misspells(key)) {
        let missing = Diagnostic::error(MISSING_KEY, node.span, "this entry adds no device");
        let _ = fields.take(Err::<(), _>(missing.hint("give it `resources`, `networks` or `claims`")));
    }
    let claimed = fields.take(claims.map_or(Ok(&[][..]), claimed));
    for (key, node) in [("resources", resources), ("networks", networks)] {
        if let Some(Node { content: Content::Map(entries), span }) = node
            && entries.is_empty()
        {
            let empty = Diagnostic::error(MISSING_KEY, *span, format!("`{key}` is empty"));
            let _ = fields.take(Err::<(), _>(empty.hint("write what the entry adds, or leave the key out")));
        }
    }
    if let (Some(_), Some(claims)) = (resources, claims) {
        let both = "an entry adds resources or claims, not both";
        let both = Diagnostic::error(CONFLICTING_RULES, claims.span, both).hint("write two entries");
        let _ = fields.take(Err::<(), _>(both));
    }
    fields.finish()?;
    let claimed = claimed?;
    let container = overlay::container(&container(node.span, resources, claimed), names)?;
    let mut pod = overlay::pod(&pod(node.span, networks, claimed), names)?;
    let requests =
        Expression::compile("podRequests").map_err(|error| Diagnostic::new(node.span, error.message))?;
    overlay::attach(&mut pod, &container, &Interpolation::Expression(requests.into()));
    let rule = Rule {
        span: node.span,
        name: name?,
        when: when?,
        // Another claim with this name is not a device of the fabric, and a container cannot use both under one name.
        on_conflict: if claims.is_some() { OnConflict::Refuse } else { OnConflict::Keep },
        additions: [Addition::new(Section::Selected, container)].into_iter().chain(pod).collect(),
        device: Some(AddsDevices {
            to_network: networks.is_some() || claims.is_some(),
            has_resources: resources.is_some(),
        }),
        ..Rule::default()
    };
    if let Some((name, span)) = device_read(&rule, variables) {
        let message = format!("`{name}` depends on what `devices` adds");
        let early = Diagnostic::error(TOO_EARLY, span, message);
        return Err(early.hint("read `ownDevices`, parameters and the pod").into());
    }
    Ok(rule)
}

/// The claims by their names in the pod.
fn claimed(node: &Node) -> Checked<&[Entry<Node>]> {
    let claims = reader::entries(node, "`claims`")?;
    if claims.is_empty() {
        let hint = "write the name of the claim in the pod, and its ResourceClaimTemplate";
        return Err(Diagnostic::error(MISSING_KEY, node.span, "`claims` is empty").hint(hint).into());
    }
    Ok(claims)
}

/// The overlay for containers with GPUs.
fn container(span: Span, resources: Option<&Node>, claims: &[Entry<Node>]) -> Node {
    let amounts =
        resources.into_iter().flat_map(|node| [("limits", node.clone()), ("requests", node.clone())]);
    let named =
        |claim: &Entry<Node>| Node::map(claim.span, [("name", Node::text_at(claim.span, &claim.key))]);
    let list = Node { span, content: Content::List(claims.iter().map(named).collect()) };
    let claims = (!claims.is_empty()).then_some(("claims", list));
    Node::map(span, [("resources", Node::map(span, amounts.chain(claims)))])
}

/// The overlay for the pod.
fn pod(span: Span, networks: Option<&Node>, claims: &[Entry<Node>]) -> Node {
    let annotations = networks.map(|node| match &node.content {
        // Other annotations than that of Multus.
        Content::Map(_) => node.clone(),
        _ => Node::map(node.span, [(NETWORKS, node.clone())]),
    });
    let metadata = annotations.map(|node| ("metadata", Node::map(span, [("annotations", node)])));
    let claim = |claim: &Entry<Node>| {
        let name = Node::text_at(claim.span, &claim.key);
        Node::map(claim.span, [("name", name), ("resourceClaimTemplateName", claim.value.clone())])
    };
    let list = Node { span, content: Content::List(claims.iter().map(claim).collect()) };
    let spec = (!claims.is_empty()).then(|| ("spec", Node::map(span, [("resourceClaims", list)])));
    Node::map(span, metadata.into_iter().chain(spec))
}

/// The errors in the devices of a policy as a whole.
pub(super) fn problems(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let adds = definition.adds_devices();
    let declared = definition.device_list.is_some();
    for (name, is_known) in [("ownDevices", declared), ("hasDevice", declared || adds)] {
        let read = first_read(|known| known == name, |visit| definition.texts(visit));
        found.extend(read.filter(|_| !is_known).map(|(_, span)| {
            let message = format!("`{name}` is read, and the policy has no names of devices");
            let hint =
                "add `devices: {resources: […]}` to `spec` with the names of its devices, see docs/policy.md";
            Diagnostic::error(MISSING_KEY, span, message).hint(hint)
        }));
    }
    found.extend(definition.rules.iter().filter_map(|rule| {
        if rule.device.is_some() { adds_gpus(rule, definition) } else { chooses_network(rule, definition) }
    }));
    found
}

/// The error for an entry that adds GPUs.
fn adds_gpus(rule: &Rule, definition: &Definition) -> Option<Diagnostic> {
    let gpus = &definition.gpus;
    let (name, span) = rule.writes().find_map(|write| {
        let name = if write.is_amount() {
            write.name().filter(|name| gpus.resources.iter().any(|gpu| gpu == name))
        } else if *write.path == ["spec", "resourceClaims"] {
            let mut names = ["name", "resourceClaimTemplateName"].into_iter();
            names.find_map(|field| write.value.literal(field).filter(|name| gpus.has_claim(name)))
        } else {
            None
        };
        Some((name?, write.span()))
    })?;
    let message = format!("`{name}` counts as a GPU, which no entry can add");
    let hint = "pods request GPUs themselves; name the devices of the network";
    Some(Diagnostic::error(CONFLICTING_RULES, span, message).hint(hint))
}

/// The error for a rule that moves pods to the host network and depends on whether a container has a device: the
/// devices that `devices` adds depend on that network.
fn chooses_network(rule: &Rule, definition: &Definition) -> Option<Diagnostic> {
    rule.host_network()?;
    let (name, span) = device_read(rule, &definition.variables)?;
    let message = format!("`hostNetwork` depends on `{name}`, and so on what `devices` adds");
    let hint = "read `ownDevices`, parameters and the pod: what `devices` adds depends on the network";
    Some(Diagnostic::error(TOO_EARLY, span, message).hint(hint))
}

/// The first name in a rule that depends on whether a container has a device, with its place.
fn device_read(rule: &Rule, variables: &[Variable]) -> Option<(String, Span)> {
    let depends = |name: &str| {
        let mut names = BTreeSet::from([name.to_owned()]);
        add_names_of_variables(variables.iter(), &mut names);
        names.contains("hasDevice")
    };
    first_read(depends, |visit| rule.texts(visit))
}
