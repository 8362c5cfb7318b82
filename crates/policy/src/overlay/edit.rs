//! Edits: trees with keys such as `$append`, in place of a text. The engine applies them to the value of a pod.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema::Format;
use crate::source::{Diagnostic, MISPLACED_EDIT, reader};
use fabric_yaml::Span;

use super::{Entry, Tree};

/// In a tree, the field that identifies the entries of a list of objects. The key of the annotation names it.
pub(super) const KEY: &str = "$key";

/// The sides of a list in a variable, as trees have them.
pub(super) const SIDES: [&str; 2] = ["$prepend", "$append"];

/// Fails for a key of an earlier version of the language.
pub(super) fn refuse_edits(tree: &Tree) -> Result<(), Diagnostic> {
    let keys = tree.entries().iter().map(|entry| (entry.source(), entry.span));
    of_earlier_version(keys.filter(|(key, _)| key.starts_with('$'))).map_or(Ok(()), Err)
}

/// The key of an edit in the result of an expression. The keys of a Pod do not begin like that.
pub(super) fn key_in(tree: &Tree) -> Option<&str> {
    let own = tree.entries().iter().filter_map(Entry::name).find(|name| name.starts_with('$'));
    let mut within = tree.entries().iter().map(|entry| &entry.value).chain(tree.items());
    own.or_else(|| within.find_map(key_in))
}

/// The error for a key of an earlier version among others, each with its place.
pub(super) fn of_earlier_version(
    mut keys: impl Iterator<Item = (String, Span)> + Clone,
) -> Option<Diagnostic> {
    let edit =
        "write the entries of a list themselves, and for a variable `ENTRY:$(NAME)` or `$(NAME):ENTRY`";
    let renamed = keys.clone().find_map(|(key, span)| reader::renamed(&key).map(|hint| (key, span, hint)));
    let edited = || keys.find(|(key, _)| SIDES.contains(&&**key)).map(|(key, span)| (key, span, edit));
    let (key, span, hint) = renamed.or_else(edited)?;
    let message = format!("`{key}` is no key of an overlay");
    Some(Diagnostic::new(span, message).code(MISPLACED_EDIT).hint(hint))
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
