//! The fields of an overlay, each with its place: as the policy has them, or with the values for a pod.

use serde_json::{Map, Value};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::overlay::{
    Element, EntriesEdit, Instruction, Instructions, Key, NetworksEdit, PodOverlay, Template, Write, Written,
    compile_computed, writes,
};
use crate::core::policy::problems::Problems;
use crate::core::schema::{Field, Object};

use super::condition::one_line;
use super::written::{networks, source};

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
        let entry = fields.entry(&container.name);
        fields.path = vec![Step::Field("spec"), Step::Field(container.list), entry];
        fields.instructions(&container.instructions);
    }
    fields.path.clear();
    for volume in &overlay.volumes {
        fields.element(vec![Step::Field("spec"), Step::Field("volumes")], &["name"], volume);
    }
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
    fn instructions(&mut self, instructions: &[Instruction]) {
        for write in writes(instructions) {
            self.write(&write);
        }
    }

    fn write(&mut self, write: &Write<'_>) {
        let mut at: Vec<Step> = write.path.iter().map(|name| Step::Field(name)).collect();
        if let Key::Of(key, _) = write.key
            && !matches!(write.value, Written::Amount(_))
        {
            at.push(Step::Key(self.key(key)));
        }
        match write.value {
            Written::Empty => {
                let empty = Value::Object(Map::new());
                self.push(at, Built { written: empty.clone(), value: Some(empty), error: None });
            }
            Written::Value(template) | Written::Replacement(template) => {
                let built = self.template(template);
                self.push(at, built);
            }
            Written::Names(template) => self.list(&at, template),
            Written::Entry(element) => match write.key {
                Key::Fields(keys) if !keys.is_empty() => self.element(at, keys, element),
                _ => self.item(&at, element),
            },
            Written::ListEdit(edit) => {
                if let Key::Named(name) = write.key {
                    at.extend([self.entry(name), Step::Field("value")]);
                }
                let mut built = self.text(&edit.entry);
                let side = if edit.prepend { "$prepend" } else { "$append" };
                built.written = Value::Object(Map::from_iter([(side.to_owned(), built.written)]));
                self.push(at, built);
            }
            Written::Networks(edit) => {
                let built = self.networks(edit);
                self.push(at, built);
            }
            Written::Entries(edit) => {
                let built = self.entries(edit);
                self.push(at, built);
            }
            Written::Amount(amount) => {
                let key = self.key(&amount.resource);
                for (list, template) in [("limits", &amount.limit), ("requests", &amount.request)] {
                    let Some(template) = template else { continue };
                    let built = self.template(template);
                    self.push(at.iter().cloned().chain([Step::Field(list), Step::Key(key.clone())]), built);
                }
            }
            Written::Computed { object, field, expression } => self.computed(at, object, field, expression),
        }
    }

    /// Adds the fields that the value of an expression has, or the expression if there is none.
    fn computed(
        &mut self,
        at: Vec<Step>,
        object: &'static Object,
        field: &'static Field,
        expression: &Interpolation,
    ) {
        let value = self.bindings.and_then(|bindings| expression.evaluate(bindings).ok());
        match value.map(|value| compile_computed(&value, field, object).map_err(Problems::summary)) {
            Some(Ok(Some(instruction))) => {
                let before = self.path.len();
                self.path.extend_from_slice(&at[..at.len() - 1]);
                self.instructions(std::slice::from_ref(&instruction));
                self.path.truncate(before);
            }
            Some(Err(error)) => {
                let written = Value::from(expression.source());
                self.push(at, Built { written, value: None, error: Some(error) });
            }
            Some(Ok(None)) | None => {
                let built = self.text(expression);
                self.push(at, built);
            }
        }
    }

    /// The step to the entry of a list that has this name.
    fn entry(&self, name: &Template) -> Step {
        let name = self.template(name);
        Step::Entry(vec![("name", name.value.unwrap_or(name.written))])
    }

    /// Adds an entry of a list that is known by some of its fields.
    fn element(&mut self, at: Vec<Step>, keys: &[&'static str], element: &Element) {
        let built = self.built(source(&element.0), |bindings| element.build(bindings));
        let of = |key: &&'static str| {
            let shown = built.value.as_ref().unwrap_or(&built.written);
            (!shown[*key].is_null()).then(|| (*key, shown[*key].clone()))
        };
        let entry = Step::Entry(keys.iter().filter_map(of).collect());
        self.push(at.into_iter().chain([entry]), built);
    }

    /// Adds each entry of a list without keys.
    fn list(&mut self, at: &[Step], template: &Template) {
        match template {
            Template::List(elements) => elements.iter().for_each(|element| self.item(at, element)),
            template => {
                let built = self.template(template);
                self.items(at, built);
            }
        }
    }

    /// Adds an entry of a list without keys.
    fn item(&mut self, at: &[Step], element: &Element) {
        let built = self.built(source(&element.0), |bindings| element.build(bindings));
        self.items(at, built);
    }

    fn items(&mut self, at: &[Step], built: Built) {
        let at = |item: Value| at.iter().cloned().chain([Step::Item(item)]);
        let shown = built.value.clone().unwrap_or_else(|| built.written.clone());
        match shown {
            Value::Array(items) => {
                for item in items {
                    let value = built.value.as_ref().map(|_| item.clone());
                    let (written, error) = (item.clone(), built.error.clone());
                    self.push(at(item), Built { written, value, error });
                }
            }
            item => self.push(at(item), built),
        }
    }

    fn networks(&self, edit: &NetworksEdit) -> Built {
        self.built(networks(edit), |bindings| {
            let attached = edit.evaluate(bindings)?.into_iter().filter(|(_, count)| *count > 0);
            let attached: Vec<Value> = attached.map(|(name, _)| name.into()).collect();
            Ok((!attached.is_empty()).then_some(Value::Array(attached)))
        })
    }

    fn entries(&self, edit: &EntriesEdit) -> Built {
        let mut texts = Vec::new();
        edit.texts(&mut |text| texts.push(Value::from(one_line(&text.source()))));
        let written = Map::from_iter([("$entries".to_owned(), Value::Array(texts))]);
        self.built(Value::Object(written), |bindings| {
            let entries: Vec<Value> = edit.evaluate(bindings)?.into_iter().map(Value::Object).collect();
            Ok((!entries.is_empty()).then_some(Value::Array(entries)))
        })
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

    fn push(&mut self, at: impl IntoIterator<Item = Step>, Built { written, value, error }: Built) {
        let path = self.path.iter().cloned().chain(at).collect();
        self.found.push(OverlayField { path, written, value, error });
    }
}
