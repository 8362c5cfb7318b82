//! The rules that apply to a pod, and the containers that each of them selects.

use std::collections::HashMap;

use serde_json::Value;

use crate::analysis::{Container, PodAnalysis, count_steps};
use crate::record::{ContainerCondition, ContainerGpus, EvaluatedRule, OrReason, Reason, Trace};
use fabric_policy::definition::Ordered;
use fabric_policy::interpolation::{EvaluationError, Interpolation};
use fabric_policy::overlay::{Addition, Evaluation, Section, Tree};
use fabric_policy::schema::{self, Shape};
use fabric_policy::work::takes_memory;
use fabric_policy::{Containers, Definition, OnConflict, PodContext, Rule};

use super::scope::Scope;

/// A container, the scope of its expressions, and the rules that select it.
pub(crate) struct ContainerRules<'a> {
    pub(crate) container: &'a Container,
    pub(crate) scope: Scope<'a>,
    selected: Vec<bool>,
}

/// What becomes of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No container is selected, or the condition does not hold.
    Idle,
    Applies,
    /// Left out: the pod has `hostNetwork: false`, or a value that excludes the host network that the rule sets.
    OwnNetworkStays,
    /// Left out: it attaches devices to the pod's own network, but the pod is on the host network.
    WithoutNetwork,
}

/// The rules of a policy, evaluated for a pod.
pub(crate) struct Rules<'a> {
    pub(crate) analysis: &'a PodAnalysis,
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) of_containers: Vec<ContainerRules<'a>>,
    /// The rules of the policy, each with its state in `states`.
    all: &'a [Rule],
    states: Vec<State>,
    /// The value of the pod that excludes the host network.
    pub(crate) off_host: Option<String>,
}

impl<'a> Rules<'a> {
    /// The rules of a policy before any of them is evaluated.
    pub(crate) fn unevaluated(all: &'a [Rule], analysis: &'a PodAnalysis, scope: &'a Scope<'a>) -> Self {
        let row = |container| ContainerRules {
            container,
            scope: scope.of_container(container),
            selected: Vec::new(),
        };
        // Without memory for the of_containers there are none, and the evaluation ends.
        let bytes = analysis.containers.len() * size_of::<ContainerRules<'_>>();
        let has_memory = takes_memory(analysis.work.as_ref(), bytes);
        let of_containers = analysis.containers.iter().filter(|_| has_memory).map(row).collect();
        Self { analysis, scope, of_containers, all, states: vec![State::Idle; all.len()], off_host: None }
    }

    /// Evaluates the conditions of the rules.
    pub(crate) fn evaluate(&mut self, pod: &Value, context: &PodContext) -> OrReason {
        count_steps(context, 0)?;
        let Self { analysis, scope, of_containers, all: rules, states, off_host } = self;
        let may_apply = |rule: &Rule| analysis.may_apply(rule);
        let candidates = Candidates::find(rules, scope, may_apply)?;
        if !analysis.host_network && candidates.joins_host.contains(&true) {
            *off_host = schema::excludes_host_network(pod);
        }
        for ContainerRules { container, scope, selected } in of_containers {
            count_steps(context, rules.len())?;
            *selected = candidates.select(container, scope)?;
            for (at, selects) in selected.iter_mut().enumerate().filter(|(_, selects)| **selects) {
                let to_network = rules[at].device.is_some_and(|device| device.to_network);
                let is_off_host = off_host.is_some() || stays_off_host(&rules[at], pod);
                states[at] = if is_off_host && candidates.joins_host[at] {
                    State::OwnNetworkStays
                } else if analysis.host_network && to_network {
                    State::WithoutNetwork
                } else {
                    State::Applies
                };
                *selects = states[at] == State::Applies;
            }
            if !selected.contains(&true) {
                scope.forget();
            }
        }
        Ok(())
    }

    /// Records what the rules and files of the policy depend on, and its variables. Nothing else is evaluated in these
    /// scopes, in which a variable that fails here has no consequence.
    pub(crate) fn record(&self, definition: &Definition, pod: &Value, trace: &mut Trace) {
        let Self { analysis, scope, of_containers, .. } = self;
        let of_container = |&Container { list, index, gpus, .. }: &Container| {
            let name = pod["spec"][list][index]["name"].as_str();
            ContainerGpus { name: name.map_or_else(|| index.to_string(), str::to_owned), list, gpus }
        };
        trace.containers = analysis.containers.iter().map(of_container).collect();
        for rule in &definition.rules {
            let mut recorded = EvaluatedRule::default();
            if analysis.may_apply(rule) {
                recorded =
                    self.conditions(rule.when.as_ref(), rule.containers.condition(), &trace.containers);
                let to_network = rule.device.is_some_and(|device| device.to_network);
                recorded.kept_out = (analysis.host_network && to_network).then_some("hostNetwork");
            } else {
                recorded.kept_out = Some("ownDevices");
            }
            recorded.applied = self.applied().any(|applied| applied.name == rule.name);
            trace.rules.push(recorded);
        }
        for file in &definition.files {
            let mut recorded =
                self.conditions(file.when.as_ref(), Containers::Gpus.condition(), &trace.containers);
            recorded.applied = recorded.containers.iter().any(|one| one.condition.value == Some(true));
            trace.files.push(recorded);
        }
        let variables = definition.variables.as_slice();
        scope.record(variables, None, trace);
        for (at, row) in of_containers.iter().enumerate() {
            let name = trace.containers[at].name.clone();
            row.scope.record(variables, Some(&name), trace);
        }
        scope.of_injected(pod).record(variables, None, trace);
    }

    /// The conditions of a rule or file, with the values that they read.
    fn conditions(
        &self,
        when: Option<&Interpolation>,
        of_container: &Interpolation,
        containers: &[ContainerGpus],
    ) -> EvaluatedRule {
        let when = when.map(|when| self.scope.fact(when));
        let is_active = when.as_ref().is_none_or(|when| when.value == Some(true));
        let of_containers = self.of_containers.iter().zip(containers).filter(|_| is_active);
        let containers = of_containers.map(|(row, of)| {
            let condition = row.scope.fact(of_container);
            ContainerCondition { container: of.name.clone(), condition }
        });
        EvaluatedRule { containers: containers.collect(), when, ..EvaluatedRule::default() }
    }

    /// Returns whether any rule applies.
    pub(crate) fn any(&self) -> bool {
        self.states.contains(&State::Applies)
    }

    /// The rules in a state.
    pub(crate) fn in_state(&self, state: State) -> impl Iterator<Item = &'a Rule> {
        let rules = self.all.iter().zip(&self.states);
        rules.filter(move |(_, known)| **known == state).map(|(rule, _)| rule)
    }

    /// The rules that apply, in order.
    pub(crate) fn applied(&self) -> impl Iterator<Item = &'a Rule> {
        self.in_state(State::Applies)
    }

    /// Returns whether no rules apply but those that did `before`, and none of these gave way to one that no longer does.
    pub(crate) fn are_among(&self, before: &Self, pod: &Value) -> bool {
        let is_known_container = |list: &str, name: &str| {
            let places = before.of_containers.iter().map(|row| row.container.place());
            places.filter(|of| of.0 == list).any(|(_, index)| pod["spec"][list][index]["name"] == name)
        };
        // What a rule adds to a container of its own takes precedence over nothing.
        let may_precede = |addition: &Addition| match addition.container_name() {
            _ if addition.shared.is_empty() => false,
            Some(one) => one.name.as_str().is_none_or(|name| is_known_container(one.list, name)),
            None => true,
        };
        let is_same = |at: usize, now: bool, known: bool| {
            now == known || !now && !self.all[at].additions.iter().any(may_precede)
        };
        let applies = |rules: &Self, at: usize| rules.states[at] == State::Applies;
        let known: HashMap<_, _> =
            before.of_containers.iter().map(|row| (row.container.place(), &row.selected)).collect();
        (0..self.all.len()).all(|at| is_same(at, applies(self, at), applies(before, at)))
            && self.of_containers.iter().all(|row| {
                let known = known.get(&row.container.place());
                let is_known = |at: usize| known.is_some_and(|known| known[at]);
                (0..self.all.len()).all(|at| is_same(at, row.selected[at], is_known(at)))
            })
    }

    /// What the rules that apply add, in order.
    pub(crate) fn additions(&self) -> impl Iterator<Item = Ordered<'a>> {
        let rules = self.all.iter().enumerate().zip(&self.states);
        rules.filter(|(_, known)| **known == State::Applies).flat_map(|((at, rule), _)| ordered(at, rule))
    }

    /// What the rules that select a container add to it, in order.
    pub(crate) fn additions_to(&self, row: &ContainerRules<'_>) -> impl Iterator<Item = Ordered<'a>> {
        let rules = self.all.iter().enumerate().zip(&row.selected);
        let rules = rules.filter(|(_, selected)| **selected).flat_map(|((at, rule), _)| ordered(at, rule));
        rules.filter(|of| of.addition.section == Section::Selected)
    }
}

fn ordered(at: usize, rule: &Rule) -> impl Iterator<Item = Ordered<'_>> {
    let additions = rule.additions.iter().enumerate();
    additions.map(move |(number, addition)| Ordered { rule, addition, at: (at, number) })
}

/// Returns whether a pod has `hostNetwork: false`, which a rule keeps. The API server leaves it out.
fn stays_off_host(rule: &Rule, pod: &Value) -> bool {
    rule.on_conflict == OnConflict::Keep && pod["spec"]["hostNetwork"] == false
}

/// The first rule that applies and moves a pod with its own network to the host network.
pub(crate) fn rule_that_joins_host<'a>(
    analysis: &'a PodAnalysis,
    pod: &Value,
    context: &PodContext,
) -> OrReason<Option<&'a Rule>> {
    let joins = |rule: &Rule| rule.host_network().is_some() && !stays_off_host(rule, pod);
    let rules = analysis.policy.evaluated.rules.as_slice();
    if analysis.host_network || !rules.iter().any(joins) {
        return Ok(None);
    }
    let scope = Scope::of_pod(analysis);
    let candidates = Candidates::find(rules, &scope, joins)?;
    if !candidates.joins_host.contains(&true) || schema::excludes_host_network(pod).is_some() {
        return Ok(None);
    }
    let mut joining: Option<usize> = None;
    for container in &analysis.containers {
        count_steps(context, rules.len())?;
        let selected = candidates.select(container, &scope.of_container(container))?;
        let first = (0..rules.len()).find(|at| selected[*at] && candidates.joins_host[*at]);
        joining = joining.into_iter().chain(first).min();
    }
    Ok(joining.map(|at| &rules[at]))
}

/// The rules whose `when` holds.
struct Candidates<'a> {
    rules: &'a [Rule],
    active: Vec<bool>,
    /// Those that set `hostNetwork: true`.
    joins_host: Vec<bool>,
}

impl<'a> Candidates<'a> {
    fn find(rules: &'a [Rule], scope: &Scope<'_>, looked_at: impl Fn(&Rule) -> bool) -> OrReason<Self> {
        let bindings = scope.bindings();
        let mut candidates = Self { rules, active: Vec::new(), joins_host: Vec::new() };
        for rule in rules {
            let holds = |when: &Interpolation| {
                when.is_true(&bindings).map_err(|error| failed(scope, &rule.name, error))
            };
            let active = looked_at(rule) && rule.when.as_ref().map_or(Ok(true), holds)?;
            let host_network = match rule.host_network() {
                Some(tree) if active => {
                    let value = Evaluation::new(&bindings, false).value(tree, &Shape::Boolean);
                    value.map_err(|error| failed(scope, &rule.name, error))?.and_then(Tree::into_value)
                }
                _ => None,
            };
            candidates.active.push(active);
            candidates.joins_host.push(host_network == Some(Value::Bool(true)));
        }
        Ok(candidates)
    }

    /// The rules that select a container.
    fn select(&self, container: &Container, scope: &Scope<'_>) -> OrReason<Vec<bool>> {
        let bindings = scope.bindings();
        // Several rules of a policy most often have the same condition.
        let mut last: Option<(&Interpolation, bool)> = None;
        let mut selected = vec![false; self.rules.len()];
        for (at, rule) in self.rules.iter().enumerate().filter(|(at, _)| self.active[*at]) {
            let holds = match (&rule.containers, last) {
                (Containers::Gpus, _) => Ok(container.gpus > 0),
                (Containers::Ranks, _) => Ok(scope.is_rank(container)),
                (Containers::If(condition), Some((known, holds))) if known == condition => Ok(holds),
                (Containers::If(condition), _) => {
                    condition.is_true(&bindings).inspect(|holds| last = Some((condition, *holds)))
                }
            };
            selected[at] = holds.map_err(|error| failed(scope, &rule.name, error))?;
        }
        Ok(selected)
    }
}

/// The reason why a pod is refused for which an expression of a rule has no value.
pub(crate) fn failed(scope: &Scope<'_>, rule: &str, error: EvaluationError) -> Reason {
    scope.explain(&format!("rule `{rule}`"), error)
}
