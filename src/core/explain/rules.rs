//! The rules, settings, variables and messages of a policy, evaluated for a pod.

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{Mutation, Outcome, ScopeOf, Trace};
use crate::core::pointer::field_path;
use crate::core::policy::expression::{Bindings, Expression};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::phase::Phase;
use crate::core::policy::{About, Policy, Rule, VALUE};

use super::additions::GPU_CONTAINERS;
use super::condition::{Compiled, ConditionFact, Operand, Read, Reasons};
use super::fate::{InjectedPod, OverlayFact};
use super::overlay;
use super::place::{Files, Place};

/// A rule, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleResult {
    pub name: String,
    pub place: Option<Place>,
    /// True if the rule applies to a container.
    pub applied: bool,
    /// True if the rule is left out, because the pod uses the host network.
    pub left_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
    /// The condition for each container; none if `when` is false.
    pub containers: Vec<ContainerCondition>,
    /// The fields of the overlay, for each container and for the pod.
    pub fields: Vec<OverlayFact>,
}

/// A condition of a rule or of settings, for a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerCondition {
    pub container: String,
    pub condition: ConditionFact,
}

/// Settings, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingsResult {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
    pub containers: Vec<ContainerCondition>,
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
    /// True if a rule that applies depends on it.
    pub used: bool,
}

/// A warning or refusal that the policy declares, for the pod or for a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MessageResult {
    pub(super) code: String,
    /// The path of the container.
    pub(super) container: Option<String>,
    pub(super) condition: ConditionFact,
}

/// The evaluation of a policy for a pod.
pub(super) struct Evaluation<'a> {
    pub(super) policy: &'a Policy,
    pub(super) pod: &'a Value,
    mutation: &'a Mutation,
    pub(super) trace: &'a Trace,
    compiled: &'a Compiled,
    /// The pod after the injection.
    pub(super) after: Value,
    pub(super) rules: Vec<RuleResult>,
    pub(super) settings: Vec<SettingsResult>,
    pub(super) variables: Vec<VariableValue>,
    pub(super) messages: Vec<MessageResult>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        pod: &'a Value,
        mutation: &'a Mutation,
        trace: &'a Trace,
        files: &Files<'_>,
        compiled: &'a Compiled,
    ) -> Self {
        let rule = |rule: &Rule| RuleResult {
            name: rule.name.clone(),
            place: files.item("rules", "name", &rule.name),
            applied: trace.applied.iter().any(|applied| applied.rule == rule.name),
            left_out: trace.left_out.contains(&rule.name),
            when: None,
            containers: Vec::new(),
            fields: Vec::new(),
        };
        let definition = policy.definition();
        let settings = definition.settings.iter().map(|settings| SettingsResult {
            name: settings.name.clone(),
            when: None,
            containers: Vec::new(),
        });
        Self {
            policy,
            pod,
            mutation,
            trace,
            compiled,
            after: mutation.outcome.changed().map_or_else(|| pod.clone(), |changed| changed.pod.clone()),
            rules: definition.rules.iter().map(rule).collect(),
            settings: settings.collect(),
            variables: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Adds what is known about a part of the pod.
    pub(super) fn visit(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        self.variables(scope, bindings);
        self.messages(scope, bindings);
        let reasons = Reasons { definition: self.policy.definition(), bindings, compiled: self.compiled };
        let definition = self.policy.definition();
        match scope {
            ScopeOf::Pod => {
                for (result, rule) in self.rules.iter_mut().zip(&definition.rules) {
                    result.when = rule.when.as_ref().map(|when| reasons.of(when));
                }
                for (result, settings) in self.settings.iter_mut().zip(&definition.settings) {
                    result.when = settings.when.as_ref().map(|when| reasons.of(when));
                }
            }
            ScopeOf::Container { list, index, gpus } => {
                let name = container_name(self.pod, list, index);
                let of = |condition: Option<&Interpolation>| ContainerCondition {
                    container: name.clone(),
                    condition: condition
                        .map_or_else(|| gpu_condition(gpus), |condition| reasons.of(condition)),
                };
                let holds =
                    |when: &Option<ConditionFact>| when.as_ref().is_none_or(|when| when.value == Some(true));
                for (result, rule) in self.rules.iter_mut().zip(&definition.rules) {
                    if holds(&result.when) {
                        result.containers.push(of(rule.containers.as_ref()));
                    }
                }
                for (result, settings) in self.settings.iter_mut().zip(&definition.settings) {
                    if holds(&result.when) {
                        result.containers.push(of(settings.containers.as_ref()));
                    }
                }
                self.container_fields(list, index, bindings);
            }
            ScopeOf::Injected => self.pod_fields(bindings),
        }
    }

    fn container_fields(&mut self, list: &'static str, index: usize, bindings: &Bindings<'_, '_>) {
        if self.is_reverted() {
            return;
        }
        let result = InjectedPod { pod: &self.after, mutation: self.mutation, trace: self.trace };
        let base = format!("/spec/{list}/{index}");
        for (rule, definition) in self.rules.iter_mut().zip(&self.policy.definition().rules) {
            let applied = |applied: &crate::core::engine::Applied| {
                (applied.rule == rule.name) && (applied.list, applied.index) == (list, index)
            };
            if self.trace.applied.iter().any(applied) {
                let fields = overlay::of_container(&definition.container, Some(bindings));
                rule.fields.extend(fields.iter().map(|field| result.fate(&rule.name, &base, field)));
            }
        }
    }

    fn pod_fields(&mut self, bindings: &Bindings<'_, '_>) {
        if self.is_reverted() {
            return;
        }
        let result = InjectedPod { pod: &self.after, mutation: self.mutation, trace: self.trace };
        for (rule, definition) in self.rules.iter_mut().zip(&self.policy.definition().rules) {
            if rule.applied {
                let fields = overlay::of_pod(&definition.pod, Some(bindings));
                rule.fields.extend(fields.iter().map(|field| result.fate(&rule.name, "", field)));
            }
        }
    }

    /// Returns whether the injection was undone, so that no field has a fate.
    fn is_reverted(&self) -> bool {
        match &self.mutation.outcome {
            Outcome::Mutated(_) => false,
            Outcome::Unchanged { reason, .. } => reason.code() != "nothing_to_add",
            Outcome::Skipped { .. } | Outcome::Refused { .. } => true,
        }
    }

    fn variables(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        let definition = self.policy.definition();
        let reasons = Reasons { definition, bindings, compiled: self.compiled };
        for variable in &definition.variables {
            let container = match (variable.phase, scope) {
                (Phase::Fixed | Phase::Pod, ScopeOf::Pod) | (Phase::Injected, ScopeOf::Injected) => None,
                (Phase::Container, ScopeOf::Container { list, index, .. }) => {
                    Some(container_name(self.pod, list, index))
                }
                _ => continue,
            };
            let (value, error) = match variable.value.evaluate(bindings) {
                Ok(value) => (value, None),
                Err(error) => (Value::Null, Some(error.message)),
            };
            let mut reads = Vec::new();
            variable.value.texts(&mut |text| {
                for read in
                    text.expressions().map(Expression::source).flat_map(|source| reasons.reads(source))
                {
                    if !reads.contains(&read) {
                        reads.push(read);
                    }
                }
            });
            let name = variable.name.clone();
            self.variables.push(VariableValue { name, container, value, error, reads, used: false });
        }
    }

    fn messages(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        let definition = self.policy.definition();
        for message in definition.refusals.iter().chain(&definition.warnings) {
            let compiled = self.compiled;
            let of =
                |bindings: &Bindings<'_, '_>| Reasons { definition, bindings, compiled }.of(&message.when);
            let (container, condition) = match (&message.about, scope) {
                (About::Pod, ScopeOf::Injected) => (None, of(bindings)),
                (About::Container, ScopeOf::Container { list, index, .. }) => {
                    (Some(container_path(self.pod, list, index)), of(bindings))
                }
                (About::Variable(name), ScopeOf::Container { list, index, .. }) => {
                    let env = self.pod["spec"][list][index]["env"].as_array();
                    let named = |entry: &&Value| entry["name"].as_str() == Some(name);
                    let Some(entry) = env.and_then(|env| env.iter().rev().find(named)) else { continue };
                    let mut bindings = bindings.child();
                    bindings.set(VALUE, &Value::from(entry["value"].as_str().unwrap_or_default()));
                    (Some(container_path(self.pod, list, index)), of(&bindings))
                }
                _ => continue,
            };
            self.messages.push(MessageResult { code: message.code.clone(), container, condition });
        }
    }
}

/// The condition of a rule without `containers`.
fn gpu_condition(gpus: i64) -> ConditionFact {
    let expression = GPU_CONTAINERS.to_owned();
    let reads = vec![Read { name: "gpus".to_owned(), value: Value::from(gpus) }];
    let operand = Operand { expression: expression.clone(), value: gpus > 0, through: Vec::new(), reads };
    ConditionFact { expression, value: Some(gpus > 0), error: None, decided_by: vec![operand] }
}

fn container_name(pod: &Value, list: &str, index: usize) -> String {
    pod["spec"][list][index]["name"].as_str().map_or_else(|| index.to_string(), str::to_owned)
}

fn container_path(pod: &Value, list: &str, index: usize) -> String {
    field_path(pod, &format!("/spec/{list}/{index}"))
}
