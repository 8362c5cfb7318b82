//! Edits of texts, and the names and objects that they add.

use serde_json::Value;

use crate::interpolation::Interpolation;
use crate::source::{Checked, Diagnostic, Problems};

use super::super::tree::edit;
use super::super::{Content, Tree};
use super::{expected, missing, text};

/// Checks what a rule adds to the list in an annotation: objects with a field that identifies them, or networks.
pub(crate) fn added(list: &Tree, key: Option<&str>) -> Checked<()> {
    key.map_or_else(|| networks(list), |key| objects(list, key))
}

/// Checks the entry that is added to the list of a variable.
pub(crate) fn of_variable(added: &Tree) -> Checked<()> {
    text(added)?;
    if added.as_str() != Some("") {
        return Ok(());
    }
    let hint = "write the entry, or leave the variable out";
    Err(Diagnostic::new(added.span, "the entry to add to the variable is empty").hint(hint).into())
}

/// Checks entries of a list of objects that the text of an annotation holds, with a field that identifies them.
fn objects(list: &Tree, key: &str) -> Checked<()> {
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
            edit::unique(&constants, key)
                .map_err(|message| Diagnostic::new(list.span, message).hint("write each entry once").into())
        }
        _ => Err(expected(list, "a list").into()),
    }
}

/// Checks an entry that is written out: a map with the key in it.
fn object(tree: &Tree, key: &str) -> Checked<()> {
    tree.readable()?;
    if !matches!(tree.content, Content::Map(_)) {
        let is_expression = matches!(tree.content, Content::Text(_));
        let wrong = expected(tree, "a map");
        let as_whole = "let one expression be the whole value: `${…}`";
        return Err(if is_expression { wrong.hint(as_whole) } else { wrong }.into());
    }
    if tree.get(key).is_none() {
        let hint = "the key of the annotation names this field, which identifies the entries";
        return Err(missing(tree, key).hint(hint).into());
    }
    readable_within(tree)
}

fn readable_within(tree: &Tree) -> Checked<()> {
    tree.readable()?;
    tree.items().iter().chain(tree.entries().iter().map(|entry| &entry.value)).try_for_each(readable_within)
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
    let Some(message) = edit::interface_of_two(written) else { return Ok(()) };
    Err(Diagnostic::new(names.span, message).hint("give each its own").into())
}

/// Checks the name of a network. An entry of a list can name an interface.
fn network(tree: &Tree, listed: bool) -> Checked<()> {
    text(tree)?;
    let Some(name) = tree.as_str() else { return Ok(()) };
    edit::check_network(name, listed).map_err(|problem| {
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
