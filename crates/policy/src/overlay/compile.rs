//! From an overlay in YAML, or from the value of an expression, to instructions.

use serde_json::Value;

use crate::interpolation::{Interpolation, Names, Phase};
use crate::schema::{self, Field, ListMerge, Object, Shape, resource_amount, resource_pair};
use crate::source::{Checked, Diagnostic, FIELD_NOT_SETTABLE, MISPLACED_EDIT, Problems, WRONG_TYPE, all};
use fabric_yaml::Node;

use super::scalars::is_structure;
use super::source::{Source, SourceContent, SourceEntry};
use super::values::{elements, fields, keyed_values, list, mismatch, missing, once, value};
use super::{
    Amount, Element, EnvEntry, Instruction, Instructions, NamedContainer, PodOverlay, StringValue, Template,
};
use crate::overlay::edit::strings::{annotation, of_variable};

/// Compiles the overlays of a policy.
pub struct Compiler<'a> {
    pub(crate) names: &'a Names,
}

impl Compiler<'_> {
    /// Compiles an overlay for a container.
    pub(crate) fn container(&self, node: &Node) -> Checked<Instructions> {
        let mut problems = Problems::default();
        let source = Source::read(node, self.names, Phase::Container, &mut problems);
        if let Some(name) = source.get("name") {
            problems.add(
                Diagnostic::new(name.span, "an overlay cannot rename a container")
                    .code(FIELD_NOT_SETTABLE)
                    .hint("choose containers by `containers: container.name == …` of the rule"),
            );
        }
        let compiled = problems.take(instructions(&source, schema::container()));
        problems.result(compiled.unwrap_or_default())
    }

    /// Compiles an overlay for a pod.
    ///
    /// The requests of the pod are counted after its containers are injected. Neither containers nor the volumes and
    /// claims that they use can depend on them.
    pub(crate) fn pod(&self, node: &Node) -> Checked<PodOverlay> {
        let mut problems = Problems::default();
        let source = Source::read(node, self.names, Phase::Injected, &mut problems);
        let mut overlay = PodOverlay::default();
        let fields = fields(&source, schema::pod(), &mut problems);
        for (entry, field) in problems.take(fields).unwrap_or_default() {
            let Shape::Object(object) = &field.shape else { continue };
            if field.name != "spec" {
                overlay.instructions.extend(problems.take(instruction(&entry.value, field, schema::pod())));
                continue;
            }
            for early in ["volumes", "resourceClaims", "containers", "initContainers"] {
                if let Some(source) = entry.value.get(early) {
                    problems.take(source.check_phase(self.names, Phase::Pod));
                }
            }
            problems.take(overlay.spec(&entry.value, field, object));
        }
        problems.result(overlay)
    }
}

impl PodOverlay {
    fn spec(&mut self, source: &Source, spec: &'static Field, object: &'static Object) -> Checked<()> {
        let mut others = Vec::new();
        let mut problems = Problems::default();
        for (entry, field) in fields(source, object, &mut problems)? {
            match field.name {
                "volumes" => {
                    let Shape::List { items, .. } = &field.shape else { continue };
                    let volumes =
                        entries_of(&entry.value).and_then(|entries| elements(entries, items, &["name"]));
                    self.volumes.extend(problems.take(volumes).unwrap_or_default());
                }
                "containers" | "initContainers" => {
                    let containers = entries_of(&entry.value).and_then(|entries| {
                        all(entries.iter().map(|container| named_container(container, field.name)))
                    });
                    self.containers.extend::<Vec<_>>(problems.take(containers).unwrap_or_default());
                }
                "resourceClaims" => {
                    let instructions =
                        problems.take(instruction(&entry.value, field, object)).into_iter().collect();
                    self.claims.push(Instruction::Object { field: spec, instructions });
                }
                _ => others.extend(problems.take(instruction(&entry.value, field, object))),
            }
        }
        if !others.is_empty() {
            self.instructions.push(Instruction::Object { field: spec, instructions: others });
        }
        problems.result(())
    }
}

/// The entries of a list of containers or volumes.
fn entries_of(source: &Source) -> Checked<&[Source]> {
    match &source.content {
        SourceContent::Text(Interpolation::Expression(_)) => {
            Err(Diagnostic::new(source.span, "an expression cannot yield the containers or volumes of a pod")
                .code(WRONG_TYPE)
                .hint("write the entries out, with expressions in their fields")
                .into())
        }
        _ => list(source),
    }
}

fn named_container(source: &Source, list: &'static str) -> Checked<NamedContainer> {
    let object = schema::container();
    let mut problems = Problems::default();
    let mut name = None;
    let mut others: Instructions = Vec::new();
    for (entry, field) in fields(source, object, &mut problems)? {
        if field.name == "name" {
            name = problems.take(value(&entry.value, &field.shape));
            continue;
        }
        let Some(compiled) = problems.take(instruction(&entry.value, field, object)) else { continue };
        // First of all: other fields depend on it.
        let at = if field.name == "restartPolicy" { 0 } else { others.len() };
        others.insert(at, compiled);
    }
    problems.result(())?;
    if source.get("name").is_none() {
        return Err(missing(source, "name").into());
    }
    let name = name.ok_or_else(Problems::default)?;
    Ok(NamedContainer { list, name, instructions: others })
}

/// Compiles the fields of an object that is merged field by field.
fn instructions(source: &Source, object: &'static Object) -> Checked<Instructions> {
    let mut problems = Problems::default();
    let fields = fields(source, object, &mut problems)?.into_iter();
    let compiled =
        fields.filter_map(|(entry, field)| problems.take(instruction(&entry.value, field, object)));
    let compiled = compiled.collect();
    problems.result(compiled)
}

/// Compiles one field of an object.
fn instruction(source: &Source, field: &'static Field, object: &'static Object) -> Checked<Instruction> {
    if let SourceContent::Text(text @ Interpolation::Expression(_)) = &source.content
        && is_structure(&field.shape)
        && !matches!(field.shape, Shape::Atomic(_) | Shape::List { merge: ListMerge::Atomic, .. })
    {
        return Ok(Instruction::Computed { object, field, expression: text.clone() });
    }
    compile_field(source, field, object)
}

/// Compiles a field whose value is written out.
fn compile_field(source: &Source, field: &'static Field, object: &'static Object) -> Checked<Instruction> {
    match (object.name, field.name, &field.shape) {
        ("Container", "env", Shape::List { items, .. }) => env(source, field, items),
        ("Container", "volumeMounts", Shape::List { items, .. }) => {
            let sources = list(source)?;
            let mounts = elements(sources, items, &["mountPath"])?;
            // One spelling for each path, to find two mounts at the same path.
            for (source, Element(mount)) in sources.iter().zip(&mounts) {
                // A path of Windows stays as it is.
                let Some(path) = mount.literal("mountPath").filter(|path| !path.contains(['\\', ':'])) else {
                    continue;
                };
                let parts: Vec<&str> = path.split('/').filter(|part| !["", "."].contains(part)).collect();
                let clean = format!("/{}", parts.join("/"));
                if path != clean {
                    let fault =
                        if path.starts_with('/') { "has another spelling" } else { "is not absolute" };
                    let message = format!("the mount path `{path}` {fault}");
                    return Err(Diagnostic::new(source.span, message)
                        .hint(format!("write `{clean}`"))
                        .into());
                }
            }
            Ok(Instruction::Keyed { field, keys: &["mountPath"], entries: mounts })
        }
        ("Container", "resources", Shape::Object(resources)) => {
            Ok(Instruction::Object { field, instructions: self::resources(source, resources)? })
        }
        ("ResourceRequirements", _, Shape::Map { .. }) => {
            let mut amounts = Vec::new();
            add_amounts(source, field, &mut amounts)?;
            Ok(Instruction::Amounts(amounts))
        }
        ("ObjectMeta", "annotations", Shape::Map { keys, values }) => {
            let entries = keyed_values(source, *keys, |entry| annotation(entry, values))?;
            Ok(Instruction::Map { field, keys: *keys, entries })
        }
        (_, _, Shape::Object(within)) => {
            Ok(Instruction::Object { field, instructions: instructions(source, within)? })
        }
        (_, _, Shape::Map { keys, values }) => {
            let text = |entry: &SourceEntry| value(&entry.value, values).map(StringValue::Text);
            Ok(Instruction::Map { field, keys: *keys, entries: keyed_values(source, *keys, text)? })
        }
        (_, _, Shape::List { items, merge: ListMerge::Keyed(keys) }) => {
            Ok(Instruction::Keyed { field, keys, entries: elements(list(source)?, items, keys)? })
        }
        (_, _, Shape::List { items, merge: ListMerge::Set }) => {
            Ok(Instruction::Keyed { field, keys: &[], entries: elements(list(source)?, items, &[])? })
        }
        (_, _, shape) => Ok(Instruction::Value { field, template: value(source, shape)? }),
    }
}

/// Compiles the value that an expression yields for a field, like an overlay that is written out.
pub fn compile_computed(
    value: &Value,
    field: &'static Field,
    object: &'static Object,
) -> Checked<Option<Instruction>> {
    Source::of_value(value).map(|source| compile_field(&source, field, object)).transpose()
}

fn env(source: &Source, field: &'static Field, items: &'static Shape) -> Checked<Instruction> {
    let sources = list(source)?;
    let variables: Vec<Option<EnvEntry>> = all(sources.iter().map(|entry| variable(entry, items)))?;
    let nothing = Element(Template::Constant(Value::Null));
    let elements = variables.iter().map(|variable| match variable {
        Some(EnvEntry::Entry(element)) => element,
        _ => &nothing,
    });
    once(sources, elements, "name")?;
    Ok(Instruction::Env { field, variables: variables.into_iter().flatten().collect() })
}

fn variable(entry: &Source, items: &'static Shape) -> Checked<Option<EnvEntry>> {
    let (Shape::Object(object) | Shape::Atomic(object)) = items else {
        return Err(mismatch(entry, items).into());
    };
    let edit = entry.get("value").filter(|value| matches!(value.content, SourceContent::Map(_)));
    let (Some(edit), Some(name)) = (edit, entry.get("name")) else {
        let element = elements(std::slice::from_ref(entry), items, &["name"])?;
        return Ok(element.into_iter().map(EnvEntry::Entry).next());
    };
    let mut problems = Problems::default();
    for (other, field) in fields(entry, object, &mut problems)? {
        if !["name", "value"].contains(&field.name) {
            let message = "an edit changes the `value` of a variable, and nothing else";
            problems.add(Diagnostic::new(other.span, message).code(MISPLACED_EDIT));
        }
    }
    problems.result(())?;
    let Some(shape) = object.field("name").map(|field| field.shape) else { return Ok(None) };
    Ok(Some(EnvEntry::List { name: value(name, &shape)?, edit: of_variable(edit)? }))
}

/// Limits and requests by resource, since the two of one resource are merged together, and claims.
fn resources(source: &Source, object: &'static Object) -> Checked<Instructions> {
    let mut amounts: Vec<Amount> = Vec::new();
    let mut others = Vec::new();
    let mut problems = Problems::default();
    for (entry, field) in fields(source, object, &mut problems)? {
        let written_out = matches!(entry.value.content, SourceContent::Map(_));
        if matches!(field.shape, Shape::Map { .. }) && written_out {
            problems.take(add_amounts(&entry.value, field, &mut amounts));
        } else {
            others.extend(problems.take(instruction(&entry.value, field, object)));
        }
    }
    for amount in &amounts {
        problems.take(check_constants(source, amount));
    }
    if !amounts.is_empty() {
        others.insert(0, Instruction::Amounts(amounts));
    }
    problems.result(others)
}

/// Fails for amounts without expressions that the API server refuses.
fn check_constants(source: &Source, amount: &Amount) -> Result<(), Diagnostic> {
    let Interpolation::Literal(name) = &amount.resource else { return Ok(()) };
    let constant = |template: &Option<Template>| match template {
        Some(Template::Constant(value)) => Some(value.clone()),
        _ => None,
    };
    let (limit, request) = (constant(&amount.limit), constant(&amount.request));
    let amounts = limit.iter().chain(&request).try_for_each(|value| resource_amount(name, value));
    let pair = match (&limit, &request) {
        (Some(limit), Some(request)) => resource_pair(name, limit, request),
        _ => Ok(()),
    };
    let place = ["limits", "requests"].into_iter().find_map(|list| source.get(list)?.get(name));
    amounts.and(pair).map_err(|message| {
        let hint = "write a number of devices, or a quantity such as `64Gi`";
        Diagnostic::new(place.unwrap_or(source).span, message).hint(hint)
    })
}

/// Adds the amounts of `limits` or `requests`.
fn add_amounts(source: &Source, field: &Field, amounts: &mut Vec<Amount>) -> Checked<()> {
    let Shape::Map { keys, values } = &field.shape else { return Err(mismatch(source, &field.shape).into()) };
    for (key, template) in keyed_values(source, *keys, |entry| value(&entry.value, values))? {
        let resource = key.source();
        let at = amounts.iter().position(|known| known.resource.source() == resource).unwrap_or_else(|| {
            amounts.push(Amount { resource: key, nth: None, limit: None, request: None });
            amounts.len() - 1
        });
        let amount = &mut amounts[at];
        *(if field.name == "limits" { &mut amount.limit } else { &mut amount.request }) = Some(template);
    }
    Ok(())
}
