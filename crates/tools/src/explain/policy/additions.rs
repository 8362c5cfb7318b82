//! The rules of a policy, and the fields that they add: as written in the policy, and with its parameters.

use serde::Serialize;
use serde_json::{Map, Value};

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, Interpolation};
use fabric_policy::overlay::{
    Element, Instruction, Key, NetworksEdit, PodOverlay, Template, Write, Written, compile_computed, writes,
};
use fabric_policy::{OnConflict, Policy, Rule};

use super::constants::constants;
use crate::explain::columns::{one_line, shown};
use crate::explain::lines::{FileLine, in_file};

/// A rule, with the fields that it adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleFact {
    pub name: String,
    pub place: Option<FileLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The value of `when` if it is the same for every pod with these parameters.
    pub applies: Option<bool>,
    /// The condition for each container.
    pub containers: String,
    pub on_conflict: &'static str,
    /// The fields of each selected container.
    pub container: Vec<AdditionFact>,
    /// The fields of the pod.
    pub pod: Vec<AdditionFact>,
}

/// A field that a rule adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdditionFact {
    /// The path from the container or the pod.
    pub path: String,
    /// The value as written in the policy.
    pub value: Value,
    /// The value with these parameters, if it is the same for every pod; `null` if the field is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
}

/// The rules of a policy with the values of its parameters.
pub(super) fn rules(policy: &Policy) -> Vec<RuleFact> {
    let constants = constants(policy);
    let additions = |add: &dyn Fn(&mut Additions<'_, '_, '_>)| {
        let mut additions = Additions { constants: &constants, at: String::new(), found: Vec::new() };
        add(&mut additions);
        additions.found
    };
    let fact = |rule: &Rule| RuleFact {
        name: rule.name.clone(),
        place: Some(in_file(policy.definition(), rule.span)),
        when: rule.when.as_ref().map(Interpolation::on_one_line),
        applies: rule.when.as_ref().map_or(Some(true), |when| when.holds(&constants).ok()),
        containers: rule.containers.condition().map(Interpolation::on_one_line).unwrap_or_default(),
        on_conflict: match rule.on_conflict {
            OnConflict::Keep => "keep",
            OnConflict::Replace => "replace",
            OnConflict::Refuse => "refuse",
        },
        container: additions(&|additions| additions.instructions(&rule.container)),
        pod: additions(&|additions| additions.pod(&rule.pod)),
    };
    policy.definition().rules.iter().map(fact).collect()
}

/// A value as written in the policy, and the value for every pod, if it is the same.
type Built = (Value, Option<Value>);

/// The fields that an overlay adds.
struct Additions<'a, 'p, 'v> {
    constants: &'a Bindings<'p, 'v>,
    /// The path of the object to which the instructions belong.
    at: String,
    found: Vec<AdditionFact>,
}

impl Additions<'_, '_, '_> {
    fn pod(&mut self, overlay: &PodOverlay) {
        self.instructions(&overlay.claims);
        for container in &overlay.containers {
            let (name, constant) = self.template(&container.name);
            self.at = format!("spec.{}[{}]", container.list, shown(&constant.unwrap_or(name)));
            self.instructions(&container.instructions);
        }
        self.at.clear();
        for volume in &overlay.volumes {
            self.element("spec.volumes", &["name"], volume);
        }
        self.instructions(&overlay.instructions);
    }

    fn instructions(&mut self, instructions: &[Instruction]) {
        for write in writes(instructions) {
            self.write(&write);
        }
    }

    fn write(&mut self, write: &Write<'_>) {
        let mut at = self.at.clone();
        for field in &write.path {
            at.push_str(if at.is_empty() { "" } else { "." });
            at.push_str(field);
        }
        if let Key::Of(key) = write.key
            && !matches!(write.value, Written::Amount(_))
        {
            at.push_str(&format!("[{}]", self.key(key)));
        }
        match write.value {
            Written::Empty => {
                let empty = Value::Object(Map::new());
                self.push(at, (empty.clone(), Some(empty)));
            }
            Written::Value(template) => {
                let built = self.template(template);
                self.push(at, built);
            }
            Written::Entry(element) => match write.key {
                Key::Fields(keys) => self.element(&at, keys, element),
                _ => self.element(&at, &[], element),
            },
            Written::ListEdit(edit) => {
                if let Key::Named(name) = write.key {
                    let (name, constant) = self.template(name);
                    at.push_str(&format!("[{}].value", shown(&constant.unwrap_or(name))));
                }
                let (written, constant) = self.text(&edit.entry);
                let side = if edit.prepend { "$prepend" } else { "$append" };
                self.push(at, (Map::from_iter([(side.to_owned(), written)]).into(), constant));
            }
            Written::Networks(edit) => {
                let constant = edit.evaluate(self.constants).ok().map(|networks| {
                    let names = networks.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name);
                    list(names.map(Value::from).collect())
                });
                self.push(at, (networks(edit), constant));
            }
            Written::Entries(edit) => {
                let mut texts = Vec::new();
                edit.texts(&mut |text| texts.push(Value::from(one_line(&text.source()))));
                let entries = edit.evaluate(self.constants).ok();
                let constant = entries.map(|found| list(found.into_iter().map(Value::Object).collect()));
                self.push(at, (Map::from_iter([("$append".to_owned(), list(texts))]).into(), constant));
            }
            Written::Amount(amount) => {
                let key = self.key(&amount.resource);
                for (list, template) in [("limits", &amount.limit), ("requests", &amount.request)] {
                    let Some(template) = template else { continue };
                    let built = self.template(template);
                    self.push(format!("{at}.{list}[{key}]"), built);
                }
            }
            // The fields that the value of an expression has, or the expression if there is none.
            Written::Computed { object, field, expression } => {
                let value = expression.evaluate(self.constants).ok();
                if let Some(instruction) =
                    value.and_then(|value| compile_computed(&value, field, object).ok()?)
                {
                    let within = at[..at.len() - field.name.len()].trim_end_matches('.').to_owned();
                    let before = std::mem::replace(&mut self.at, within);
                    self.instructions(std::slice::from_ref(&instruction));
                    self.at = before;
                } else {
                    let built = self.text(expression);
                    self.push(at, built);
                }
            }
        }
    }

    /// Adds an entry of a list that is identified by some of its fields, or by its value.
    fn element(&mut self, at: &str, keys: &[&str], element: &Element) {
        let built = self.built(written(&element.0), |constants| element.build(constants));
        if keys.is_empty() {
            return self.items(at, built);
        }
        let entry = built.1.as_ref().filter(|value| !value.is_null()).unwrap_or(&built.0);
        let names = keys.iter().map(|key| &entry[*key]).filter(|name| !name.is_null());
        let path = format!("{at}[{}]", names.map(shown).collect::<Vec<_>>().join("/"));
        self.push(path, built);
    }

    /// Adds the entries of a list without keys.
    fn items(&mut self, at: &str, (written, constant): Built) {
        let path = |item: &Value| format!("{at}[{}]", item.as_str().unwrap_or("…"));
        match constant {
            Some(Value::Array(items)) => {
                for item in items {
                    self.push(path(&item), (item.clone(), Some(item)));
                }
            }
            constant => self.push(path(&written), (written, constant)),
        }
    }

    fn template(&self, template: &Template) -> Built {
        self.built(written(template), |constants| template.build(constants))
    }

    fn text(&self, text: &Interpolation) -> Built {
        (Value::from(one_line(&text.source())), text.evaluate(self.constants).ok())
    }

    fn key(&self, key: &Interpolation) -> String {
        let (written, constant) = self.text(key);
        shown(&constant.filter(Value::is_string).unwrap_or(written))
    }

    fn built(
        &self,
        written: Value,
        build: impl FnOnce(&Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError>,
    ) -> Built {
        (written, build(self.constants).ok().map(Option::unwrap_or_default))
    }

    fn push(&mut self, path: String, (value, constant): Built) {
        self.found.push(AdditionFact { path, value, constant });
    }
}

/// A list that is left out if it is empty.
fn list(items: Vec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { Value::Array(items) }
}

/// An edit of networks as written in the policy.
fn networks(edit: &NetworksEdit) -> Value {
    let mut names = Vec::new();
    edit.name_texts(&mut |text| names.push(Value::from(one_line(&text.source()))));
    let names = if let [one] = names.as_slice() { one.clone() } else { Value::Array(names) };
    Value::Object(Map::from_iter([("$append".to_owned(), names)]))
}

/// A template as written in the policy.
fn written(template: &Template) -> Value {
    let object = |fields: Vec<(String, Value)>| Value::Object(fields.into_iter().collect());
    match template {
        Template::Constant(value) => value.clone(),
        Template::Computed(text, _) => Value::from(one_line(&text.source())),
        Template::Object(_, fields) => {
            object(fields.iter().map(|(field, value)| (field.name.to_owned(), written(value))).collect())
        }
        Template::Map(_, entries) => {
            object(entries.iter().map(|(key, value)| (key.source(), written(value))).collect())
        }
        Template::List(items) => items.iter().map(|item| written(&item.0)).collect(),
    }
}
