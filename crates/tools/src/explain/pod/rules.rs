//! The rules, files, variables and checks of a policy, as the engine evaluated them for a pod.

use serde::Serialize;
use serde_json::Value;

use fabric_engine::{ConditionFact, ConditionOf, Evaluated, Read, ScopeOf, Trace, VariableIn};
use fabric_policy::definition::{AddsDevices, SettingsFile};
use fabric_policy::{Definition, Rule};
use fabric_yaml::pointer::field_path;

use crate::explain::columns::GPU_CONTAINERS;
use crate::explain::lines::{FileLine, in_file, item};
use crate::explain::parameters::ValueFact;

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
    /// Why it has no value.
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

/// The parts of a policy that the engine evaluated for a pod.
#[derive(Clone, Copy)]
pub(super) struct Results<'a> {
    pub(super) definition: &'a Definition,
    pub(super) pod: &'a Value,
    pub(super) trace: &'a Trace,
}

impl<'a> Results<'a> {
    pub(super) fn rules(self) -> Vec<RuleResult> {
        let rule = |(at, rule): (usize, &Rule)| {
            let keeps_out = rule.device.and_then(|device| self.keeps_out(device));
            let when = keeps_out
                .or_else(|| self.evaluations(ConditionOf::Rule(at)).next().map(|one| one.fact.clone()));
            let of_container = |one: &Evaluated| {
                Some(ContainerCondition { container: self.name(one.scope)?, condition: one.fact.clone() })
            };
            let is_active = when.as_ref().is_none_or(|when| when.value == Some(true));
            RuleResult {
                name: rule.name.clone(),
                place: Some(in_file(self.definition, rule.span)),
                applied: self.trace.applied.contains(&rule.name),
                containers: self
                    .evaluations(ConditionOf::Containers(at))
                    .filter(|_| is_active)
                    .filter_map(of_container)
                    .collect(),
                when,
            }
        };
        self.definition.rules.iter().enumerate().map(rule).collect()
    }

    /// The files. Each container with GPUs gets those whose condition holds.
    pub(super) fn files(self) -> Vec<RuleResult> {
        let container = |&(list, index, gpus): &(&'static str, usize, i64)| {
            let reads = vec![Read { name: "gpus".to_owned(), value: gpus.into() }];
            let (expression, value) = (GPU_CONTAINERS.to_owned(), Some(gpus > 0));
            let condition = ConditionFact { expression, value, error: None, reads };
            let container = self.name(ScopeOf::Container { list, index })?;
            Some(ContainerCondition { container, condition })
        };
        let file = |(at, file): (usize, &SettingsFile)| {
            let when = self.evaluations(ConditionOf::File(at)).next().map(|one| one.fact.clone());
            let is_active = file.when.is_none() || when.as_ref().is_some_and(|when| when.value == Some(true));
            let containers = self.trace.containers.iter().filter(|_| is_active);
            RuleResult {
                name: file.path.clone(),
                place: item(self.definition, "files", &file.path),
                applied: is_active && self.trace.containers.iter().any(|(.., gpus)| *gpus > 0),
                when,
                containers: containers.filter_map(container).collect(),
            }
        };
        self.definition.files.iter().enumerate().map(file).collect()
    }

    /// The variables. Those in `rows` have their values from a row.
    pub(super) fn variables(self, rows: &[ValueFact], is_used: impl Fn(&str) -> bool) -> Vec<VariableValue> {
        let variable = |VariableIn { name, scope, value, reads }: &VariableIn| {
            let machine = rows.iter().find(|row| row.name == *name).cloned();
            let value = machine.as_ref().map_or_else(|| value.clone(), |row| Ok(row.value.clone()));
            VariableValue {
                name: name.clone(),
                container: self.name(*scope),
                value: value.clone().unwrap_or_default(),
                error: value.clone().err(),
                reads: if machine.is_none() { reads.clone() } else { Vec::new() },
                machine,
                used: is_used(name),
            }
        };
        self.trace.variables.iter().map(variable).collect()
    }

    /// The condition of a check, about the container with this path, or about the pod.
    pub(super) fn check(self, code: &str, path: Option<&str>) -> Option<ConditionFact> {
        let is_about = |scope| match (scope, path) {
            (ScopeOf::Container { list, index }, Some(path)) => {
                path.starts_with(&field_path(self.pod, &format!("/spec/{list}/{index}")))
            }
            _ => true,
        };
        let is_own = |one: &&Evaluated| match one.of {
            ConditionOf::Check(at) if self.definition.checks[at].code == code => {
                one.fact.value == Some(true) && is_about(one.scope)
            }
            _ => false,
        };
        self.trace.conditions.iter().find(is_own).map(|one| one.fact.clone())
    }

    fn evaluations(self, of: ConditionOf) -> impl Iterator<Item = &'a Evaluated> {
        self.trace.conditions.iter().filter(move |one| one.of == of)
    }

    /// The reason why an entry of `devices.add` does not apply to the pod, whatever its own condition is.
    fn keeps_out(self, device: AddsDevices) -> Option<ConditionFact> {
        let in_host = self.trace.host_network && device.to_network;
        let name =
            if self.trace.own_devices { Some("ownDevices") } else { in_host.then_some("hostNetwork") }?;
        let reads = vec![Read { name: name.to_owned(), value: true.into() }];
        Some(ConditionFact { expression: format!("!{name}"), value: Some(false), error: None, reads })
    }

    /// The name of a container.
    fn name(self, scope: ScopeOf) -> Option<String> {
        let ScopeOf::Container { list, index } = scope else { return None };
        let name = self.pod["spec"][list][index]["name"].as_str();
        Some(name.map_or_else(|| index.to_string(), str::to_owned))
    }
}
