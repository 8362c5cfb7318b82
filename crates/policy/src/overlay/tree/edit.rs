//! Edits: what a rule adds to a string that holds a list. The engine applies them to the value of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::schema::Format;

use super::Tree;

/// What a rule adds to the list that a string of a pod holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The entry of a variable, a list of objects, or one or more networks.
    pub added: Tree,
    pub kind: EditKind,
}

/// The list that an edit is about.
#[derive(Debug, Clone, PartialEq)]
pub enum EditKind {
    /// That of a variable such as `LD_LIBRARY_PATH`, which gets an entry in front.
    Prepend,
    /// That of a variable, which gets an entry at its end.
    Append,
    /// That of objects in an annotation, with the field that identifies them.
    Objects(String),
    /// The networks of Multus. If there are devices, they are attached to them.
    Networks(Option<Devices>),
}

/// The devices of an entry of `devices.add`.
#[derive(Debug, Clone, PartialEq)]
pub struct Devices {
    /// A list of names of resources, of which an item can be a list itself.
    pub resources: Tree,
    /// The requests of the pod, by resource.
    pub requests: Tree,
}

impl Edit {
    /// The trees in it that can have expressions.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        let devices = if let EditKind::Networks(devices) = &self.kind { devices.as_ref() } else { None };
        [&self.added].into_iter().chain(devices.into_iter().flat_map(|of| [&of.resources, &of.requests]))
    }

    /// The field that identifies objects in an annotation.
    pub(crate) fn identity(&self) -> Option<&str> {
        if let EditKind::Objects(field) = &self.kind { Some(field) } else { None }
    }
}

/// Fails unless each entry has its own value under the key.
pub(crate) fn unique(entries: &[Value], key: &str) -> Result<(), String> {
    for (at, entry) in entries.iter().enumerate() {
        let value = &entry[key];
        if matches!(value, Value::Null | Value::Object(_) | Value::Array(_)) {
            return Err(format!("an entry of the list has no `{key}`: {entry}"));
        }
        if entries[..at].iter().any(|other| other[key] == *value) {
            return Err(format!("two entries of the list have the `{key}` {value}"));
        }
    }
    Ok(())
}

/// The error about an interface that two networks of a list have.
pub(crate) fn interface_of_two<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut known = BTreeSet::new();
    let mut interfaces = names.filter_map(|name| name.split_once('@'));
    let (_, twice) = interfaces.find(|(_, interface)| !known.insert(*interface))?;
    Some(format!("two networks of the list have the interface `{twice}`"))
}

/// Fails for text that is not `[namespace/]name`, or `[namespace/]name@interface` in a list.
pub(crate) fn check_network(network: &str, listed: bool) -> Result<(), String> {
    let parts = network.split_once('@');
    let (network, interface) =
        parts.map_or((network, None), |(network, interface)| (network, Some(interface)));
    if let Some(interface) = interface {
        if !listed {
            return Err("only an entry of a list can name an interface".to_owned());
        }
        let known = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if interface.is_empty() || interface.len() > 15 || !interface.chars().all(known) {
            return Err(format!(
                "`{interface}` is not the name of an interface: 1 to 15 letters, digits, `-`, `_` and `.`"
            ));
        }
    }
    let Some((namespace, name)) = network.split_once('/') else { return Format::DnsSubdomain.check(network) };
    Format::DnsLabel.check(namespace)?;
    Format::DnsSubdomain.check(name)
}
