//! Compiling values that an overlay does not merge further.

use serde_json::{Map, Value};

use crate::interpolation::Interpolation;
use crate::schema::{Default, Field, Format, Invalid, ListMerge, Object, Overlay, Shape, validate};
use crate::source::{
    CONFLICTING_RULES, Checked, Diagnostic, FIELD_NOT_SETTABLE, MISSING_KEY, NOT_A_POD_FIELD, Problems,
    WRONG_TYPE, all, suggest,
};

use super::scalars::{accept, describe, is_structure};
use super::source::{Source, SourceContent, SourceEntry};
use super::template::{Element, Template};
use crate::overlay::edit::misplaced::{refuse_edit, refuse_edits};

/// Compiles a value that is not merged further.
pub(super) fn value(source: &Source, shape: &Shape) -> Checked<Template> {
    source.readable()?;
    refuse_edits(source)?;
    let template = match (shape, &source.content) {
        (_, SourceContent::Text(text @ Interpolation::Expression(_))) => {
            Template::Computed(text.clone(), *shape)
        }
        (Shape::Object(object) | Shape::Atomic(object), SourceContent::Map(_)) => {
            whole_object(source, object)?
        }
        (Shape::Map { keys, values }, SourceContent::Map(_)) => {
            Template::Map(*keys, keyed_values(source, *keys, |entry| value(&entry.value, values))?)
        }
        (Shape::List { items, merge }, SourceContent::List(entries)) => {
            let keys = if let ListMerge::Keyed(keys) = merge { keys } else { &[][..] };
            Template::List(elements(entries, items, keys)?)
        }
        (_, SourceContent::Text(text @ Interpolation::Mixed(_))) if !is_structure(shape) => {
            Template::Computed(text.clone(), *shape)
        }
        (_, SourceContent::Text(Interpolation::Literal(text))) if !is_structure(shape) => {
            constant(source, &Value::String(text.clone()), shape)?
        }
        // A number is written as a number, and a string as a string, as in a pod.
        (Shape::Integer(..) | Shape::Quantity | Shape::PortNumberOrName, SourceContent::Scalar(number))
            if number.is_number() =>
        {
            match accept(number, shape) {
                Ok(Some(_)) => Template::Constant(number.clone()),
                _ => return Err(mismatch(source, shape).into()),
            }
        }
        (Shape::Boolean, SourceContent::Scalar(flag)) if flag.is_boolean() => {
            Template::Constant(flag.clone())
        }
        _ => return Err(mismatch(source, shape).into()),
    };
    let template = solidified(template);
    if let Template::Constant(value) = &template
        && is_structure(shape)
    {
        validate(value, shape).map_err(|invalid| located(source, &invalid))?;
    }
    Ok(template)
}

/// An error at a part of an overlay.
fn located(source: &Source, invalid: &Invalid) -> Diagnostic {
    let mut place = source;
    for step in &invalid.path {
        let within = match &place.content {
            SourceContent::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => place.get(step),
        };
        place = within.unwrap_or(place);
    }
    Diagnostic::new(place.span, invalid.message.clone())
}

fn constant(source: &Source, text: &Value, shape: &Shape) -> Result<Template, Diagnostic> {
    let spelled_out = matches!(shape, Shape::Text(_) | Shape::Quantity | Shape::PortNumberOrName);
    match accept(text, shape) {
        Ok(Some(value)) if spelled_out => Ok(Template::Constant(value)),
        Err(_) if matches!(shape, Shape::Text(_)) => {
            let Shape::Text(format) = shape else { return Err(mismatch(source, shape)) };
            let text = text.as_str().unwrap_or_default();
            let problem = format.check(text).err().unwrap_or_default();
            Err(Diagnostic::new(source.span, format!("`{text}`: {problem}")))
        }
        _ => Err(mismatch(source, shape)),
    }
}

/// Compiles an object that is one value: it has every field that the API server requires.
fn whole_object(source: &Source, object: &'static Object) -> Checked<Template> {
    let mut problems = Problems::default();
    let fields = fields(source, object, &mut problems)?;
    // A field that seems to be missing may be one of those with a problem.
    if problems.is_empty() {
        problems.take(complete(source, object, &fields));
    }
    let values = fields
        .iter()
        .filter_map(|(entry, field)| Some((*field, problems.take(value(&entry.value, &field.shape))?)));
    let values = values.collect();
    problems.result(Template::Object(object, values))
}

/// Fails for an object without a field that it needs, or with two that exclude each other.
fn complete(
    source: &Source,
    object: &'static Object,
    fields: &[(&SourceEntry, &'static Field)],
) -> Result<(), Diagnostic> {
    if let Some(field) = object.fields.iter().find(|field| field.required && source.get(field.name).is_none())
    {
        return Err(missing(source, field.name));
    }
    let among = |names: &[&'static str]| -> Vec<&'static str> {
        fields.iter().map(|(_, field)| field.name).filter(|name| names.contains(name)).collect()
    };
    let (one, at_most) = (among(object.exactly_one_of), among(object.at_most_one_of));
    for exclusive in [&one, &at_most] {
        if let [first, second, ..] = exclusive.as_slice() {
            return Err(Diagnostic::new(source.span, format!("`{first}` and `{second}` exclude each other")));
        }
    }
    let has_default = |name: &&str| object.field(name).is_some_and(|field| field.default != Default::Absent);
    if one.is_empty() && !object.exactly_one_of.is_empty() && !object.exactly_one_of.iter().any(has_default) {
        let settable = object.exactly_one_of.iter().copied().filter(|name| {
            object.field(name).is_some_and(|field| !matches!(field.overlay, Overlay::Refused(_)))
        });
        return Err(Diagnostic::new(
            source.span,
            format!("this {} does not say what kind it is", object.name),
        )
        .code(MISSING_KEY)
        .hint(format!("give it one of {}", quoted(settable))));
    }
    Ok(())
}

/// A template without expressions as the one value that it is.
pub(super) fn solidified(template: Template) -> Template {
    let constant = |template: &Template| match template {
        Template::Constant(value) if !value.is_null() => Some(value.clone()),
        _ => None,
    };
    let solid = match &template {
        Template::Object(_, fields) => fields
            .iter()
            .map(|(field, value)| Some((field.name.to_owned(), constant(value)?)))
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object),
        Template::Map(_, entries) => entries
            .iter()
            .map(|(key, value)| match key {
                Interpolation::Literal(key) => Some((key.clone(), constant(value)?)),
                _ => None,
            })
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object),
        Template::List(items) => {
            items.iter().map(|item| constant(&item.0)).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Template::Constant(_) | Template::Computed(..) => None,
    };
    solid.map_or(template, Template::Constant)
}

/// The known fields of a map, each with its field of the schema.
pub(super) fn fields<'s>(
    source: &'s Source,
    object: &'static Object,
    problems: &mut Problems,
) -> Checked<Vec<(&'s SourceEntry, &'static Field)>> {
    source.readable()?;
    refuse_edits(source)?;
    let SourceContent::Map(entries) = &source.content else {
        return Err(match &source.content {
            SourceContent::Text(Interpolation::Expression(_)) => {
                Diagnostic::new(source.span, format!("an expression cannot yield a whole {}", object.name))
                    .code(WRONG_TYPE)
                    .hint("write the fields out, with expressions as their values")
            }
            _ => mismatch(source, &Shape::Atomic(object)),
        }
        .into());
    };
    let known = |entry| Some((entry, problems.take(known_field(entry, object))?));
    Ok(entries.iter().filter_map(known).collect())
}

fn known_field(entry: &SourceEntry, object: &'static Object) -> Result<&'static Field, Diagnostic> {
    let name = match &entry.key {
        Interpolation::Literal(name) => name,
        other => {
            let message = format!("`{}` cannot be the name of a field of {}", other.source(), object.name);
            return Err(Diagnostic::new(entry.span, message)
                .code(NOT_A_POD_FIELD)
                .hint("expressions can be keys of maps such as annotations, and amounts of resources"));
        }
    };
    let Some(field) = object.field(name) else {
        let settable = object.fields.iter().filter(|field| !matches!(field.overlay, Overlay::Refused(_)));
        let message = format!("no {} has a field `{name}`", object.name);
        let has_it = |field: &&Field| match &field.shape {
            Shape::Object(within) | Shape::Atomic(within) => within.field(name).is_some(),
            _ => false,
        };
        let hint = match settable.clone().find(has_it) {
            Some(within) => format!("write it under `{}`", within.name),
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

/// Compiles the entries of a map with keys of the user's choice.
pub(super) fn keyed_values<T>(
    source: &Source,
    keys: Format,
    compile: impl Fn(&SourceEntry) -> Checked<T>,
) -> Checked<Vec<(Interpolation, T)>> {
    source.readable()?;
    refuse_edits(source)?;
    let SourceContent::Map(entries) = &source.content else {
        return Err(expected(source, "a map").hint(AS_MAP).into());
    };
    all(entries.iter().map(|entry| {
        if let Interpolation::Literal(key) = &entry.key {
            keys.check(key).map_err(|problem| Diagnostic::new(entry.span, format!("`{key}`: {problem}")))?;
        }
        compile(entry).map(|value| (entry.key.clone(), value))
    }))
}

pub(super) fn list(source: &Source) -> Checked<&[Source]> {
    source.readable()?;
    if let SourceContent::List(entries) = &source.content {
        return Ok(entries);
    }
    refuse_edit(source, "write the entries as a list, which is added to that of the pod")?;
    Err(expected(source, "a list").hint(AS_LIST).into())
}

/// Compiles the entries of a list; each has the first of the keys, which is the one without a default.
pub(super) fn elements(entries: &[Source], items: &'static Shape, keys: &[&str]) -> Checked<Vec<Element>> {
    let elements: Vec<Element> = all(entries.iter().map(|entry| {
        if let (Shape::Object(_) | Shape::Atomic(_), SourceContent::Text(text)) = (items, &entry.content)
            && text.expressions().next().is_some()
        {
            let message = "an expression cannot yield one entry of this list";
            return Err(Problems::from(
                Diagnostic::new(entry.span, message)
                    .code(WRONG_TYPE)
                    .hint("write the entry out, or let one expression yield the whole list"),
            ));
        }
        let element = value(entry, items)?;
        match (keys.first(), &entry.content) {
            (Some(key), SourceContent::Map(_)) if entry.get(key).is_none() => Err(missing(entry, key).into()),
            _ => Ok(Element(element)),
        }
    }))?;
    if let [key] = keys {
        once(entries, elements.iter(), key)?;
    }
    Ok(elements)
}

/// Fails for two entries with the same key, one of which has no expressions and so is always there: the second one
/// would have no effect.
pub(super) fn once<'e>(
    sources: &[Source],
    elements: impl Iterator<Item = &'e Element>,
    key: &str,
) -> Result<(), Diagnostic> {
    let mut known: Vec<(Value, bool)> = Vec::new();
    for (source, Element(element)) in sources.iter().zip(elements) {
        let Some(Template::Constant(value)) = element.field(key) else { continue };
        let is_constant = matches!(element, Template::Constant(_));
        if known.iter().any(|(other, constant)| *other == value && (*constant || is_constant)) {
            let message = format!("two entries of the list have the `{key}` {value}");
            return Err(Diagnostic::new(source.span, message)
                .code(CONFLICTING_RULES)
                .hint("keep one of them, with one expression if its value depends on the pod"));
        }
        if !value.is_null() {
            known.push((value, is_constant));
        }
    }
    Ok(())
}

/// A string, with or without expressions.
pub(super) fn text(source: &Source) -> Checked<Interpolation> {
    source.readable()?;
    match &source.content {
        SourceContent::Text(text) => Ok(text.clone()),
        _ => Err(expected(source, "a string").hint("put it in quotes").into()),
    }
}

pub(super) const AS_MAP: &str = "write `key: value` on lines of their own, indented";
pub(super) const AS_LIST: &str = "write `- item` on lines of their own, or `[one, two]`";

pub(super) fn missing(source: &Source, field: &str) -> Diagnostic {
    Diagnostic::new(source.span, format!("an entry of this list needs its `{field}`")).code(MISSING_KEY)
}

pub(super) fn expected(source: &Source, what: &str) -> Diagnostic {
    Diagnostic::new(source.span, format!("expected {what}, found {}", source.describe())).code(WRONG_TYPE)
}

pub(super) fn mismatch(source: &Source, shape: &Shape) -> Diagnostic {
    let diagnostic = expected(source, &describe(shape));
    if let (Shape::Integer(0, 0o777), SourceContent::Scalar(Value::Number(mode))) = (shape, &source.content)
        && let Some(meant) = i64::from_str_radix(&mode.to_string(), 8).ok().filter(|mode| *mode <= 0o777)
    {
        return diagnostic.hint(format!("write `{meant}`, which is the octal number `0{mode}`"));
    }
    let hint = match (shape, &source.content) {
        (Shape::Text(_), SourceContent::Scalar(_)) => "put it in quotes",
        (Shape::Text(_), _) => "write text, in quotes if it looks like a number or a boolean",
        (Shape::Boolean | Shape::Integer(..), _) => "write it without quotes",
        (Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. }, _) => AS_MAP,
        (Shape::List { .. }, _) => AS_LIST,
        (Shape::Quantity, _) => "write for example `64Gi`, or an expression such as `\"${gpus}\"`",
        _ => return diagnostic,
    };
    diagnostic.hint(hint)
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
