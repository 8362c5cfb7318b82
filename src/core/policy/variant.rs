//! A policy as it holds for one instance type: its parameters have values, and everything is evaluated that does
//! not depend on the pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::definition::{Definition, OnConflict, Rule};
use super::expression::{Bindings, PodUse};
use super::parameter::{Parameter, ParameterType};
use super::scope::Scope;
use super::template::{Template, fold_text};
use super::text::{EvaluationError, Text};

/// A policy as it holds for one instance type (or several that agree).
#[derive(Debug)]
pub(crate) struct Variant {
    /// Parameters and fixed variables.
    pub(crate) bindings: Bindings<'static, 'static>,
    pub(crate) pod_variables: Vec<(String, Text)>,
    pub(crate) container_variables: Vec<(String, Text)>,
    pub(crate) final_variables: Vec<(String, Text)>,
    pub(crate) rules: Vec<ActiveRule>,
    pub(crate) warnings: Vec<ActiveWarning>,
    /// What the user should know about where the values come from.
    pub(crate) notes: Vec<Note>,
    /// `<policy>@<digest>`.
    pub(crate) stamp: String,
    /// The names that some expression still reads.
    reads: BTreeSet<String>,
    /// What they read of the pod.
    pod_use: PodUse,
}

/// A rule whose condition is not false for this variant.
#[derive(Debug)]
pub(crate) struct ActiveRule {
    pub(crate) name: String,
    pub(crate) when: Option<Text>,
    pub(crate) containers: Option<Text>,
    pub(crate) requires_pod_network: bool,
    pub(crate) on_conflict: OnConflict,
    pub(crate) container: Option<Template>,
    pub(crate) pod: Option<Template>,
    /// The parameters that it depends on.
    pub(crate) parameters: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct ActiveWarning {
    pub(crate) code: String,
    pub(crate) when: Text,
    pub(crate) message: Text,
}

/// A remark about one parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) parameter: String,
    pub(crate) value: Value,
    pub(crate) kind: NoteKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoteKind {
    /// It has a table by instance type, and neither that nor the operator gave the value.
    Assumed,
    /// The operator's value is not that of the table.
    Contradicts { table: Value },
}

/// Parameter values and remarks about them.
pub(super) struct Resolved {
    values: Vec<Value>,
    notes: Vec<Note>,
}

impl Resolved {
    pub(super) fn fingerprint(&self) -> String {
        let notes: Vec<String> = self.notes.iter().map(|note| format!("{note:?}")).collect();
        format!("{:?}{notes:?}", self.values)
    }
}

/// The value that a table gives for all of the selected types, if they agree.
pub(super) fn agreed<'p>(parameter: &'p Parameter, selected: &[String]) -> Option<&'p Value> {
    let (first, others) = selected.split_first()?;
    let value = parameter.for_instance_type(first)?;
    others.iter().all(|other| parameter.for_instance_type(other) == Some(value)).then_some(value)
}

pub(super) fn resolve(
    definition: &Definition,
    overrides: &BTreeMap<String, Value>,
    selected: &[String],
) -> Resolved {
    let mut resolved = Resolved { values: Vec::new(), notes: Vec::new() };
    for parameter in &definition.parameters {
        let table = agreed(parameter, selected);
        let (value, kind) = match (overrides.get(&parameter.name), table) {
            (Some(set), Some(table)) if set != table => {
                (set, Some(NoteKind::Contradicts { table: table.clone() }))
            }
            (Some(set), _) => (set, None),
            (None, Some(table)) => (table, None),
            (None, None) => (&parameter.default, parameter.has_table().then_some(NoteKind::Assumed)),
        };
        if let Some(kind) = kind {
            resolved.notes.push(Note { parameter: parameter.name.clone(), value: value.clone(), kind });
        }
        resolved.values.push(value.clone());
    }
    resolved
}

impl Variant {
    pub(super) fn new(
        definition: &Definition,
        overrides: &BTreeMap<String, Value>,
        selected: &[String],
    ) -> Result<Self, EvaluationError> {
        let Resolved { values, notes } = resolve(definition, overrides, selected);
        let mut bindings = Bindings::new();
        let instance_type = if let [one] = selected { one.as_str() } else { "" };
        bindings.set("instanceType", &Value::from(instance_type));
        for (parameter, value) in definition.parameters.iter().zip(&values) {
            match (parameter.kind, value.as_f64()) {
                (ParameterType::Number, Some(number)) => bindings.set_double(&parameter.name, number),
                _ => bindings.set(&parameter.name, value),
            }
        }
        let mut variant = Self {
            bindings,
            pod_variables: Vec::new(),
            container_variables: Vec::new(),
            final_variables: Vec::new(),
            rules: Vec::new(),
            warnings: Vec::new(),
            notes,
            stamp: stamp(definition, &values),
            reads: BTreeSet::new(),
            pod_use: PodUse::Paths(BTreeSet::new()),
        };
        variant.bind_variables(definition)?;
        variant.fold_rules(definition)?;
        variant.fold_warnings(definition)?;
        variant.drop_unread_variables();
        variant.note_pod_use();
        Ok(variant)
    }

    fn bind_variables(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for variable in &definition.variables {
            let target = match variable.scope {
                Scope::Fixed => {
                    let value = variable.value.evaluate(&self.bindings)?;
                    self.bindings.set(&variable.name, &value);
                    continue;
                }
                Scope::Pod => &mut self.pod_variables,
                Scope::Container => &mut self.container_variables,
                Scope::Final => &mut self.final_variables,
            };
            target.push((variable.name.clone(), variable.value.clone()));
        }
        Ok(())
    }

    fn fold_rules(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for rule in &definition.rules {
            let mut when = rule.when.clone();
            if let Some(condition) = &rule.when
                && condition.scope(&definition.names) == Scope::Fixed
            {
                if !condition.holds(&self.bindings)? {
                    continue;
                }
                when = None;
            }
            let fold = |template: &Option<Template>| {
                template.as_ref().map(|template| template.fold(&definition.names, &self.bindings)).transpose()
            };
            let active = ActiveRule {
                name: rule.name.clone(),
                when,
                containers: rule.containers.clone(),
                requires_pod_network: rule.requires_pod_network,
                on_conflict: rule.on_conflict,
                container: fold(&rule.container)?,
                pod: fold(&rule.pod)?,
                parameters: parameters_of(rule, definition),
            };
            let mut note =
                |text: &Text| self.reads.extend(text.expressions().flat_map(|e| e.names().clone()));
            active.when.iter().for_each(&mut note);
            active.containers.iter().for_each(&mut note);
            active.container.iter().chain(&active.pod).for_each(|template| template.texts(&mut note));
            self.rules.push(active);
        }
        Ok(())
    }

    fn fold_warnings(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for warning in &definition.warnings {
            if warning.when.scope(&definition.names) == Scope::Fixed && !warning.when.holds(&self.bindings)? {
                continue;
            }
            let message = fold_text(&warning.message, &definition.names, &self.bindings)?;
            for text in [&warning.when, &message] {
                self.reads.extend(text.expressions().flat_map(|expression| expression.names().clone()));
            }
            self.warnings.push(ActiveWarning {
                code: warning.code.clone(),
                when: warning.when.clone(),
                message,
            });
        }
        Ok(())
    }

    /// A variable that nothing reads any more is not worth evaluating for each pod.
    fn drop_unread_variables(&mut self) {
        // Later variables read earlier ones, so go backwards.
        for variables in [&mut self.final_variables, &mut self.container_variables, &mut self.pod_variables] {
            for at in (0..variables.len()).rev() {
                if self.reads.contains(&variables[at].0) {
                    let names =
                        variables[at].1.expressions().flat_map(|expression| expression.names().clone());
                    self.reads.extend(names);
                } else {
                    variables.remove(at);
                }
            }
        }
    }

    /// Whether any expression of the variant still reads this name.
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.reads.contains(name)
    }

    /// What the variant's expressions read of `pod`.
    pub(crate) fn pod_use(&self) -> &PodUse {
        &self.pod_use
    }

    fn note_pod_use(&mut self) {
        let mut all = PodUse::Paths(BTreeSet::new());
        self.texts(&mut |text| {
            for expression in text.expressions() {
                match (&mut all, expression.pod_use()) {
                    (PodUse::Paths(known), PodUse::Paths(paths)) => known.extend(paths.iter().cloned()),
                    (all, _) => *all = PodUse::Whole,
                }
            }
        });
        self.pod_use = all;
    }

    /// Every text that is still evaluated for a pod.
    fn texts(&self, visit: &mut dyn FnMut(&Text)) {
        for (_, text) in
            self.pod_variables.iter().chain(&self.container_variables).chain(&self.final_variables)
        {
            visit(text);
        }
        for rule in &self.rules {
            rule.when.iter().chain(&rule.containers).for_each(&mut *visit);
            rule.container.iter().chain(&rule.pod).for_each(|template| template.texts(visit));
        }
        for warning in &self.warnings {
            visit(&warning.when);
            visit(&warning.message);
        }
    }
}

/// The parameters that a rule depends on, through variables too.
fn parameters_of(rule: &Rule, definition: &Definition) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut note = |text: &Text| names.extend(text.expressions().flat_map(|e| e.names().clone()));
    rule.when.iter().for_each(&mut note);
    rule.containers.iter().for_each(&mut note);
    rule.container.iter().chain(&rule.pod).for_each(|template| template.texts(&mut note));
    for variable in definition.variables.iter().rev() {
        if names.contains(&variable.name) {
            names.extend(variable.value.expressions().flat_map(|expression| expression.names().clone()));
        }
    }
    names.retain(|name| definition.parameters.iter().any(|parameter| parameter.name == *name));
    names
}

/// `<policy>@<12 hex digits>` over the text of the policy and the values in force.
fn stamp(definition: &Definition, values: &[Value]) -> String {
    let named: Map<String, Value> = definition
        .parameters
        .iter()
        .zip(values)
        .map(|(parameter, value)| (parameter.name.clone(), value.clone()))
        .collect();
    let mut hash = Sha256::new();
    hash.update(definition.text.as_bytes());
    hash.update([0]);
    hash.update(Value::Object(named).to_string().as_bytes());
    let digest = hash.finalize().iter().take(6).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("{}@{digest}", definition.name)
}
