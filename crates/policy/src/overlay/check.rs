//! Whether a tree fits the tables of a Pod: a tree that its author wrote, or the value of an expression.

mod edits;
mod values;

use crate::interpolation::Interpolation;
use crate::schema::{self, AMOUNT_LISTS, Field, Object, Shape, resource_amount, resource_pair};
use crate::source::{Checked, Diagnostic, MISPLACED_EDIT, Problems, WRONG_TYPE};

use super::scalars::is_structure;
use super::{Content, Entry, Tree, is_zero};
pub(super) use edits::added;
pub(crate) use values::value;
use values::{elements, fields, keyed_values, list, mismatch, missing, once};

/// Checks the fields of an object that is merged field by field.
pub(super) fn object(tree: &Tree, object: &'static Object) -> Checked<()> {
    let mut problems = Problems::default();
    for (entry, known) in fields(tree, object, &mut problems)? {
        problems.take(field(&entry.value, known, object));
    }
    problems.result(())
}

/// Checks one field of an object that is merged field by field.
fn field(tree: &Tree, known: &'static Field, object: &'static Object) -> Checked<()> {
    let is_listed =
        object.name == "PodSpec" && ["containers", "initContainers", "volumes"].contains(&known.name);
    // The parts of a spec are merged at different times.
    let is_spec = *object == *schema::pod() && known.name == "spec";
    if is_listed {
        written_items(tree)?;
    } else if !is_spec
        && is_structure(&known.shape)
        && matches!(tree.content, Content::Text(Interpolation::Expression(_)))
    {
        return Ok(());
    }
    written_field(tree, known, object)
}

/// Checks a field whose value is written out.
pub(super) fn written_field(tree: &Tree, field: &'static Field, object: &'static Object) -> Checked<()> {
    match (object.name, field.name, &field.shape) {
        ("Container", "env", Shape::List { items, .. }) => env(tree, items),
        ("Container", "volumeMounts", Shape::List { items, .. }) => mounts(tree, items),
        ("Container", "resources", Shape::Object(resources)) => self::resources(tree, resources),
        ("ObjectMeta", "annotations", Shape::Map { keys, values }) => {
            keyed_values(tree, *keys, |entry| edits::annotation(entry, values))
        }
        (_, _, Shape::Object(within)) => self::object(tree, within),
        (_, _, Shape::Map { keys, values }) => keyed_values(tree, *keys, |entry| value(&entry.value, values)),
        (_, _, Shape::List { items: Shape::Object(within), .. }) => {
            let mut problems = Problems::default();
            for item in list(tree)? {
                problems.take(named_object(item, within));
            }
            problems.result(())
        }
        (_, _, Shape::List { items, keys: Some(keys) }) => elements(list(tree)?, items, keys),
        (_, _, shape) => value(tree, shape),
    }
}

/// Checks an entry of a list that is merged field by field: a container with its name.
fn named_object(tree: &Tree, object: &'static Object) -> Checked<()> {
    self::object(tree, object)?;
    if tree.get("name").is_none() { Err(missing(tree, "name").into()) } else { Ok(()) }
}

fn mounts(tree: &Tree, items: &'static Shape) -> Checked<()> {
    let mounts = list(tree)?;
    elements(mounts, items, &["mountPath"])?;
    // One spelling for each path, to find two mounts at the same path.
    for mount in mounts {
        // A path of Windows stays as it is.
        let Some(path) = mount.literal("mountPath").filter(|path| !path.contains(['\\', ':'])) else {
            continue;
        };
        let parts: Vec<&str> = path.split('/').filter(|part| !["", "."].contains(part)).collect();
        let clean = format!("/{}", parts.join("/"));
        if path != clean {
            let fault = if path.starts_with('/') { "has another spelling" } else { "is not absolute" };
            let message = format!("the mount path `{path}` {fault}");
            let span = mount.get("mountPath").map_or(mount.span, |path| path.span);
            return Err(Diagnostic::new(span, message).hint(format!("write `{clean}`")).into());
        }
    }
    Ok(())
}

fn env(tree: &Tree, items: &'static Shape) -> Checked<()> {
    let mut problems = Problems::default();
    let variables = list(tree)?;
    for entry in variables {
        problems.take(variable(entry, items));
    }
    problems.result(())?;
    let is_set = |entry: &&Tree| entry.edit_at("value").is_none();
    Ok(once(variables.iter().filter(is_set), "name")?)
}

fn variable(entry: &Tree, items: &'static Shape) -> Checked<()> {
    let (Shape::Object(object) | Shape::Atomic(object)) = items else {
        return Err(mismatch(entry, items).into());
    };
    let (Some(edit), Some(name)) = (entry.edit_at("value"), entry.get("name")) else {
        return elements(std::slice::from_ref(entry), items, &["name"]);
    };
    let mut problems = Problems::default();
    for (other, field) in fields(entry, object, &mut problems)? {
        if !["name", "value"].contains(&field.name) {
            let message = "an edit changes the `value` of a variable, and nothing else";
            problems.add(Diagnostic::new(other.span, message).code(MISPLACED_EDIT));
        }
    }
    problems.result(())?;
    object.field("name").map_or(Ok(()), |field| value(name, &field.shape))?;
    edits::of_variable(&edit.added)
}

/// Limits, requests and claims.
fn resources(tree: &Tree, resources: &'static Object) -> Checked<()> {
    object(tree, resources)?;
    for list in AMOUNT_LISTS {
        for entry in tree.get(list).map_or(&[][..], Tree::entries) {
            check_amount(tree, list, entry).map_err(|(message, hint)| {
                let amount = "write a number of devices, or a quantity such as `64Gi`";
                Diagnostic::new(entry.value.span, message).hint(hint.unwrap_or(amount))
            })?;
        }
    }
    Ok(())
}

/// The remedy for a request and a limit that no container has together.
const PAIR: &str = "write the same amount for both; the limit can be more for `cpu` and `memory`";

/// Fails for an amount without expressions that the API server refuses, by itself or next to that of the other list. The
/// latter has a remedy of its own.
pub(super) fn check_amount(
    resources: &Tree,
    list: &str,
    entry: &Entry,
) -> Result<(), (String, Option<&'static str>)> {
    let name = entry.name().or_else(|| entry.resources().next());
    let (Some(name), Some(amount)) = (name, entry.value.as_value()) else { return Ok(()) };
    if amount.is_null() || is_zero(amount) {
        return Ok(());
    }
    resource_amount(name, amount).map_err(|message| (message, None))?;
    let requests = resources.get("requests").filter(|_| list == "limits").map_or(&[][..], Tree::entries);
    let request = requests.iter().find(|other| other.key == entry.key);
    match request.and_then(|request| request.value.as_value()) {
        Some(request) if !is_zero(request) => {
            resource_pair(name, amount, request).map_err(|message| (message, Some(PAIR)))
        }
        _ => Ok(()),
    }
}

/// The items of a list of containers or volumes.
fn written_items(tree: &Tree) -> Checked<&[Tree]> {
    if matches!(tree.content, Content::Text(Interpolation::Expression(_))) {
        return Err(Diagnostic::new(
            tree.span,
            "an expression cannot yield the containers or volumes of a pod",
        )
        .code(WRONG_TYPE)
        .hint("write the entries out, with expressions in their fields")
        .into());
    }
    list(tree)
}
