//! The rules, files, variables and checks of a policy, evaluated for a pod.

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{ScopeOf, Trace, own_variable};
use crate::core::pointer::field_path;
use crate::core::policy::definition::AddsDevices;
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{Interpolation, Phase};
use crate::core::policy::{About, Containers, Definition, VALUE};

use super::condition::{ConditionFact, Read, Reasons};
use crate::core::explain::lines::{FileLine, in_file, item};
use crate::core::explain::parameters::ValueFact;

/// A rule, or a file, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleResult {
    pub name: String,
    pub place: Option<FileLine>,
    /// True if it applies to a container.
    pub applied: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
    /// The condition for each container; none if `when` is false.
    pub containers: Vec<ContainerCondition>,
}

/// A condition of a rule or of a file, for a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerCondition {
    pub container: String,
    pub condition: ConditionFact,
}

/// The value of a variable, for the pod or for a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariableValue {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub value: Value,
    /// The reason for which it has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values that its expressions read.
    pub reads: Vec<Read>,
    /// The row of the policy's machines that gives the value in place of its expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<ValueFact>,
    /// True if a rule that applies depends on it.
    pub used: bool,
}

/// A warning that the policy declares and gives, for the pod or for a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MessageResult {
    pub(super) code: String,
    /// The path of the container.
    pub(super) container: Option<String>,
    pub(super) condition: ConditionFact,
}

/// The evaluation of a policy for a pod.
pub(super) struct Evaluation<'a> {
    definition: &'a Definition,
    pod: &'a Value,
    /// The conditions of the rules, then of the files: `when` and `containers`.
    conditions: Vec<(Option<&'a Interpolation>, &'a Containers)>,
    results: Vec<RuleResult>,
    /// The variables that have their values from a row.
    rows: Vec<ValueFact>,
    pub(super) variables: Vec<VariableValue>,
    pub(super) messages: Vec<MessageResult>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        definition: &'a Definition,
        pod: &'a Value,
        trace: &Trace,
        rows: Vec<ValueFact>,
    ) -> Self {
        let result = |name: &str, place, applied| RuleResult {
            name: name.to_owned(),
            place,
            applied,
            when: None,
            containers: Vec::new(),
        };
        let applied = |name: &str| trace.applied.iter().any(|applied| applied.rule == name);
        let (rules, files) = (definition.rules.iter(), definition.files.iter());
        let conditions = rules.clone().map(|rule| (rule.when.as_ref(), &rule.containers));
        let of_files = files.clone().map(|file| (file.when.as_ref(), &Containers::Gpus));
        let results =
            rules.map(|rule| result(&rule.name, Some(in_file(definition, rule.span)), applied(&rule.name)));
        let of_path = |path: &str| result(path, item(definition, "files", "path", path), false);
        Self {
            definition,
            pod,
            conditions: conditions.chain(of_files).collect(),
            results: results.chain(files.map(|file| of_path(&file.path))).collect(),
            rows,
            variables: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// The results of the rules, and of the files.
    pub(super) fn results(&mut self) -> (Vec<RuleResult>, Vec<RuleResult>) {
        let mut rules = std::mem::take(&mut self.results);
        let mut files = rules.split_off(self.definition.rules.len());
        for file in &mut files {
            file.applied = file.containers.iter().any(|of| of.condition.value == Some(true));
        }
        (rules, files)
    }

    /// Adds what is known about a part of the pod.
    pub(super) fn visit(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        self.variables(scope, bindings);
        self.messages(scope, bindings);
        let reasons = Reasons { definition: self.definition, bindings };
        let results = self.results.iter_mut().zip(&self.conditions);
        match scope {
            ScopeOf::Pod => {
                for (result, (when, _)) in results {
                    result.when = when.map(|when| reasons.of(when));
                }
                for (result, rule) in self.results.iter_mut().zip(&self.definition.rules) {
                    let keeps_out = rule.device.and_then(|device| keeps_out(device, bindings));
                    result.when = keeps_out.or(result.when.take());
                }
            }
            ScopeOf::Container { list, index } => {
                let is_active =
                    |result: &RuleResult| result.when.as_ref().is_none_or(|when| when.value == Some(true));
                for (result, (_, containers)) in results.filter(|(result, _)| is_active(result)) {
                    let container = container_name(self.pod, list, index);
                    let condition = containers.condition().map(|condition| reasons.of(condition));
                    result
                        .containers
                        .extend(condition.map(|condition| ContainerCondition { container, condition }));
                }
            }
            ScopeOf::Injected => {}
        }
    }

    fn variables(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        let reasons = Reasons { definition: self.definition, bindings };
        for variable in &self.definition.variables {
            let container = match (variable.phase, scope) {
                (Phase::Fixed | Phase::Pod, ScopeOf::Pod) | (Phase::Injected, ScopeOf::Injected) => None,
                (Phase::Container, ScopeOf::Container { list, index }) => {
                    Some(container_name(self.pod, list, index))
                }
                _ => continue,
            };
            let machine = self.rows.iter().find(|row| row.name == variable.name).cloned();
            let evaluated = || variable.value.evaluate(bindings).map_err(|error| error.message);
            let (value, error) = match machine.as_ref().map_or_else(evaluated, |row| Ok(row.value.clone())) {
                Ok(value) => (value, None),
                Err(error) => (Value::Null, Some(error)),
            };
            let mut reads = Vec::new();
            if machine.is_none() {
                variable.value.texts(&mut |text| reasons.add_reads(text, &mut reads));
            }
            let name = variable.name.clone();
            self.variables.push(VariableValue { name, container, value, error, reads, machine, used: false });
        }
    }

    fn messages(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        let definition = self.definition;
        for check in &definition.checks {
            // Only a message that is given needs its reasons.
            let of = |condition: Option<&Interpolation>, bindings: &Bindings<'_, '_>| {
                let given = check.holds(bindings) == Some(true);
                condition.filter(|_| given).map(|condition| Reasons { definition, bindings }.of(condition))
            };
            let when = check.when.as_ref();
            let (container, condition) = match (&check.about, scope) {
                (About::Pod, ScopeOf::Injected) => (None, of(when, bindings)),
                (About::Containers(condition), ScopeOf::Container { list, index }) => {
                    (Some(container_path(self.pod, list, index)), of(Some(condition), bindings))
                }
                (About::Variable(name, _), ScopeOf::Container { list, index }) => {
                    let env = &self.pod["spec"][list][index]["env"];
                    let Some((_, value)) = own_variable(env, name) else { continue };
                    let mut bindings = bindings.child();
                    bindings.set(VALUE, &value);
                    (Some(container_path(self.pod, list, index)), of(when, &bindings))
                }
                _ => continue,
            };
            if let Some(condition) = condition {
                self.messages.push(MessageResult { code: check.code.clone(), container, condition });
            }
        }
    }
}

/// What keeps an entry of `devices.add` from a pod, whatever its own condition is.
fn keeps_out(device: AddsDevices, bindings: &Bindings<'_, '_>) -> Option<ConditionFact> {
    let names = [Some("ownDevices"), device.to_network.then_some("hostNetwork")];
    names.into_iter().flatten().find(|name| bindings.get(name) == Some(Value::Bool(true))).map(|name| {
        let reads = vec![Read { name: name.to_owned(), value: true.into() }];
        ConditionFact { expression: format!("!{name}"), value: Some(false), error: None, reads }
    })
}

fn container_name(pod: &Value, list: &str, index: usize) -> String {
    pod["spec"][list][index]["name"].as_str().map_or_else(|| index.to_string(), str::to_owned)
}

fn container_path(pod: &Value, list: &str, index: usize) -> String {
    field_path(pod, &format!("/spec/{list}/{index}"))
}
