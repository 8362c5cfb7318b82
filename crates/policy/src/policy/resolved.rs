//! A policy whose parameters have the values for one kind of node, with everything evaluated that does not depend on
//! the pod.

mod rules;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Policy;
use super::devices::Devices;
use super::own_writes::OwnWrites;
use super::parameter_values::{Given, Note, ParameterValues, bound, has_row};
use crate::definition::{Definition, PolicyCheck, Rule, SettingsFile, add_names_of_variables};
use crate::expression::{Bindings, Path};
use crate::interpolation::{EvaluationError, Interpolation, Phase, names_in};
use crate::matcher::Selection;
use crate::parameter::{Origin, Variable};
use crate::work::Work;

/// The steps to find out whether a value depends on the pod, and to copy it.
const STEPS_TO_EVALUATE: usize = 2_500;

/// A policy for pods that select the same nodes.
#[derive(Debug)]
pub struct ResolvedPolicy {
    /// Its rules, checks and files with these values.
    pub evaluated: Arc<EvaluatedPolicy>,
    /// The source of the value of each parameter.
    pub origins: Vec<Origin>,
    /// Remarks about the sources of the parameter values.
    pub notes: Vec<Note>,
    /// The values of the parameters for the other nodes that the pod may get, if they differ in a setting without a
    /// lowest value.
    pub values_elsewhere: Vec<Vec<Value>>,
}

impl ResolvedPolicy {
    pub(super) fn new(evaluated: Arc<EvaluatedPolicy>, parameters: ParameterValues) -> Self {
        let ParameterValues { origins, notes, values_elsewhere, .. } = parameters;
        Self { evaluated, origins, notes, values_elsewhere }
    }

    /// The policy for pods that select these nodes, with values also for the names that only rules and checks read which
    /// the parameters exclude. An injection needs no value for them, and the validation of a policy does.
    pub fn with_all_names(
        policy: &Policy,
        selection: &Selection,
        work: &Work,
    ) -> Result<Self, Vec<EvaluationError>> {
        let definition = policy.definition();
        let values = ParameterValues::resolve(definition, policy.overrides(), selection);
        let given = Given { definition, values: &values.values, selection, work };
        let mut evaluated = EvaluatedPolicy::evaluated(given)?;
        definition.texts(&mut |text| {
            evaluated.reads.extend(names_in(text));
            evaluated.paths_read.add(text);
        });
        Ok(Self::new(Arc::new(evaluated), values))
    }

    /// Returns whether both have the same rules.
    pub fn is_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.evaluated, &other.evaluated)
    }
}

/// A policy for the same values of its parameters.
#[derive(Debug, Default)]
pub struct EvaluatedPolicy {
    /// The values of the parameters, in the order of the policy.
    pub values: Vec<Value>,
    /// Parameters and fixed variables.
    pub bindings: Bindings<'static, 'static>,
    /// Those that expressions read, by name, as in the next two lists.
    pub pod_variables: Vec<Variable>,
    pub container_variables: Vec<Variable>,
    pub injected_variables: Vec<Variable>,
    pub rules: Vec<Rule>,
    pub checks: Vec<PolicyCheck>,
    pub files: Vec<SettingsFile>,
    pub condition: Condition,
    /// The parameters on which `match.when` depends.
    pub parameters_of_condition: BTreeSet<String>,
    /// What an injection writes and expressions may read.
    pub own_writes: OwnWrites,
    pub devices: Devices,
    /// True if the policy has entries of `devices.add`, whether or not they can apply.
    pub adds_devices: bool,
    /// The names that expressions read.
    reads: BTreeSet<String>,
    /// What expressions read of the pod and its containers.
    pub paths_read: PathsRead,
}

/// What expressions read of the pod, and of its containers.
#[derive(Debug, Default)]
pub struct PathsRead {
    pub pod: BTreeSet<Path>,
    pub container: BTreeSet<Path>,
    /// From the environment of a container, which is a map.
    pub env: BTreeSet<Path>,
}

impl PathsRead {
    fn add(&mut self, text: &Interpolation) {
        for expression in text.expressions() {
            self.pod.extend(expression.reads_of("pod").into_iter().cloned());
            self.container.extend(expression.reads_of("container").into_iter().cloned());
            self.env.extend(expression.reads_of("containerEnv").into_iter().cloned());
        }
    }
}

/// The `match.when` of a policy.
#[derive(Debug)]
pub enum Condition {
    /// The same for all pods.
    Fixed(bool),
    OfPod(Interpolation),
}

impl Default for Condition {
    fn default() -> Self {
        Self::Fixed(true)
    }
}

impl EvaluatedPolicy {
    pub(crate) fn new(given: Given<'_>) -> Result<Self, Vec<EvaluationError>> {
        let mut policy = Self::evaluated(given)?;
        let reads = policy.names_read();
        for variables in
            [&mut policy.injected_variables, &mut policy.container_variables, &mut policy.pod_variables]
        {
            variables.retain(|variable| reads.contains(&variable.name));
            variables.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let mut paths = PathsRead::default();
        policy.variables().for_each(|variable| variable.value.texts(&mut |text| paths.add(text)));
        policy.texts(&mut |text| paths.add(text));
        (policy.reads, policy.paths_read) = (reads, paths);
        Ok(policy)
    }

    fn evaluated(given: Given<'_>) -> Result<Self, Vec<EvaluationError>> {
        let Given { definition, values, work, .. } = given;
        let size = definition.variables.len() + definition.rules.iter().map(Rule::size).sum::<usize>();
        if !work.goes_on(size * STEPS_TO_EVALUATE) {
            // The caller reports the end of the work.
            return Err(Vec::new());
        }
        let bindings = bound(given)?;
        let variables = |phase| {
            let of_phase = definition.variables.iter().filter(|one| one.phase == phase);
            of_phase.filter(|one| !has_row(definition, values, one)).cloned().collect()
        };
        let mut policy = Self {
            values: values.to_vec(),
            bindings,
            pod_variables: variables(Phase::Pod),
            container_variables: variables(Phase::Container),
            injected_variables: variables(Phase::Injected),
            adds_devices: definition.adds_devices(),
            ..Self::default()
        };
        let one = |error| vec![error];
        let mut errors = policy.evaluate_rules(definition);
        errors.extend(policy.evaluate_files(definition).err());
        if !errors.is_empty() {
            // An expression that fails because the work ends is not at fault.
            return Err(if work.goes_on(0) { errors } else { Vec::new() });
        }
        // The checks, which are still missing, may read them, too.
        let give_way = policy.adds_devices || policy.names_read().contains("ownDevices");
        policy.devices = Devices::new(definition, &policy.bindings, &policy.rules, give_way).map_err(one)?;
        policy.evaluate_checks(definition).map_err(one)?;
        policy.evaluate_condition(definition).map_err(one)?;
        let variables: Vec<_> = policy.variables().collect();
        policy.own_writes = OwnWrites::read_by(
            |visit| policy.texts(visit),
            &variables,
            &policy.rules,
            &policy.files,
            &policy.devices,
        );
        // Each pod counts its own work.
        policy.bindings.count_by(None);
        Ok(policy)
    }

    /// The names that the rules, checks, files and the condition read, directly or through variables.
    fn names_read(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.texts(&mut |text| names.extend(names_in(text)));
        add_names_of_variables(self.variables(), &mut names);
        names
    }

    /// Returns whether an expression reads this name.
    pub fn reads(&self, name: &str) -> bool {
        self.reads.contains(name)
    }

    /// The rules that may apply, as their file has them: their evaluation for a pod also yields what the parameters leave
    /// out.
    pub fn rules_as_written(&self, definition: &Definition) -> Vec<Rule> {
        let as_written = |rule: &Rule| {
            let written = definition.rules.iter().find(|written| written.name == rule.name)?;
            Some(Rule { additions: written.additions.clone(), ..rule.clone() })
        };
        self.rules.iter().filter_map(as_written).collect()
    }

    /// The variables that depend on the pod.
    pub(crate) fn variables(&self) -> impl DoubleEndedIterator<Item = &Variable> {
        self.pod_variables.iter().chain(&self.container_variables).chain(&self.injected_variables)
    }

    /// Calls `visit` with every interpolation that is evaluated for a pod, but those of variables.
    fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.rules.iter().for_each(|rule| rule.texts(visit));
        self.checks.iter().for_each(|check| check.texts(visit));
        self.files.iter().flat_map(|file| &file.when).for_each(&mut *visit);
        if let Condition::OfPod(when) = &self.condition {
            visit(when);
        }
    }
}
