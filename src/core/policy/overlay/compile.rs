//! From an overlay in YAML, or from the value of an expression, to instructions.

use serde_json::{Map, Value};

use crate::core::policy::diagnostic::{Diagnostic, suggest};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::phase::{Names, Phase};
use crate::core::schema::{self, Default, Field, Format, Invalid, ListMerge, Object, Overlay, Shape, check};
use crate::core::yaml::Node;

use super::source::{Source, SourceContent, SourceEntry};
use super::template::{accept, describe, is_structure};
use super::{
    Amount, Element, Instruction, Instructions, ListEdit, NamedContainer, NetworksEdit, PodOverlay,
    StringValue, Template, Variable,
};

/// Compiles the overlays of a policy.
pub(crate) struct Compiler<'a> {
    pub(crate) names: &'a Names,
}

impl Compiler<'_> {
    /// Compiles an overlay for a container.
    pub(crate) fn container(&self, node: &Node) -> Result<Instructions, Diagnostic> {
        let source = Source::read(node, self.names, Phase::Container)?;
        if let Some(name) = source.get("name") {
            return Err(Diagnostic::new(name.span, "an overlay cannot rename a container")
                .hint("choose containers by `containers: ${container.name == …}` of the rule"));
        }
        instructions(&source, schema::container())
    }

    /// Compiles an overlay for a pod.
    ///
    /// The requests of the pod are counted after its containers are injected, so that neither containers nor the volumes
    /// and claims that they use can depend on them.
    pub(crate) fn pod(&self, node: &Node) -> Result<PodOverlay, Diagnostic> {
        let source = Source::read(node, self.names, Phase::Injected)?;
        let mut overlay = PodOverlay::default();
        for (entry, field) in fields(&source, schema::pod())? {
            let Shape::Object(object) = &field.shape else {
                return Err(mismatch(&entry.value, &field.shape));
            };
            if field.name != "spec" {
                overlay.instructions.push(instruction(&entry.value, field, schema::pod())?);
                continue;
            }
            for early in ["volumes", "resourceClaims", "containers", "initContainers"] {
                if let Some(source) = entry.value.get(early) {
                    source.check_phase(self.names, Phase::Pod)?;
                }
            }
            overlay.spec(&entry.value, field, object)?;
        }
        Ok(overlay)
    }
}

impl PodOverlay {
    fn spec(
        &mut self,
        source: &Source,
        spec: &'static Field,
        object: &'static Object,
    ) -> Result<(), Diagnostic> {
        let mut others = Vec::new();
        for (entry, field) in fields(source, object)? {
            match field.name {
                "volumes" => {
                    let Shape::List { items, .. } = &field.shape else { continue };
                    self.volumes.extend(elements(entries_of(&entry.value)?, items, &["name"])?);
                }
                "containers" | "initContainers" => {
                    for container in entries_of(&entry.value)? {
                        self.containers.push(named_container(container, field.name)?);
                    }
                }
                "resourceClaims" => {
                    let instructions = vec![instruction(&entry.value, field, object)?];
                    self.claims.push(Instruction::Object { field: spec, instructions });
                }
                _ => others.push(instruction(&entry.value, field, object)?),
            }
        }
        if !others.is_empty() {
            self.instructions.push(Instruction::Object { field: spec, instructions: others });
        }
        Ok(())
    }
}

/// The entries of a list of containers or volumes.
fn entries_of(source: &Source) -> Result<&[Source], Diagnostic> {
    match &source.content {
        SourceContent::List(entries) => Ok(entries),
        SourceContent::Text(Interpolation::Expression(_)) => {
            Err(Diagnostic::new(source.span, "an expression cannot yield the containers or volumes of a pod")
                .hint("write the entries out, with expressions in their fields"))
        }
        _ => Err(expected(source, "a list").hint(AS_LIST)),
    }
}

fn named_container(source: &Source, list: &'static str) -> Result<NamedContainer, Diagnostic> {
    let object = schema::container();
    let mut name = None;
    let mut others: Instructions = Vec::new();
    for (entry, field) in fields(source, object)? {
        match field.name {
            "name" => name = Some(value(&entry.value, &field.shape)?),
            // First of all: other fields depend on it.
            "restartPolicy" => others.insert(0, instruction(&entry.value, field, object)?),
            _ => others.push(instruction(&entry.value, field, object)?),
        }
    }
    let name = name.ok_or_else(|| missing(source, "name"))?;
    Ok(NamedContainer { list, name, instructions: others })
}

/// Compiles the fields of an object that is merged field by field.
fn instructions(source: &Source, object: &'static Object) -> Result<Instructions, Diagnostic> {
    fields(source, object)?
        .into_iter()
        .map(|(entry, field)| instruction(&entry.value, field, object))
        .collect()
}

/// Compiles one field of an object.
fn instruction(
    source: &Source,
    field: &'static Field,
    object: &'static Object,
) -> Result<Instruction, Diagnostic> {
    if let SourceContent::Text(text @ Interpolation::Expression(_)) = &source.content
        && is_structure(&field.shape)
        && !matches!(field.shape, Shape::Atomic(_) | Shape::List { merge: ListMerge::Atomic, .. })
    {
        return Ok(Instruction::Computed { object, field, expression: text.clone() });
    }
    compile_field(source, field, object)
}

/// Compiles a field whose value is written out.
fn compile_field(
    source: &Source,
    field: &'static Field,
    object: &'static Object,
) -> Result<Instruction, Diagnostic> {
    match (object.name, field.name, &field.shape) {
        ("Container", "env", Shape::List { items, .. }) => env(source, field, items),
        ("Container", "volumeMounts", Shape::List { items, .. }) => {
            let mounts = elements(list(source)?, items, &["mountPath"])?;
            Ok(Instruction::Mounts { field, mounts })
        }
        ("Container", "resources", Shape::Object(resources)) => {
            Ok(Instruction::Object { field, instructions: self::resources(source, resources)? })
        }
        ("ResourceRequirements", _, Shape::Map { .. }) => {
            let mut amounts = Vec::new();
            add_amounts(source, field, &mut amounts)?;
            Ok(Instruction::Amounts(amounts))
        }
        ("ResourceRequirements", "claims", Shape::List { items, .. }) => {
            Ok(Instruction::Claims { field, entries: elements(list(source)?, items, &["name"])? })
        }
        ("SecurityContext", "capabilities", Shape::Object(capabilities)) => {
            let lists = fields(source, capabilities)?
                .into_iter()
                .map(|(entry, list)| Ok((list, value(&entry.value, &list.shape)?)))
                .collect::<Result<_, Diagnostic>>()?;
            Ok(Instruction::Capabilities { field, lists })
        }
        ("ObjectMeta", "annotations", Shape::Map { keys, values }) => {
            let entries = keyed_values(source, *keys)?
                .map(|entry| Ok((entry.key.clone(), string_value(&entry.value, values)?)))
                .collect::<Result<_, Diagnostic>>()?;
            Ok(Instruction::Annotations { field, keys: *keys, entries })
        }
        (_, _, Shape::Object(within)) => {
            Ok(Instruction::Object { field, instructions: instructions(source, within)? })
        }
        (_, _, Shape::Map { keys, values }) => {
            let entries = keyed_values(source, *keys)?
                .map(|entry| Ok((entry.key.clone(), value(&entry.value, values)?)))
                .collect::<Result<_, Diagnostic>>()?;
            Ok(Instruction::Entries { field, keys: *keys, entries })
        }
        (_, _, Shape::List { items, merge: ListMerge::Keyed(keys) }) => {
            Ok(Instruction::Keyed { field, keys, entries: elements(list(source)?, items, keys)? })
        }
        (_, _, Shape::List { items, merge: ListMerge::Set }) => {
            Ok(Instruction::Set { field, entries: elements(list(source)?, items, &[])? })
        }
        (_, _, shape) => Ok(Instruction::Value { field, template: value(source, shape)? }),
    }
}

/// Compiles the value that an expression yields for a field, like an overlay that is written out.
pub(crate) fn compile_computed(
    value: &Value,
    field: &'static Field,
    object: &'static Object,
) -> Result<Option<Instruction>, Diagnostic> {
    Source::of_value(value).map(|source| compile_field(&source, field, object)).transpose()
}

/// The fields of a map, each with its field of the schema.
fn fields<'s>(
    source: &'s Source,
    object: &'static Object,
) -> Result<Vec<(&'s SourceEntry, &'static Field)>, Diagnostic> {
    let SourceContent::Map(entries) = &source.content else {
        return Err(match &source.content {
            SourceContent::Text(Interpolation::Expression(_)) => {
                Diagnostic::new(source.span, format!("an expression cannot yield a whole {}", object.name))
                    .hint("write the fields out, with expressions as their values")
            }
            _ => mismatch(source, &Shape::Atomic(object)),
        });
    };
    entries.iter().map(|entry| Ok((entry, known_field(entry, object)?))).collect()
}

fn known_field(entry: &SourceEntry, object: &'static Object) -> Result<&'static Field, Diagnostic> {
    let name = match &entry.key {
        Interpolation::Literal(name) => name,
        other => {
            let message = format!("`{}` cannot be the name of a field of {}", other.source(), object.name);
            return Err(Diagnostic::new(entry.span, message)
                .hint("expressions can be keys of maps such as annotations, and amounts of resources"));
        }
    };
    let Some(field) = object.field(name) else {
        let settable = object.fields.iter().filter(|field| !matches!(field.overlay, Overlay::Refused(_)));
        let message = format!("no {} has a field `{name}`", object.name);
        return Err(
            Diagnostic::new(entry.span, message).hint(suggest(name, settable.map(|field| field.name)))
        );
    };
    if let Overlay::Refused(reason) = field.overlay {
        let message = format!("an overlay cannot set `{name}`: {reason}");
        return Err(
            Diagnostic::new(entry.span, message).hint("docs/policy.md lists what overlays cannot set")
        );
    }
    Ok(field)
}

/// The entries of a map with keys of the user's choice.
fn keyed_values(source: &Source, keys: Format) -> Result<impl Iterator<Item = &SourceEntry>, Diagnostic> {
    let SourceContent::Map(entries) = &source.content else {
        return Err(expected(source, "a map").hint(AS_MAP));
    };
    for entry in entries {
        if let Interpolation::Literal(key) = &entry.key {
            keys.check(key).map_err(|problem| Diagnostic::new(entry.span, format!("`{key}`: {problem}")))?;
        }
    }
    Ok(entries.iter())
}

fn list(source: &Source) -> Result<&[Source], Diagnostic> {
    match &source.content {
        SourceContent::List(entries) => Ok(entries),
        _ => Err(expected(source, "a list").hint(AS_LIST)),
    }
}

/// Compiles the entries of a list; each has the first of the keys, which is the one without a default.
fn elements(entries: &[Source], items: &'static Shape, keys: &[&str]) -> Result<Vec<Element>, Diagnostic> {
    entries
        .iter()
        .map(|entry| {
            if let (Some(key), SourceContent::Map(_)) = (keys.first(), &entry.content)
                && entry.get(key).is_none()
            {
                return Err(Diagnostic::new(entry.span, format!("an entry of this list needs its `{key}`")));
            }
            if let (Shape::Object(_) | Shape::Atomic(_), SourceContent::Text(_)) = (items, &entry.content) {
                return Err(Diagnostic::new(entry.span, "an expression cannot yield one entry of this list")
                    .hint("write the entry out, or let one expression yield the whole list"));
            }
            Ok(Element(value(entry, items)?))
        })
        .collect()
}

/// Compiles a value that is not merged further.
pub(crate) fn compile_value(source: &Source, shape: &Shape) -> Result<Template, Diagnostic> {
    value(source, shape)
}

fn value(source: &Source, shape: &Shape) -> Result<Template, Diagnostic> {
    let template = match (shape, &source.content) {
        (_, SourceContent::Text(text @ Interpolation::Expression(_))) => {
            Template::Computed(text.clone(), *shape)
        }
        (Shape::Object(object) | Shape::Atomic(object), SourceContent::Map(_)) => {
            whole_object(source, object)?
        }
        (Shape::Map { keys, values }, SourceContent::Map(_)) => Template::Map(
            *keys,
            keyed_values(source, *keys)?
                .map(|entry| Ok((entry.key.clone(), value(&entry.value, values)?)))
                .collect::<Result<_, Diagnostic>>()?,
        ),
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
                _ => return Err(mismatch(source, shape)),
            }
        }
        (Shape::Boolean, SourceContent::Scalar(flag)) if flag.is_boolean() => {
            Template::Constant(flag.clone())
        }
        _ => return Err(mismatch(source, shape)),
    };
    let template = solidified(template);
    if let Template::Constant(value) = &template
        && is_structure(shape)
    {
        check(value, shape).map_err(|invalid| located(source, &invalid))?;
    }
    Ok(template)
}

/// An error at the part of an overlay that it is about.
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

/// Compiles an object that is one value: it has all that the API server requires.
fn whole_object(source: &Source, object: &'static Object) -> Result<Template, Diagnostic> {
    let fields = fields(source, object)?;
    if let Some(field) = object.fields.iter().find(|field| field.required && source.get(field.name).is_none())
    {
        return Err(missing(source, field.name));
    }
    let among = |names: &[&'static str]| -> Vec<&'static str> {
        fields.iter().map(|(_, field)| field.name).filter(|name| names.contains(name)).collect()
    };
    let (one, at_most) = (among(object.exactly_one_of), among(object.at_most_one_of));
    if let [first, second, ..] = one.as_slice() {
        return Err(Diagnostic::new(source.span, format!("`{first}` and `{second}` exclude each other")));
    }
    if let [first, second, ..] = at_most.as_slice() {
        return Err(Diagnostic::new(source.span, format!("`{first}` and `{second}` exclude each other")));
    }
    let has_default = |name: &&str| object.field(name).is_some_and(|field| field.default != Default::Absent);
    if one.is_empty() && !object.exactly_one_of.is_empty() && !object.exactly_one_of.iter().any(has_default) {
        let settable = object.exactly_one_of.iter().copied().filter(|name| {
            object.field(name).is_some_and(|field| !matches!(field.overlay, Overlay::Refused(_)))
        });
        return Err(Diagnostic::new(source.span, format!("this {} says nothing of its kind", object.name))
            .hint(format!("give it one of {}", quoted(settable))));
    }
    let fields = fields
        .iter()
        .map(|(entry, field)| Ok((*field, value(&entry.value, &field.shape)?)))
        .collect::<Result<_, Diagnostic>>()?;
    Ok(Template::Object(object, fields))
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

fn env(source: &Source, field: &'static Field, items: &'static Shape) -> Result<Instruction, Diagnostic> {
    let (Shape::Object(object) | Shape::Atomic(object)) = items else { return Err(mismatch(source, items)) };
    let mut variables = Vec::new();
    for entry in list(source)? {
        let edit = entry.get("value").filter(|value| matches!(value.content, SourceContent::Map(_)));
        let (Some(edit), Some(name)) = (edit, entry.get("name")) else {
            let element = elements(std::slice::from_ref(entry), items, &["name"])?;
            variables.extend(element.into_iter().map(Variable::Entry));
            continue;
        };
        if let Some(other) =
            fields(entry, object)?.iter().find(|(_, field)| !["name", "value"].contains(&field.name))
        {
            return Err(Diagnostic::new(
                other.0.span,
                "an edit changes the `value` of a variable, and nothing else",
            ));
        }
        let Some(shape) = object.field("name").map(|field| field.shape) else { continue };
        match edit_of(edit)? {
            StringValue::List(edit) => variables.push(Variable::List { name: value(name, &shape)?, edit }),
            _ => {
                return Err(Diagnostic::new(edit.span, "`$networks` edits an annotation, not a variable"));
            }
        }
    }
    Ok(Instruction::Env { field, variables })
}

/// Limits and requests by resource, so that the two of one resource are merged together, and claims.
fn resources(source: &Source, object: &'static Object) -> Result<Instructions, Diagnostic> {
    let mut amounts: Vec<Amount> = Vec::new();
    let mut others = Vec::new();
    for (entry, field) in fields(source, object)? {
        let written_out = matches!(entry.value.content, SourceContent::Map(_));
        if matches!(field.shape, Shape::Map { .. }) && written_out {
            add_amounts(&entry.value, field, &mut amounts)?;
        } else {
            others.push(instruction(&entry.value, field, object)?);
        }
    }
    if !amounts.is_empty() {
        others.insert(0, Instruction::Amounts(amounts));
    }
    Ok(others)
}

/// Adds the amounts of `limits` or `requests`.
fn add_amounts(source: &Source, field: &Field, amounts: &mut Vec<Amount>) -> Result<(), Diagnostic> {
    let Shape::Map { keys, values } = &field.shape else { return Err(mismatch(source, &field.shape)) };
    for entry in keyed_values(source, *keys)? {
        let template = value(&entry.value, values)?;
        let resource = entry.key.source();
        let at = amounts.iter().position(|known| known.resource.source() == resource).unwrap_or_else(|| {
            amounts.push(Amount { resource: entry.key.clone(), limit: None, request: None });
            amounts.len() - 1
        });
        let amount = &mut amounts[at];
        *(if field.name == "limits" { &mut amount.limit } else { &mut amount.request }) = Some(template);
    }
    Ok(())
}

fn string_value(source: &Source, shape: &Shape) -> Result<StringValue, Diagnostic> {
    match &source.content {
        SourceContent::Map(_) => edit_of(source),
        _ => value(source, shape).map(StringValue::Text),
    }
}

/// An edit of the list that a string holds.
fn edit_of(source: &Source) -> Result<StringValue, Diagnostic> {
    const KEYS: [&str; 5] = ["$prepend", "$append", "$separator", "$networks", "$count"];
    let SourceContent::Map(entries) = &source.content else {
        return Err(mismatch(source, &Shape::Text(Format::Any)));
    };
    let text = |key: &str| source.get(key).map(edit_text).transpose();
    for entry in entries {
        let key = entry.key.source();
        if !KEYS.contains(&key.as_str()) {
            let message = format!("expected a string or an edit of one, and `{key}` is no edit");
            return Err(Diagnostic::new(entry.span, message).hint(suggest(&key, KEYS)));
        }
    }
    let (prepend, append, networks, count) =
        (text("$prepend")?, text("$append")?, text("$networks")?, text("$count")?);
    let separator = match text("$separator")? {
        None => ":".to_owned(),
        Some(Interpolation::Literal(text)) if !text.is_empty() => text,
        Some(_) => {
            let span = source.get("$separator").map_or(source.span, |source| source.span);
            return Err(Diagnostic::new(span, "a separator is a string without expressions, and not empty"));
        }
    };
    match (prepend, append, networks, count) {
        (Some(_), Some(_), ..) => {
            let span = source.get("$append").map_or(source.span, |source| source.span);
            Err(Diagnostic::new(span, "one edit adds one entry, in front or at the end")
                .hint("write two rules for two entries"))
        }
        (Some(entry), None, None, None) => {
            Ok(StringValue::List(ListEdit { entry, separator, prepend: true }))
        }
        (None, Some(entry), None, None) => {
            Ok(StringValue::List(ListEdit { entry, separator, prepend: false }))
        }
        (None, None, Some(network), Some(count)) if source.get("$separator").is_none() => {
            Ok(StringValue::Networks(NetworksEdit { network, count }))
        }
        _ => {
            let message = "an edit is either `$prepend`, `$append`, or `$networks` with `$count`";
            Err(Diagnostic::new(source.span, message))
        }
    }
}

fn edit_text(source: &Source) -> Result<Interpolation, Diagnostic> {
    match &source.content {
        SourceContent::Text(text) => Ok(text.clone()),
        _ => Err(expected(source, "a string").hint("put it in quotes")),
    }
}

const AS_MAP: &str = "write `key: value` on lines of their own, indented";
const AS_LIST: &str = "write `- item` on lines of their own, or `[one, two]`";

fn missing(source: &Source, field: &str) -> Diagnostic {
    Diagnostic::new(source.span, format!("an entry of this list needs its `{field}`"))
}

fn expected(source: &Source, what: &str) -> Diagnostic {
    Diagnostic::new(source.span, format!("expected {what}, found {}", source.describe()))
}

fn mismatch(source: &Source, shape: &Shape) -> Diagnostic {
    let diagnostic = expected(source, &describe(shape));
    let hint = match (shape, &source.content) {
        (Shape::Text(_), SourceContent::Scalar(_)) => "put it in quotes",
        (Shape::Text(_), _) => "write text, in quotes if it looks like a number or a boolean",
        (Shape::Boolean | Shape::Integer(..), _) => "write it without quotes",
        (Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. }, _) => AS_MAP,
        (Shape::List { .. }, _) => AS_LIST,
        (Shape::Quantity, _) => "write for example `64Gi`",
        _ => return diagnostic,
    };
    diagnostic.hint(hint)
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
