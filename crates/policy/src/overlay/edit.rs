//! Edits: maps with keys such as `$append`, in place of a text. The engine applies them to the value of a pod.

use serde_json::{Map, Value};

use crate::interpolation::Interpolation;
use crate::keys::{self, ENTRIES_EDIT, LIST_EDIT, NETWORKS_EDIT};
use crate::schema::{Format, Shape};
use crate::source::{Checked, Diagnostic, MISPLACED_EDIT, MISSING_KEY, Problems, reader, suggest};

use super::check::{AS_LIST, AS_MAP, expected, missing, text, value};
use super::{Content, Entry, NETWORKS, Tree};

/// The key that names the field that identifies the entries of a list of objects.
pub(super) const KEY: &str = "$key";

const FORMS: &str =
    "an edit of a variable is `$prepend` or `$append`, that of an annotation `$append` with `$key`";

/// The keys of edits of strings.
fn known_keys() -> impl Iterator<Item = &'static str> {
    [&LIST_EDIT, &NETWORKS_EDIT, &ENTRIES_EDIT].into_iter().flat_map(keys::Map::names)
}

/// Checks the value of an annotation, or an edit of it.
pub(super) fn annotation(entry: &Entry, shape: &Shape) -> Checked<()> {
    let tree = &entry.value;
    if !matches!(tree.content, Content::Map(_)) {
        return value(tree, shape);
    }
    let (_, list) = side(tree)?;
    if entry.source() == NETWORKS && tree.get(KEY).is_none() {
        only(tree, NETWORKS_EDIT.names())?;
        return networks(list);
    }
    if tree.get(KEY).is_none() && entry.name().is_none() {
        let message = "an edit of networks is for a key that is written out";
        return Err(Diagnostic::new(entry.span, message)
            .code(MISPLACED_EDIT)
            .hint(format!("write `{NETWORKS}`, or `$key` for a list of maps"))
            .into());
    }
    only(tree, ENTRIES_EDIT.names())?;
    objects(tree, list)
}

/// Checks an edit of the list that a variable holds.
pub(super) fn of_variable(tree: &Tree) -> Checked<()> {
    let (side, entry) = side(tree)?;
    if tree.get(KEY).is_some() {
        return Err(of_an_annotation(tree, KEY).into());
    }
    text(entry)?;
    if entry.as_str() == Some("") {
        return Err(Diagnostic::new(entry.span, format!("`{side}` adds an empty entry"))
            .hint("write the entry, or leave the edit out")
            .into());
    }
    Ok(())
}

/// The side on which an edit adds, and the entry that it adds.
pub(super) fn side(tree: &Tree) -> Checked<(&'static str, &Tree)> {
    tree.readable()?;
    for entry in tree.entries() {
        let key = entry.source();
        if known_keys().all(|known| known != key) {
            let message = format!("expected a string or an edit of one, but `{key}` is not an edit");
            return Err(Diagnostic::new(entry.span, message)
                .code(MISPLACED_EDIT)
                .hint(reader::renamed(&key).map_or_else(|| suggest(&key, known_keys()), str::to_owned))
                .into());
        }
    }
    match (tree.get("$prepend"), tree.get("$append")) {
        (Some(_), Some(append)) => {
            Err(Diagnostic::new(append.span, "one edit adds one entry, in front or at the end")
                .code(MISPLACED_EDIT)
                .hint("write two rules for two entries")
                .into())
        }
        (Some(value), None) => Ok(("$prepend", value)),
        (None, Some(value)) => Ok(("$append", value)),
        (None, None) => Err(Diagnostic::new(tree.span, "this edit adds nothing").hint(FORMS).into()),
    }
}

/// Fails for an edit with a key other than these.
fn only(tree: &Tree, keys: impl IntoIterator<Item = &'static str>) -> Result<(), Diagnostic> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let other = known_keys().filter(|key| !keys.contains(key)).find_map(|key| Some((key, tree.get(key)?)));
    other.map_or(Ok(()), |(key, value)| {
        let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let message = format!("`{key}` does not go with {}", known.join(" and "));
        Err(Diagnostic::new(value.span, message).code(MISPLACED_EDIT).hint(FORMS))
    })
}

/// An edit of annotations where there is none.
fn of_an_annotation(tree: &Tree, key: &str) -> Diagnostic {
    let span = tree.get(key).map_or(tree.span, |edit| edit.span);
    Diagnostic::new(span, format!("`{key}` edits the text of an annotation, but this is not one"))
        .code(MISPLACED_EDIT)
        .hint("write it as the value of a key of `pod.metadata.annotations`")
}

/// Fails for a misplaced edit.
pub(super) fn refuse_edits(tree: &Tree) -> Result<(), Diagnostic> {
    refuse_edit(tree, "write it as the value of a variable in `env`, or of an annotation")
}

/// The same, with a replacement for an edit of a list in a string.
pub(super) fn refuse_edit(tree: &Tree, instead: &str) -> Result<(), Diagnostic> {
    let entries = tree.entries();
    if let Some(entry) = entries.iter().find(|entry| entry.source() == "$replace") {
        let error = Diagnostic::new(entry.span, "`$replace` is no key of an overlay").code(MISPLACED_EDIT);
        return Err(reader::renamed("$replace").into_iter().fold(error, Diagnostic::hint));
    }
    let edit = entries.iter().find(|entry| known_keys().any(|key| entry.source() == key));
    let Some(edit) = edit else { return Ok(()) };
    if tree.get(KEY).is_some() {
        return Err(of_an_annotation(tree, KEY));
    }
    let message = format!("`{}` edits a list in a string, but this is not one", edit.source());
    Err(Diagnostic::new(edit.span, message).code(MISPLACED_EDIT).hint(instead))
}

/// Checks entries of a list of objects that the text of an annotation holds, such as `networking.gke.io/interfaces`.
fn objects(edit: &Tree, list: &Tree) -> Checked<()> {
    let Some(node) = edit.get(KEY) else {
        let message = "`$append` needs `$key`, the field that identifies the entries of the list";
        return Err(Diagnostic::new(list.span, message)
            .code(MISSING_KEY)
            .hint("write for example `$key: name`, or the whole text of the annotation")
            .into());
    };
    text(node)?;
    let Some(key) = node.as_str().filter(|key| !key.is_empty()) else {
        return Err(Diagnostic::new(node.span, "`$key` is a string without expressions")
            .hint("name the field that identifies the entries")
            .into());
    };
    list.readable()?;
    match &list.content {
        Content::Text(Interpolation::Expression(_)) => Ok(()),
        Content::List(items) => {
            let mut problems = Problems::default();
            for item in items {
                problems.take(object(item, key));
            }
            problems.result(())?;
            let constants: Vec<Value> = items.iter().filter_map(|item| item.clone().into_value()).collect();
            unique(&constants.iter().filter_map(Value::as_object).collect::<Vec<_>>(), key)
                .map_err(|message| Diagnostic::new(list.span, message).hint("write each entry once").into())
        }
        _ => Err(expected(list, "a list").hint(AS_LIST).into()),
    }
}

/// Checks an entry that is written out: a map with the key in it.
fn object(tree: &Tree, key: &str) -> Checked<()> {
    tree.readable()?;
    if !matches!(tree.content, Content::Map(_)) {
        let is_expression = matches!(tree.content, Content::Text(_));
        let hint =
            if is_expression { "let one expression be the whole value: `$append: ${…}`" } else { AS_MAP };
        return Err(expected(tree, "a map").hint(hint).into());
    }
    if tree.get(key).is_none() {
        return Err(missing(tree, key).hint("`$key` names the field that identifies the entries").into());
    }
    readable_within(tree)
}

fn readable_within(tree: &Tree) -> Checked<()> {
    tree.readable()?;
    tree.items().iter().chain(tree.entries().iter().map(|entry| &entry.value)).try_for_each(readable_within)
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

/// Checks the names of networks that are written out.
fn networks(names: &Tree) -> Checked<()> {
    let Content::List(items) = &names.content else { return network(names, false) };
    let mut problems = Problems::default();
    for item in items {
        problems.take(network(item, true));
    }
    problems.result(())?;
    let written = items.iter().filter_map(Tree::as_str);
    match interface_of_two(written) {
        Some(message) => Err(Diagnostic::new(names.span, message).hint("give each its own").into()),
        None => Ok(()),
    }
}

/// Checks the name of a network. An entry of a list can name an interface.
fn network(tree: &Tree, listed: bool) -> Checked<()> {
    text(tree)?;
    let Some(name) = tree.as_str() else { return Ok(()) };
    check_network(name, listed).map_err(|problem| {
        let hint = if name.starts_with('$') {
            "an expression is written as `${…}`"
        } else {
            "name a network as `name` or `namespace/name`, in a list also as `name@interface`"
        };
        let says_name = problem.starts_with(&format!("`{name}`"));
        let message = if says_name { problem } else { format!("`{name}`: {problem}") };
        Diagnostic::new(tree.span, message).hint(hint).into()
    })
}

/// The error about an interface that two networks of a list have.
pub(super) fn interface_of_two<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut known = std::collections::BTreeSet::new();
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
