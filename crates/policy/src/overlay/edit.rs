//! Edits: maps with keys such as `$append`, in place of a text. The engine applies them to the value of a pod.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::keys::LIST_EDIT;
use crate::schema::Format;
use crate::source::{Diagnostic, MISPLACED_EDIT, reader};

use super::Tree;

/// In a tree, the field that identifies the entries of a list of objects. The key of the annotation names it.
pub(super) const KEY: &str = "$key";

/// The keys of edits of variables.
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> {
    LIST_EDIT.names()
}

/// Fails for a misplaced edit.
pub(super) fn refuse_edits(tree: &Tree) -> Result<(), Diagnostic> {
    refuse_edit(tree, "write it as the value of a variable in `env`")
}

/// The same, with a replacement for an edit of a list in a string.
pub(super) fn refuse_edit(tree: &Tree, instead: &str) -> Result<(), Diagnostic> {
    for entry in tree.entries().iter().filter(|entry| entry.source().starts_with('$')) {
        if let Some(hint) = reader::renamed(&entry.source()) {
            let message = format!("`{}` is no key of an overlay", entry.source());
            return Err(Diagnostic::new(entry.span, message).code(MISPLACED_EDIT).hint(hint));
        }
    }
    let edit = tree.entries().iter().find(|entry| known_keys().any(|key| entry.source() == key));
    let Some(edit) = edit else { return Ok(()) };
    let message = format!("`{}` edits a list in a string, but this is not one", edit.source());
    Err(Diagnostic::new(edit.span, message).code(MISPLACED_EDIT).hint(instead))
}

/// Fails unless each entry has its own value under the key.
pub(super) fn unique(entries: &[&Map<String, Value>], key: &str) -> Result<(), String> {
    for (at, entry) in entries.iter().enumerate() {
        let value = match entry.get(key) {
            Some(Value::Null | Value::Object(_) | Value::Array(_)) | None => {
                return Err(format!(
                    "an entry of the list has no `{key}`: {}",
                    Value::Object((*entry).clone())
                ));
            }
            Some(value) => value,
        };
        if entries[..at].iter().any(|other| other.get(key) == Some(value)) {
            return Err(format!("two entries of the list have the `{key}` {value}"));
        }
    }
    Ok(())
}

/// The error about an interface that two networks of a list have.
pub(super) fn interface_of_two<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut known = BTreeSet::new();
    let mut interfaces = names.filter_map(|name| name.split_once('@'));
    let (_, twice) = interfaces.find(|(_, interface)| !known.insert(*interface))?;
    Some(format!("two networks of the list have the interface `{twice}`"))
}

/// Fails for text that is not `[namespace/]name`, or `[namespace/]name@interface` in a list.
pub(super) fn check_network(network: &str, listed: bool) -> Result<(), String> {
    let (network, interface) = match network.split_once('@') {
        Some((network, interface)) => (network, Some(interface)),
        None => (network, None),
    };
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
    let (namespace, name) = match network.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, network),
    };
    namespace.map_or(Ok(()), |namespace| Format::DnsLabel.check(namespace))?;
    Format::DnsSubdomain.check(name)
}
