//! Whether a part of a tree fits the tables of a Pod, and the messages for one that does not. `evaluation` walks the tree.

mod edits;

use std::collections::HashMap;

use serde_json::Value;

use crate::keys::hint_for_misplaced;
use crate::schema::{Field, Object, Overlay, Shape, check_port, resource_amount, resource_pair};
use crate::source::{
    CONFLICTING_RULES, Checked, Diagnostic, FIELD_NOT_SETTABLE, MISPLACED_EDIT, MISSING_KEY, NOT_A_POD_FIELD,
    WRONG_TYPE, all, reader, suggest,
};

use super::scalars::accept;
use super::{Content, Entry, Tree, is_zero};
pub(super) use edits::{added, of_variable};

/// Checks a value without parts. A number is written as a number, and a string as a string, as in a pod.
pub(super) fn leaf(tree: &Tree, shape: &Shape) -> Result<(), Diagnostic> {
    let Content::Value(scalar) = &tree.content else { return Err(mismatch(tree, shape)) };
    match (shape, scalar) {
        (Shape::Text(format), Value::String(text)) => {
            let checked = format.check(text);
            checked.map_err(|problem| Diagnostic::new(tree.span, format!("`{text}`: {problem}")))
        }
        (Shape::PortNumberOrName, Value::Number(_) | Value::String(_)) => {
            check_port(scalar).map_err(|message| Diagnostic::new(tree.span, message))
        }
        (Shape::Integer(..), Value::Number(_))
        | (Shape::Quantity, Value::Number(_) | Value::String(_))
        | (Shape::Boolean, Value::Bool(_))
            if accept(scalar, shape).is_ok() =>
        {
            Ok(())
        }
        _ => Err(mismatch(tree, shape)),
    }
}

/// Fails for an object without a field that it needs, or with two that exclude each other.
pub(super) fn complete(tree: &Tree, object: &'static Object) -> Result<(), Diagnostic> {
    if let Some(field) = object.fields.iter().find(|field| field.required && tree.get(field.name).is_none()) {
        return Err(missing(tree, field.name));
    }
    let written: Vec<&str> = tree.entries().iter().filter_map(Entry::name).collect();
    object.check_exclusive(&written).map_err(|message| Diagnostic::new(tree.span, message))?;
    let Some(names) = object.choice_of(|name| tree.get(name).is_some()) else { return Ok(()) };
    let message = format!("this {} does not say what kind it is", object.name);
    Err(Diagnostic::error(MISSING_KEY, tree.span, message).hint(format!("give it one of {names}")))
}

/// The settable field that an entry names.
pub(super) fn known_field(entry: &Entry, object: &'static Object) -> Result<&'static Field, Diagnostic> {
    let Some(name) = entry.name() else {
        let message = format!("`{}` cannot be the name of a field of {}", entry.source(), object.name);
        return Err(Diagnostic::error(NOT_A_POD_FIELD, entry.span, message)
            .hint("expressions can be keys of maps such as annotations, and amounts of resources"));
    };
    let Some(field) = object.field(name) else {
        let settable = object.fields.iter().filter(|field| field.is_settable());
        let message = format!("no {} has a field `{name}`", object.name);
        let within = object.field_with(name).filter(|field| field.is_settable());
        let within = within.map(|within| format!("write it under `{}`", within.name));
        let misplaced = || hint_for_misplaced(object.name, name).map(str::to_owned);
        let hint =
            within.or_else(misplaced).unwrap_or_else(|| suggest(name, settable.map(|field| field.name)));
        return Err(Diagnostic::error(NOT_A_POD_FIELD, entry.span, message).hint(hint));
    };
    if let Overlay::Refused(reason) = field.overlay {
        let message = format!("an overlay cannot set `{name}`: {reason}");
        return Err(Diagnostic::error(FIELD_NOT_SETTABLE, entry.span, message)
            .hint("docs/policy.md lists what overlays cannot set"));
    }
    Ok(field)
}

/// The error about a map that is something else.
pub(super) fn no_fields(tree: &Tree, object: &'static Object) -> Diagnostic {
    if !tree.is_expression() {
        return mismatch(tree, &Shape::Atomic(object));
    }
    Diagnostic::error(WRONG_TYPE, tree.span, format!("an expression cannot yield a whole {}", object.name))
        .hint("write the fields out, with expressions as their values")
}

/// Fails for an edit of a variable that also sets other fields.
pub(super) fn edit_alone(variable: &Tree) -> Result<(), Diagnostic> {
    let is_other = |entry: &&Entry| entry.name().is_some_and(|name| !["name", "value"].contains(&name));
    let other = variable.entries().iter().find(is_other);
    let Some(other) = other.filter(|_| variable.edit_at("value").is_some()) else { return Ok(()) };
    let message = "an edit changes the `value` of a variable, and nothing else";
    Err(Diagnostic::error(MISPLACED_EDIT, other.span, message))
}

/// Fails for an expression in place of a list of containers or volumes.
pub(super) fn listed(tree: &Tree, field: &Field, object: &Object) -> Result<(), Diagnostic> {
    let is_listed =
        object.name == "PodSpec" && ["containers", "initContainers", "volumes"].contains(&field.name);
    if !is_listed || !tree.is_expression() {
        return Ok(());
    }
    let message = "an expression cannot yield the containers or volumes of a pod";
    let hint = "write the entries out, with expressions in their fields";
    Err(Diagnostic::error(WRONG_TYPE, tree.span, message).hint(hint))
}

/// Fails for an entry without the first of the keys, which is the one without a default, and for two entries with the same
/// key, one of which has no expressions and so is always there: the second one would have no effect.
pub(super) fn keyed(entries: &[Tree], keys: &[&str]) -> Checked<()> {
    let Some(key) = keys.first() else { return Ok(()) };
    let without = entries.iter().filter(|entry| entry.is_map() && entry.get(key).is_none());
    all::<_, _, ()>(without.map(|entry| Err(missing(entry, key))))?;
    let mut known: HashMap<&Value, bool> = HashMap::new();
    if keys.len() > 1 {
        return Ok(());
    }
    for entry in entries.iter().filter(|entry| entry.edit_at("value").is_none()) {
        let Some(value) = entry.get(key).and_then(Tree::as_value) else { continue };
        let is_constant = !entry.has_expressions();
        if known.get(value).is_some_and(|constant| *constant || is_constant) {
            let message = format!("two entries of the list have the `{key}` {value}");
            let hint = "keep one of them, with one expression if its value depends on the pod";
            return Err(Diagnostic::error(CONFLICTING_RULES, entry.span, message).hint(hint).into());
        }
        *known.entry(value).or_default() |= is_constant;
    }
    Ok(())
}

/// Fails for a mount path that has another spelling, since two mounts at the same path must be found.
pub(super) fn mounts(mounts: &[Tree]) -> Result<(), Diagnostic> {
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
            return Err(Diagnostic::new(span, message).hint(format!("write `{clean}`")));
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

/// Checks a string, with or without expressions.
pub(super) fn text(tree: &Tree) -> Checked<()> {
    tree.readable()?;
    match &tree.content {
        Content::Text(_) | Content::Value(Value::String(_)) => Ok(()),
        _ => Err(expected(tree, "a string").hint("put it in quotes").into()),
    }
}

pub(super) fn missing(tree: &Tree, field: &str) -> Diagnostic {
    Diagnostic::error(MISSING_KEY, tree.span, format!("`{field}` is missing here"))
}

pub(super) fn expected(tree: &Tree, what: &str) -> Diagnostic {
    reader::wrong_type(tree.span, what, &tree.describe())
}

/// The most fields of an object of which one is suggested.
const FEW_FIELDS: usize = 8;

/// The field of an object that takes the value which stands in its place.
fn field_for(tree: &Tree, object: &'static Object) -> Option<&'static str> {
    // Of many fields, any may be meant.
    if object.fields.len() > FEW_FIELDS {
        return None;
    }
    let takes = |field: &&Field| match &tree.content {
        Content::List(_) => matches!(field.shape, Shape::List { .. }),
        _ => matches!(field.shape, Shape::Text(_) | Shape::Quantity | Shape::PortNumberOrName),
    };
    let required = object.fields.iter().find(|field| field.required);
    required.or_else(|| object.fields.iter().find(takes)).map(|field| field.name)
}

pub(super) fn mismatch(tree: &Tree, shape: &Shape) -> Diagnostic {
    let diagnostic = expected(tree, &shape.description());
    if let (Shape::Integer(0, 0o777), Content::Value(Value::Number(mode))) = (shape, &tree.content)
        && let Some(meant) = i64::from_str_radix(&mode.to_string(), 8).ok().filter(|mode| *mode <= 0o777)
    {
        return diagnostic.hint(format!("write `{meant}`, which is the octal number `0{mode}`"));
    }
    if let Shape::Object(object) | Shape::Atomic(object) = shape
        && let Some(field) = field_for(tree, object)
    {
        return diagnostic.hint(format!("write the value as a field, such as `{{{field}: …}}`"));
    }
    let hint = match (shape, &tree.content) {
        (Shape::Text(_), Content::Value(Value::Number(_) | Value::Bool(_))) => "put it in quotes",
        (Shape::Boolean, _) => "write `true` or `false`, without quotes",
        (Shape::Integer(least, most), Content::Value(Value::String(text))) => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let fits = text[..digits].parse().is_ok_and(|number: i64| (*least..=*most).contains(&number));
            return if fits { diagnostic.hint(format!("write `{}`", &text[..digits])) } else { diagnostic };
        }
        (Shape::Quantity, _) => "write for example `64Gi`, or an expression such as `\"${gpus}\"`",
        (Shape::PortNumberOrName, _) => return Diagnostic { hint: None, ..diagnostic },
        _ => return diagnostic,
    };
    diagnostic.hint(hint)
}
