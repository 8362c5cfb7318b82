//! A policy whose parameters have the values for one kind of node, with everything evaluated that does not depend on
//! the pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::active::{ActiveRule, ActiveWarning, names_in};
use super::definition::{About, Definition, PolicyWarning, Rule};
use super::devices::Devices;
use super::expression::{Bindings, ReadSet};
use super::feedback::{Feedback, may_move, may_recount};
use super::interpolation::{EvaluationError, Interpolation};
use super::node::Selection;
use super::overlay::Fold;
use super::parameter::{Parameter, ParameterType, template};
use super::phase::Phase;
use super::setting::Setting;
use super::settings::Settings;
use super::table::{LabelTable, Lookup, Table};
use super::variable::{Variable, VariableValue};

/// A policy for pods that select the same nodes.
#[derive(Debug)]
pub(crate) struct ResolvedPolicy {
    /// Parameters and fixed variables.
    pub(crate) bindings: Bindings<'static, 'static>,
    pub(crate) pod_variables: Vec<Variable>,
    pub(crate) container_variables: Vec<Variable>,
    pub(crate) injected_variables: Vec<Variable>,
    pub(crate) rules: Vec<ActiveRule>,
    pub(crate) warnings: Vec<ActiveWarning>,
    pub(crate) settings: Vec<Settings>,
    pub(crate) refusals: Vec<ActiveWarning>,
    pub(crate) condition: Condition,
    /// The parameters on which `match.when` depends.
    pub(crate) parameters_of_condition: BTreeSet<String>,
    /// Remarks about the sources of the parameter values.
    pub(crate) notes: Vec<Note>,
    /// `<policy>@<digest>`.
    pub(crate) stamp: String,
    pub(crate) feedback: Feedback,
    pub(crate) devices: Devices,
    /// True if a rule may change what the pod selects of its nodes, or its GPUs.
    pub(crate) may_move: bool,
    /// True if a rule may change which containers count for `totalGpus`.
    pub(crate) may_recount: bool,
    /// The names that some expression reads.
    reads: BTreeSet<String>,
    pub(crate) reads_of_pod: ReadSet,
    pub(crate) reads_of_container: ReadSet,
}

/// The `match.when` of a policy.
#[derive(Debug)]
pub(crate) enum Condition {
    /// The same for all pods.
    Fixed(bool),
    OfPod(Interpolation),
}

/// A remark about the value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) parameter: String,
    pub(crate) value: Value,
    pub(crate) kind: NoteKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoteKind {
    /// The parameter has tables, and neither they nor the operator gave the value.
    Assumed { labels: Vec<String>, reads_gpus: bool },
    /// The pod selects values of the label that the tables map to different values, and nothing else gave one.
    Disagree { label: String },
    /// The operator's value differs from that of the table.
    Contradicts { label: String, table: Value },
}

/// The values of the parameters, and remarks about them.
#[derive(Debug, PartialEq)]
pub(super) struct ParameterValues {
    values: Vec<Value>,
    notes: Vec<Note>,
}

impl ParameterValues {
    pub(super) fn resolve(
        definition: &Definition,
        settings: &BTreeMap<String, Setting>,
        selection: &Selection,
    ) -> Self {
        let mut resolved = Self { values: Vec::new(), notes: Vec::new() };
        for parameter in &definition.parameters {
            let (value, notes) = resolve(parameter, settings.get(&parameter.name), selection);
            for kind in notes {
                resolved.notes.push(Note { parameter: parameter.name.clone(), value: value.clone(), kind });
            }
            resolved.values.push(value.clone());
        }
        resolved
    }
}

/// The value of a parameter: the operator's scalar, else that of the operator's table, of the policy's table, the
/// operator's default, or the policy's default.
fn resolve<'p>(
    parameter: &'p Parameter,
    setting: Option<&'p Setting>,
    selection: &Selection,
) -> (&'p Value, Vec<NoteKind>) {
    let settled = |tables: &[&'p LabelTable]| {
        tables.iter().find_map(|table| match table.lookup(selection) {
            Lookup::Value(value) => Some((table.label.clone(), value)),
            Lookup::Disagree | Lookup::Unknown => None,
        })
    };
    let policy: Vec<&LabelTable> = parameter.table.labels().collect();
    let (own, default) = match setting {
        Some(Setting::Value(value)) => {
            let other = settled(&policy).filter(|(_, table)| *table != value);
            let note = other.map(|(label, table)| NoteKind::Contradicts { label, table: table.clone() });
            return (value, note.into_iter().collect());
        }
        Some(Setting::Table(own)) => (Some(&own.table), own.default.as_ref()),
        None => (None, None),
    };
    let tables: Vec<&LabelTable> = own.into_iter().flat_map(Table::labels).chain(policy).collect();
    if let Some((_, value)) = settled(&tables) {
        return (value, Vec::new());
    }
    let mut labels: Vec<String> = Vec::new();
    let mut notes = Vec::new();
    for table in &tables {
        let disagree = NoteKind::Disagree { label: table.label.clone() };
        if matches!(table.lookup(selection), Lookup::Disagree) && !notes.contains(&disagree) {
            notes.push(disagree);
        }
        if !labels.contains(&table.label) {
            labels.push(table.label.clone());
        }
    }
    if default.is_none() && !labels.is_empty() {
        let reads_gpus = tables.iter().any(|table| table.reads_gpus());
        notes.push(NoteKind::Assumed { labels, reads_gpus });
    }
    (default.unwrap_or(&parameter.default), notes)
}

/// Binds the values that do not depend on the pod: `node`, the parameters and the fixed variables.
fn bound(
    definition: &Definition,
    values: &[Value],
    selection: &Selection,
) -> Result<Bindings<'static, 'static>, EvaluationError> {
    let mut bindings = Bindings::new();
    bindings.set("node", &selection.node());
    for (parameter, value) in definition.parameters.iter().zip(values) {
        match (parameter.kind, value.as_f64()) {
            (ParameterType::Number, Some(number)) => bindings.set_double(&parameter.name, number),
            // Its value depends on the pod.
            (ParameterType::Template, _) if value.is_string() => {}
            _ => bindings.set(&parameter.name, value),
        }
    }
    for variable in definition.variables.iter().filter(|variable| variable.phase == Phase::Fixed) {
        let value = variable.value.evaluate(&bindings)?;
        bindings.set(&variable.name, &value);
    }
    Ok(bindings)
}

/// The values of the fixed variables that anything else reads, for a node. `None` if `node` itself is read elsewhere.
pub(super) fn computed_of_node(
    definition: &Definition,
    ParameterValues { values, .. }: &ParameterValues,
    selection: &Selection,
) -> Result<Option<Vec<Value>>, EvaluationError> {
    let mut read = BTreeSet::new();
    definition.texts(&mut |text| {
        if text.phase(&definition.names) != Phase::Fixed {
            read.extend(names_in(text));
        }
    });
    definition.texts_outside_of_variables(&mut |text| read.extend(names_in(text)));
    if read.contains("node") {
        return Ok(None);
    }
    let bindings = bound(definition, values, selection)?;
    let fixed = definition.variables.iter().filter(|variable| variable.phase == Phase::Fixed);
    let read = fixed.filter(|variable| read.contains(&variable.name));
    read.map(|variable| variable.value.evaluate(&bindings)).collect::<Result<_, _>>().map(Some)
}

impl ResolvedPolicy {
    pub(super) fn new(
        definition: &Definition,
        parameters: ParameterValues,
        selection: &Selection,
    ) -> Result<Self, EvaluationError> {
        let ParameterValues { values, notes } = parameters;
        let mut policy = Self {
            bindings: bound(definition, &values, selection)?,
            pod_variables: Vec::new(),
            container_variables: Vec::new(),
            injected_variables: Vec::new(),
            rules: Vec::new(),
            warnings: Vec::new(),
            settings: Vec::new(),
            refusals: Vec::new(),
            condition: Condition::Fixed(true),
            parameters_of_condition: BTreeSet::new(),
            notes,
            stamp: stamp(definition, &values),
            feedback: Feedback::None,
            devices: Devices::default(),
            may_move: false,
            may_recount: false,
            reads: BTreeSet::new(),
            reads_of_pod: ReadSet::default(),
            reads_of_container: ReadSet::default(),
        };
        policy.bind_templates(definition, &values)?;
        policy.bind_variables(definition);
        policy.fold_rules(definition)?;
        policy.fold_settings(definition)?;
        policy.devices = policy.devices(definition)?;
        let mut rules = std::mem::take(&mut policy.rules);
        let variables: Vec<_> = policy.variables().collect();
        policy.feedback = Feedback::of(&mut rules, &variables, &policy.settings, &policy.devices);
        policy.may_move = may_move(&rules, &policy.devices);
        policy.may_recount = may_recount(&rules);
        policy.rules = rules;
        policy.warnings = policy.fold_warnings(&definition.warnings, definition)?;
        policy.refusals = policy.fold_warnings(&definition.refusals, definition)?;
        policy.fold_condition(definition)?;
        policy.drop_unread_variables();
        policy.collect_reads();
        Ok(policy)
    }

    /// Makes variables of the pod from the templates that have a value.
    fn bind_templates(&mut self, definition: &Definition, values: &[Value]) -> Result<(), EvaluationError> {
        for (parameter, value) in definition.parameters.iter().zip(values) {
            let (ParameterType::Template, Value::String(text)) = (parameter.kind, value) else { continue };
            let compiled = template(text).map_err(|diagnostic| EvaluationError {
                expression: text.clone(),
                message: diagnostic.message,
            })?;
            let value = VariableValue::Text(compiled);
            self.pod_variables.push(Variable { name: parameter.name.clone(), value, phase: Phase::Pod });
        }
        Ok(())
    }

    fn bind_variables(&mut self, definition: &Definition) {
        for variable in &definition.variables {
            let target = match variable.phase {
                Phase::Fixed => continue,
                Phase::Pod => &mut self.pod_variables,
                Phase::Container => &mut self.container_variables,
                Phase::Injected => &mut self.injected_variables,
            };
            target.push(variable.clone());
        }
    }

    fn fold_rules(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for rule in &definition.rules {
            let known = rule.when.as_ref().map_or(Ok(Some(true)), |when| self.known(when, definition))?;
            let when = match known {
                Some(false) => continue,
                Some(true) => None,
                None => rule.when.clone(),
            };
            let fold = Fold { names: &definition.names, fixed: &self.bindings };
            let active = ActiveRule {
                name: rule.name.clone(),
                when,
                containers: rule.containers.clone(),
                reads_own_changes: false,
                values_read_own_changes: false,
                requires_pod_network: rule.requires_pod_network,
                on_conflict: rule.on_conflict,
                container: fold.instructions(&rule.container)?,
                pod: fold.pod(&rule.pod)?,
                parameters: parameters_of_rule(rule, definition),
            };
            active.texts(&mut |text| self.reads.extend(names_in(text)));
            self.rules.push(active);
        }
        Ok(())
    }

    /// The value of a condition for every pod, if it does not depend on the pod. Where one side of `&&` is false, or
    /// one of `||` true, CEL needs no value of the other.
    fn known(
        &self,
        condition: &Interpolation,
        definition: &Definition,
    ) -> Result<Option<bool>, EvaluationError> {
        let value = condition.holds(&self.bindings);
        if condition.phase(&definition.names) == Phase::Fixed { value.map(Some) } else { Ok(value.ok()) }
    }

    fn fold_settings(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for settings in &definition.settings {
            let mut settings = settings.clone();
            if let Some(when) = &settings.when {
                match self.known(when, definition)? {
                    Some(false) => continue,
                    Some(true) => settings.when = None,
                    None => {}
                }
            }
            settings.texts(&mut |text| self.reads.extend(names_in(text)));
            self.settings.push(settings);
        }
        Ok(())
    }

    fn fold_condition(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        let Some(when) = &definition.matcher.when else { return Ok(()) };
        self.parameters_of_condition = parameters_of(names_in(when).collect(), definition);
        self.condition = if let Some(holds) = self.known(when, definition)? {
            Condition::Fixed(holds)
        } else {
            self.reads.extend(names_in(when));
            Condition::OfPod(when.clone())
        };
        Ok(())
    }

    /// The warnings or refusals whose conditions are not false for these parameters.
    fn fold_warnings(
        &mut self,
        declared: &[PolicyWarning],
        definition: &Definition,
    ) -> Result<Vec<ActiveWarning>, EvaluationError> {
        let mut active = Vec::new();
        for warning in declared {
            let of_pod = warning.about == About::Pod;
            if of_pod && self.known(&warning.when, definition)? == Some(false) {
                continue;
            }
            let fold = Fold { names: &definition.names, fixed: &self.bindings };
            let message = if of_pod { fold.text(&warning.message)? } else { warning.message.clone() };
            for text in [&warning.when, &message] {
                self.reads.extend(names_in(text));
            }
            let (code, about, when) = (warning.code.clone(), warning.about.clone(), warning.when.clone());
            active.push(ActiveWarning { code, about, when, message });
        }
        Ok(active)
    }

    fn devices(&self, definition: &Definition) -> Result<Devices, EvaluationError> {
        let mut read = self.reads.clone();
        for variable in self.variables().rev() {
            if read.contains(&variable.name) {
                variable.value.names(&mut |name| {
                    read.insert(name.to_owned());
                });
            }
        }
        let devices = Devices::of(definition, &self.bindings, &self.rules)?;
        Ok(Devices { rules_read_own_fabric: read.contains("ownFabric"), ..devices })
    }

    /// Drops the variables that no expression reads, directly or through another variable.
    fn drop_unread_variables(&mut self) {
        // A variable reads those before it.
        for variables in
            [&mut self.injected_variables, &mut self.container_variables, &mut self.pod_variables]
        {
            for at in (0..variables.len()).rev() {
                if self.reads.contains(&variables[at].name) {
                    variables[at].value.names(&mut |name| {
                        self.reads.insert(name.to_owned());
                    });
                } else {
                    variables.remove(at);
                }
            }
        }
    }

    /// Returns whether an expression reads this name.
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.reads.contains(name)
    }

    fn collect_reads(&mut self) {
        let (mut pod, mut container) = (ReadSet::default(), ReadSet::default());
        self.texts(&mut |text| {
            for expression in text.expressions() {
                pod.extend(expression.reads_of_pod());
                container.extend(expression.reads_of_container());
            }
        });
        (self.reads_of_pod, self.reads_of_container) = (pod, container);
    }

    /// Calls `visit` with every variable that depends on the pod.
    pub(crate) fn variables(&self) -> impl DoubleEndedIterator<Item = &Variable> {
        self.pod_variables.iter().chain(&self.container_variables).chain(&self.injected_variables)
    }

    /// Calls `visit` with every interpolation that is evaluated for a pod.
    fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.variables().for_each(|variable| variable.value.texts(visit));
        self.rules.iter().for_each(|rule| rule.texts(visit));
        for warning in self.warnings.iter().chain(&self.refusals) {
            visit(&warning.when);
            visit(&warning.message);
        }
        self.settings.iter().for_each(|settings| settings.texts(visit));
        if let Condition::OfPod(when) = &self.condition {
            visit(when);
        }
    }
}

fn parameters_of_rule(rule: &Rule, definition: &Definition) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    rule.texts(&mut |text| names.extend(names_in(text)));
    parameters_of(names, definition)
}

/// The parameters among these names, and those on which the variables among them depend.
fn parameters_of(mut names: BTreeSet<String>, definition: &Definition) -> BTreeSet<String> {
    for variable in definition.variables.iter().rev() {
        if names.contains(&variable.name) {
            variable.value.names(&mut |name| {
                names.insert(name.to_owned());
            });
        }
    }
    names.retain(|name| definition.parameters.iter().any(|parameter| parameter.name == *name));
    names
}

/// `<policy>@<12 hex digits>` over the text of the policy and the values of its parameters.
fn stamp(definition: &Definition, values: &[Value]) -> String {
    let named: Map<String, Value> = definition
        .parameters
        .iter()
        .zip(values)
        .map(|(parameter, value)| (parameter.name.clone(), value.clone()))
        .collect();
    let mut hash = Sha256::new();
    for text in definition.texts_of_files() {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.update(Value::Object(named).to_string().as_bytes());
    let digest = hash.finalize().iter().take(6).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("{}@{digest}", definition.name)
}
