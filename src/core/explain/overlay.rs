//! The fields of an overlay, each with its place: as the policy has them, or with the values for a pod.

use serde_json::{Map, Value};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::overlay::{
    Element, Instruction, Instructions, NetworksEdit, PodOverlay, StringValue, Template, Variable,
    compile_computed,
};

use super::condition::one_line;

/// A step from an object to a value in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Field(&'static str),
    /// A key of a map.
    Key(String),
    /// The entry of a list that has these values under these keys.
    Entry(Vec<(&'static str, Value)>),
    /// The entry of a list that is this value.
    Item(Value),
}

/// A field of an overlay.
#[derive(Debug, Clone)]
pub(super) struct OverlayField {
    pub(super) path: Vec<Step>,
    /// The value as the policy has it, with its expressions.
    pub(super) written: Value,
    /// The value for a pod; `None` if the field is left out, or if there is no pod.
    pub(super) value: Option<Value>,
    /// The reason for which the field has no value.
    pub(super) error: Option<String>,
}

/// The fields of a container's overlay. Without bindings, they have no values.
pub(super) fn of_container(
    instructions: &Instructions,
    bindings: Option<&Bindings<'_, '_>>,
) -> Vec<OverlayField> {
    let mut fields = Fields { bindings, path: Vec::new(), found: Vec::new() };
    fields.instructions(instructions);
    fields.found
}

/// The fields of a pod's overlay.
pub(super) fn of_pod(overlay: &PodOverlay, bindings: Option<&Bindings<'_, '_>>) -> Vec<OverlayField> {
    let mut fields = Fields { bindings, path: Vec::new(), found: Vec::new() };
    fields.instructions(&overlay.claims);
    for container in &overlay.containers {
        let name = fields.template(&container.name);
        let entry = Step::Entry(vec![("name", name.value.unwrap_or(name.written))]);
        fields.path = vec![Step::Field("spec"), Step::Field(container.list), entry];
        fields.instructions(&container.instructions);
    }
    fields.path = vec![Step::Field("spec")];
    for volume in &overlay.volumes {
        fields.element("volumes", &["name"], volume);
    }
    fields.path.clear();
    fields.instructions(&overlay.instructions);
    fields.found
}

/// A value as it is written, and for a pod.
struct Built {
    written: Value,
    value: Option<Value>,
    error: Option<String>,
}

struct Fields<'a, 'p, 'v> {
    bindings: Option<&'a Bindings<'p, 'v>>,
    path: Vec<Step>,
    found: Vec<OverlayField>,
}

impl Fields<'_, '_, '_> {
    fn instructions(&mut self, instructions: &Instructions) {
        instructions.iter().for_each(|instruction| self.instruction(instruction));
    }

    fn instruction(&mut self, instruction: &Instruction) {
        match instruction {
            Instruction::Object { field, instructions } => {
                self.path.push(Step::Field(field.name));
                if instructions.is_empty() {
                    let empty = Value::Object(Map::new());
                    self.push(&[], Built { written: empty.clone(), value: Some(empty), error: None });
                }
                self.instructions(instructions);
                self.path.pop();
            }
            Instruction::Value { field, template } | Instruction::Replace { field, list: template } => {
                let built = self.template(template);
                self.push(&[Step::Field(field.name)], built);
            }
            Instruction::Entries { field, entries, .. } => {
                for (key, template) in entries {
                    let (key, built) = (self.key(key), self.template(template));
                    self.push(&[Step::Field(field.name), Step::Key(key)], built);
                }
            }
            Instruction::Annotations { field, entries, .. } => {
                for (key, value) in entries {
                    let (key, built) = (self.key(key), self.string(value));
                    self.push(&[Step::Field(field.name), Step::Key(key)], built);
                }
            }
            Instruction::Keyed { field, keys, entries } => {
                entries.iter().for_each(|entry| self.element(field.name, keys, entry));
            }
            Instruction::Claims { field, entries } => {
                entries.iter().for_each(|entry| self.element(field.name, &["name"], entry));
            }
            Instruction::Mounts { field, mounts } => {
                mounts.iter().for_each(|mount| self.element(field.name, &["mountPath"], mount));
            }
            Instruction::Set { field, entries } => {
                for entry in entries {
                    let built = self.built(source(&entry.0), |bindings| entry.build(bindings));
                    self.items(field.name, built);
                }
            }
            Instruction::Env { field, variables } => {
                variables.iter().for_each(|variable| self.variable(field.name, variable));
            }
            Instruction::Amounts(amounts) => {
                for amount in amounts {
                    let key = self.key(&amount.resource);
                    for (list, template) in [("limits", &amount.limit), ("requests", &amount.request)] {
                        let Some(template) = template else { continue };
                        let built = self.template(template);
                        self.push(&[Step::Field(list), Step::Key(key.clone())], built);
                    }
                }
            }
            Instruction::Capabilities { field, lists } => {
                self.path.push(Step::Field(field.name));
                for (list, template) in lists {
                    self.list(list.name, template);
                }
                self.path.pop();
            }
            Instruction::Computed { object, field, expression } => {
                let Some(bindings) = self.bindings else {
                    let built = self.text(expression);
                    return self.push(&[Step::Field(field.name)], built);
                };
                let compiled = expression.evaluate(bindings).map(|value| {
                    compile_computed(&value, field, object).map_err(|diagnostic| diagnostic.message)
                });
                match compiled {
                    Ok(Ok(Some(instruction))) => self.instruction(&instruction),
                    Ok(Ok(None)) | Err(_) => {
                        let built = self.text(expression);
                        self.push(&[Step::Field(field.name)], built);
                    }
                    Ok(Err(error)) => {
                        let written = Value::from(expression.source());
                        self.push(
                            &[Step::Field(field.name)],
                            Built { written, value: None, error: Some(error) },
                        );
                    }
                }
            }
        }
    }

    fn variable(&mut self, field: &'static str, variable: &Variable) {
        match variable {
            Variable::Entry(element) => self.element(field, &["name"], element),
            Variable::List { name, edit } => {
                let name = self.template(name);
                let entry = Step::Entry(vec![("name", name.value.unwrap_or(name.written))]);
                let mut built = self.text(&edit.entry);
                let side = if edit.prepend { "$prepend" } else { "$append" };
                built.written = Value::Object(Map::from_iter([(side.to_owned(), built.written)]));
                self.push(&[Step::Field(field), entry, Step::Field("value")], built);
            }
        }
    }

    /// Adds an entry of a list that is known by some of its fields.
    fn element(&mut self, field: &'static str, keys: &[&'static str], element: &Element) {
        let built = self.built(source(&element.0), |bindings| element.build(bindings));
        let of = |key: &&'static str| {
            let shown = built.value.as_ref().unwrap_or(&built.written);
            (!shown[*key].is_null()).then(|| (*key, shown[*key].clone()))
        };
        let entry = Step::Entry(keys.iter().filter_map(of).collect());
        self.push(&[Step::Field(field), entry], built);
    }

    /// Adds each entry of a list without keys.
    fn list(&mut self, field: &'static str, template: &Template) {
        match template {
            Template::List(elements) => {
                for element in elements {
                    let built = self.built(source(&element.0), |bindings| element.build(bindings));
                    self.items(field, built);
                }
            }
            template => {
                let built = self.template(template);
                self.items(field, built);
            }
        }
    }

    fn items(&mut self, field: &'static str, built: Built) {
        let shown = built.value.clone().unwrap_or_else(|| built.written.clone());
        match shown {
            Value::Array(items) => {
                for item in items {
                    let value = built.value.as_ref().map(|_| item.clone());
                    let (written, error) = (item.clone(), built.error.clone());
                    self.push(&[Step::Field(field), Step::Item(item)], Built { written, value, error });
                }
            }
            item => self.push(&[Step::Field(field), Step::Item(item)], built),
        }
    }

    fn string(&self, value: &StringValue) -> Built {
        match value {
            StringValue::Text(template) => self.template(template),
            StringValue::List(edit) => {
                let mut built = self.text(&edit.entry);
                let side = if edit.prepend { "$prepend" } else { "$append" };
                built.written = Value::Object(Map::from_iter([(side.to_owned(), built.written)]));
                built
            }
            StringValue::Networks(edit) => self.built(networks(edit), |bindings| {
                let networks = edit.evaluate(bindings)?;
                let attached: Vec<Value> = networks
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(name, _)| name.into())
                    .collect();
                Ok((!attached.is_empty()).then_some(Value::Array(attached)))
            }),
            StringValue::Entries(edit) => {
                let mut texts = Vec::new();
                edit.texts(&mut |text| texts.push(Value::from(one_line(&text.source()))));
                let written = Map::from_iter([("$entries".to_owned(), Value::Array(texts))]);
                self.built(Value::Object(written), |bindings| {
                    let entries: Vec<Value> =
                        edit.evaluate(bindings)?.into_iter().map(Value::Object).collect();
                    Ok((!entries.is_empty()).then_some(Value::Array(entries)))
                })
            }
        }
    }

    fn template(&self, template: &Template) -> Built {
        self.built(source(template), |bindings| template.build(bindings))
    }

    fn text(&self, text: &Interpolation) -> Built {
        self.built(Value::from(one_line(&text.source())), |bindings| {
            text.evaluate(bindings).map(|value| (!value.is_null()).then_some(value))
        })
    }

    fn key(&self, key: &Interpolation) -> String {
        let value = self.bindings.and_then(|bindings| key.evaluate(bindings).ok());
        value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_else(|| one_line(&key.source()))
    }

    fn built(
        &self,
        written: Value,
        build: impl FnOnce(&Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError>,
    ) -> Built {
        match self.bindings.map(build) {
            Some(Ok(value)) => Built { written, value, error: None },
            Some(Err(error)) => Built { written, value: None, error: Some(error.message) },
            None => Built { written, value: None, error: None },
        }
    }

    fn push(&mut self, steps: &[Step], Built { written, value, error }: Built) {
        let path = self.path.iter().chain(steps).cloned().collect();
        self.found.push(OverlayField { path, written, value, error });
    }
}

fn networks(edit: &NetworksEdit) -> Value {
    let mut names = Vec::new();
    edit.name_texts(&mut |text| names.push(Value::from(one_line(&text.source()))));
    let names = if let [one] = names.as_slice() { one.clone() } else { Value::Array(names) };
    let mut written = Map::from_iter([("$networks".to_owned(), names)]);
    written.extend(edit.count().map(|count| ("$count".to_owned(), source(count))));
    Value::Object(written)
}

/// A template as the policy has it.
fn source(template: &Template) -> Value {
    match template {
        Template::Constant(value) => value.clone(),
        Template::Computed(text, _) => Value::from(one_line(&text.source())),
        Template::Object(_, fields) => fields
            .iter()
            .map(|(field, value)| (field.name.to_owned(), source(value)))
            .collect::<Map<_, _>>()
            .into(),
        Template::Map(_, entries) => {
            entries.iter().map(|(key, value)| (key.source(), source(value))).collect::<Map<_, _>>().into()
        }
        Template::List(items) => items.iter().map(|item| source(&item.0)).collect(),
    }
}
