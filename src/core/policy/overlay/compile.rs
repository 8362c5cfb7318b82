//! From an overlay in YAML, or from the value of an expression, to instructions.

use serde_json::Value;

use crate::core::policy::diagnostic::Diagnostic;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::phase::{Names, Phase};
use crate::core::schema::{self, Field, ListMerge, Object, Shape, resource_amount, resource_pair};
use crate::core::yaml::Node;

use super::accept::is_structure;
use super::edit_keys::REPLACE;
use super::edits::{edit_of, string_value};
use super::misplaced::of_an_annotation;
use super::replace;
use super::source::{Source, SourceContent};
use super::values::{AS_LIST, elements, expected, fields, keyed_values, list, mismatch, missing, value};
use super::{Amount, Instruction, Instructions, NamedContainer, PodOverlay, StringValue, Template, Variable};

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
                _ if entry.value.get(REPLACE).is_some() => {
                    others.push(instruction(&entry.value, field, object)?);
                }
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
    if let Some(list) = source.get(REPLACE) {
        return replace::compile(source, list, field, object);
    }
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
    let compile = |source: Source| match source.get(REPLACE) {
        Some(_) => Err(replace::computed(&source)),
        None => compile_field(&source, field, object),
    };
    Source::of_value(value).map(compile).transpose()
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
            StringValue::Networks(_) => return Err(of_an_annotation(edit, "$networks")),
            StringValue::Entries(_) => return Err(of_an_annotation(edit, "$entries")),
            StringValue::Text(_) => return Err(mismatch(edit, &shape)),
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
    for amount in &amounts {
        check_constants(source, amount)?;
    }
    if !amounts.is_empty() {
        others.insert(0, Instruction::Amounts(amounts));
    }
    Ok(others)
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
    amounts.and(pair).map_err(|message| {
        let mut diagnostic = Diagnostic::new(source.span, message);
        diagnostic.needle = Some(name.as_str().into());
        diagnostic
    })
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
