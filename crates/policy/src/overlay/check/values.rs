//! Values that are not merged further.

use std::collections::HashMap;

use serde_json::Value;

use crate::interpolation::Interpolation;
use crate::schema::{self, Field, Format, Object, Overlay, Shape, check_port};
use crate::source::{
    CONFLICTING_RULES, Checked, Diagnostic, FIELD_NOT_SETTABLE, MISSING_KEY, NOT_A_POD_FIELD, Problems,
    WRONG_TYPE, suggest,
};

use super::super::scalars::{accept, is_structure};
use super::super::{Content, Entry, Tree};

/// Checks a value that is not merged further.
pub(crate) fn value(tree: &Tree, shape: &Shape) -> Checked<()> {
    tree.readable()?;
    match (shape, &tree.content) {
        (_, Content::Text(Interpolation::Expression(_))) => return Ok(()),
        (Shape::Object(object) | Shape::Atomic(object), Content::Map(_)) => whole_object(tree, object)?,
        (Shape::Map { keys, values }, Content::Map(_)) => {
            keyed_values(tree, *keys, |entry| value(&entry.value, values))?;
        }
        (Shape::List { items, keys }, Content::List(entries)) => {
            elements(entries, items, keys.unwrap_or_default())?;
        }
        (_, Content::Text(_)) if !is_structure(shape) => return Ok(()),
        (_, Content::Value(scalar)) if !is_structure(shape) => return Ok(constant(tree, scalar, shape)?),
        _ => return Err(mismatch(tree, shape).into()),
    }
    if let Shape::Object(Object { rule: Some(rule), .. }) | Shape::Atomic(Object { rule: Some(rule), .. }) =
        shape
        && let Some(Value::Object(fields)) = tree.clone().into_value()
    {
        rule(&fields).map_err(|message| Diagnostic::new(tree.span, message))?;
    }
    Ok(())
}

/// Checks a scalar. A number is written as a number, and a string as a string, as in a pod.
fn constant(tree: &Tree, scalar: &Value, shape: &Shape) -> Result<(), Diagnostic> {
    let is_spelled_out = match shape {
        Shape::Text(format) => {
            let Some(text) = scalar.as_str() else { return Err(mismatch(tree, shape)) };
            return format
                .check(text)
                .map_err(|problem| Diagnostic::new(tree.span, format!("`{text}`: {problem}")));
        }
        Shape::Integer(..) => scalar.is_number(),
        Shape::PortNumberOrName if scalar.is_number() || scalar.is_string() => {
            return check_port(scalar).map_err(|message| Diagnostic::new(tree.span, message));
        }
        Shape::Quantity => scalar.is_number() || scalar.is_string(),
        Shape::Boolean => return if scalar.is_boolean() { Ok(()) } else { Err(mismatch(tree, shape)) },
        _ => false,
    };
    match accept(scalar, shape) {
        Ok(Some(_)) if is_spelled_out => Ok(()),
        _ => Err(mismatch(tree, shape)),
    }
}

/// Checks an object that is one value: it has every field that the API server requires.
fn whole_object(tree: &Tree, object: &'static Object) -> Checked<()> {
    let mut problems = Problems::default();
    let fields = fields(tree, object, &mut problems)?;
    // A field that seems to be missing may be one of those with a problem.
    if problems.is_empty() {
        problems.take(complete(tree, object, &fields));
    }
    for (entry, field) in fields {
        problems.take(value(&entry.value, &field.shape));
    }
    problems.result(())
}

/// Fails for an object without a field that it needs, or with two that exclude each other.
fn complete(
    tree: &Tree,
    object: &'static Object,
    fields: &[(&Entry, &'static Field)],
) -> Result<(), Diagnostic> {
    if let Some(field) = object.fields.iter().find(|field| field.required && tree.get(field.name).is_none()) {
        return Err(missing(tree, field.name));
    }
    let written: Vec<&str> = fields.iter().map(|(_, field)| field.name).collect();
    object.check_exclusive(&written).map_err(|message| Diagnostic::new(tree.span, message))?;
    match object.choice_of(|name| tree.get(name).is_some()) {
        Some(names) => {
            Err(Diagnostic::new(tree.span, format!("this {} does not say what kind it is", object.name))
                .code(MISSING_KEY)
                .hint(format!("give it one of {names}")))
        }
        None => Ok(()),
    }
}

/// The known fields of a map, each with its field of the schema.
pub(super) fn fields<'s>(
    tree: &'s Tree,
    object: &'static Object,
    problems: &mut Problems,
) -> Checked<Vec<(&'s Entry, &'static Field)>> {
    tree.readable()?;
    let Content::Map(entries) = &tree.content else {
        return Err(match &tree.content {
            Content::Text(Interpolation::Expression(_)) => {
                Diagnostic::new(tree.span, format!("an expression cannot yield a whole {}", object.name))
                    .code(WRONG_TYPE)
                    .hint("write the fields out, with expressions as their values")
            }
            _ => mismatch(tree, &Shape::Atomic(object)),
        }
        .into());
    };
    let known = |entry| Some((entry, problems.take(known_field(entry, object))?));
    Ok(entries.iter().filter_map(known).collect())
}

fn known_field(entry: &Entry, object: &'static Object) -> Result<&'static Field, Diagnostic> {
    let Some(name) = entry.name() else {
        let message = format!("`{}` cannot be the name of a field of {}", entry.source(), object.name);
        return Err(Diagnostic::new(entry.span, message)
            .code(NOT_A_POD_FIELD)
            .hint("expressions can be keys of maps such as annotations, and amounts of resources"));
    };
    let Some(field) = object.field(name) else {
        let settable = object.fields.iter().filter(|field| field.is_settable());
        let message = format!("no {} has a field `{name}`", object.name);
        let container = schema::container();
        let hint = match object.field_with(name).filter(|field| field.is_settable()) {
            Some(within) => format!("write it under `{}`", within.name),
            None if object.name.starts_with("Pod")
                && container.field(name).or(container.field_with(name)).is_some() =>
            {
                "containers have it: write it in `container` of a rule".to_owned()
            }
            None => suggest(name, settable.map(|field| field.name)),
        };
        return Err(Diagnostic::new(entry.span, message).code(NOT_A_POD_FIELD).hint(hint));
    };
    if let Overlay::Refused(reason) = field.overlay {
        let message = format!("an overlay cannot set `{name}`: {reason}");
        return Err(Diagnostic::new(entry.span, message)
            .code(FIELD_NOT_SETTABLE)
            .hint("docs/policy.md lists what overlays cannot set"));
    }
    Ok(field)
}

/// Checks the entries of a map with keys of the user's choice.
pub(super) fn keyed_values(tree: &Tree, keys: Format, check: impl Fn(&Entry) -> Checked<()>) -> Checked<()> {
    tree.readable()?;
    let Content::Map(entries) = &tree.content else {
        return Err(expected(tree, "a map").hint(AS_MAP).into());
    };
    let mut problems = Problems::default();
    for entry in entries {
        let key = entry.name().map_or(Ok(()), |key| {
            keys.check(key).map_err(|problem| Diagnostic::new(entry.span, format!("`{key}`: {problem}")))
        });
        problems.take(key.map_err(Problems::from).and_then(|()| check(entry)));
    }
    problems.result(())
}

pub(super) fn list(tree: &Tree) -> Checked<&[Tree]> {
    tree.readable()?;
    if let Content::List(items) = &tree.content {
        return Ok(items);
    }
    Err(expected(tree, "a list").hint(AS_LIST).into())
}

/// Checks the entries of a list; each has the first of the keys, which is the one without a default.
pub(super) fn elements(entries: &[Tree], items: &'static Shape, keys: &[&str]) -> Checked<()> {
    let mut problems = Problems::default();
    for entry in entries {
        problems.take(element(entry, items, keys.first().copied()));
    }
    problems.result(())?;
    if let [key] = keys { Ok(once(entries.iter(), key)?) } else { Ok(()) }
}

fn element(entry: &Tree, items: &'static Shape, key: Option<&str>) -> Checked<()> {
    if let (Shape::Object(_) | Shape::Atomic(_), Content::Text(_)) = (items, &entry.content) {
        let message = "an expression cannot yield one entry of this list";
        return Err(Diagnostic::new(entry.span, message)
            .code(WRONG_TYPE)
            .hint("write the entry out, or let one expression yield the whole list")
            .into());
    }
    value(entry, items)?;
    match (key, &entry.content) {
        (Some(key), Content::Map(_)) if entry.get(key).is_none() => Err(missing(entry, key).into()),
        _ => Ok(()),
    }
}

/// Fails for two entries with the same key, one of which has no expressions and so is always there: the second one
/// would have no effect.
pub(super) fn once<'e>(entries: impl Iterator<Item = &'e Tree>, key: &str) -> Result<(), Diagnostic> {
    let mut known: HashMap<&Value, bool> = HashMap::new();
    for entry in entries {
        let Some(value) = entry.get(key).and_then(Tree::as_value) else { continue };
        let is_constant = !entry.has_expressions();
        if known.get(value).is_some_and(|constant| *constant || is_constant) {
            let message = format!("two entries of the list have the `{key}` {value}");
            return Err(Diagnostic::new(entry.span, message)
                .code(CONFLICTING_RULES)
                .hint("keep one of them, with one expression if its value depends on the pod"));
        }
        *known.entry(value).or_default() |= is_constant;
    }
    Ok(())
}

/// Checks a string, with or without expressions.
pub(super) fn text(tree: &Tree) -> Checked<()> {
    tree.readable()?;
    match &tree.content {
        Content::Text(_) | Content::Value(Value::String(_)) => Ok(()),
        _ => Err(expected(tree, "a string").hint("put it in quotes").into()),
    }
}

pub(super) const AS_MAP: &str = "write `key: value` on lines of their own, indented";
pub(super) const AS_LIST: &str = "write `- item` on lines of their own, or `[one, two]`";

pub(super) fn missing(tree: &Tree, field: &str) -> Diagnostic {
    Diagnostic::new(tree.span, format!("`{field}` is missing here")).code(MISSING_KEY)
}

pub(super) fn expected(tree: &Tree, what: &str) -> Diagnostic {
    Diagnostic::new(tree.span, format!("expected {what}, found {}", tree.describe())).code(WRONG_TYPE)
}

pub(super) fn mismatch(tree: &Tree, shape: &Shape) -> Diagnostic {
    let diagnostic = expected(tree, &shape.description());
    if let (Shape::Integer(0, 0o777), Content::Value(Value::Number(mode))) = (shape, &tree.content)
        && let Some(meant) = i64::from_str_radix(&mode.to_string(), 8).ok().filter(|mode| *mode <= 0o777)
    {
        return diagnostic.hint(format!("write `{meant}`, which is the octal number `0{mode}`"));
    }
    let hint = match (shape, &tree.content) {
        (Shape::Text(_), Content::Value(Value::Number(_) | Value::Bool(_))) => "put it in quotes",
        (Shape::Text(_), _) => "write text, in quotes if it looks like a number or a boolean",
        (Shape::Boolean, _) => "write `true` or `false`, without quotes",
        (Shape::Integer(least, most), Content::Value(Value::String(text))) => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let fits = text[..digits].parse().is_ok_and(|number: i64| (*least..=*most).contains(&number));
            if fits {
                return diagnostic.hint(format!("write `{}`", &text[..digits]));
            }
            "write digits without quotes"
        }
        (Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. }, _) => AS_MAP,
        (Shape::List { .. }, _) => AS_LIST,
        (Shape::Quantity, _) => "write for example `64Gi`, or an expression such as `\"${gpus}\"`",
        _ => return diagnostic,
    };
    diagnostic.hint(hint)
}
