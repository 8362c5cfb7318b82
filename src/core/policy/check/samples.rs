//! Trying conditions on samples, which have the values with which the policy compares what its expressions read.
//!
//! A sample need not be a pod that could exist: each name and each path that the tried expressions read takes all of its
//! values independently of the others. What is true for none of so many samples is true for no pod.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::core::policy::built_in::{BUILT_IN, type_of};
use crate::core::policy::definition::{Definition, Rule};
use crate::core::policy::expression::types::Kind;
use crate::core::policy::expression::{Bindings, Expression};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::node::{SelectedLabel, Selection};
use crate::core::policy::overlay::Template;
use crate::core::policy::parameter::{Parameter, ParameterType};
use crate::core::policy::resolution::resolve;
use crate::core::policy::variable::VariableValue;

use super::terms::{Candidates, Terms, put};

/// The samples for one question.
const MAX_SAMPLES: usize = 1_024;
/// The work for all questions about a policy, in bytes of expressions that are read or evaluated.
const MAX_WORK: usize = 16 << 20;
/// The work for a sample apart from its expressions.
const OVERHEAD: usize = 256;

/// The values of parameters in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameters {
    /// Any that an operator can set.
    Any,
    /// The defaults, and those of tables.
    Defaults,
}

/// The source of samples of a policy.
pub(super) struct Samples<'d> {
    pub(super) definition: &'d Definition,
    pub(super) variables: HashMap<&'d str, usize>,
    pub(super) parameters: HashMap<&'d str, &'d Parameter>,
    /// The built-in names with fields.
    objects: Vec<&'static str>,
    work: Cell<usize>,
    /// The condition of a rule without `containers`.
    has_gpus: Option<Interpolation>,
    /// The condition of a rule with `requiresPodNetwork`.
    pub(super) has_network: Option<Interpolation>,
}

/// Values for the names that some expressions read.
pub(super) struct Sample(Bindings<'static, 'static>);

impl Sample {
    /// The value of a condition; `None` if it has none.
    pub(super) fn holds(&self, condition: &Interpolation) -> Option<bool> {
        condition.holds(&self.0).ok()
    }

    /// Returns whether all of the conditions hold.
    pub(super) fn all_hold(&self, conditions: &[&Interpolation]) -> bool {
        conditions.iter().all(|condition| self.holds(condition) == Some(true))
    }

    /// The value of a template, if it has one; an error if it reads what the sample does not have.
    pub(super) fn build(&self, template: &Template) -> Result<Option<Value>, ()> {
        template.build(&self.0).map_err(drop)
    }
}

impl<'d> Samples<'d> {
    pub(super) fn of(definition: &'d Definition) -> Self {
        let has_fields = |name: &&str| {
            let known = type_of(name, definition);
            known.is_some_and(|known| {
                known.may_be(|kind| matches!(kind, Kind::Object(_) | Kind::Map(_) | Kind::Record(_)))
            })
        };
        let compiled =
            |source: &str| Expression::compile(source).ok().map(|one| Interpolation::Expression(one.into()));
        Self {
            definition,
            variables: definition
                .variables
                .iter()
                .enumerate()
                .map(|(at, one)| (one.name.as_str(), at))
                .collect(),
            parameters: definition.parameters.iter().map(|one| (one.name.as_str(), one)).collect(),
            objects: BUILT_IN.iter().map(|known| known.name).filter(has_fields).collect(),
            work: Cell::new(0),
            has_gpus: compiled("gpus > 0"),
            has_network: compiled("!hostNetwork"),
        }
    }

    /// The conditions on which a rule applies to a container.
    pub(super) fn conditions_of<'r>(&'r self, rule: &'r Rule) -> Vec<&'r Interpolation> {
        let containers = rule.containers.as_ref().or(self.has_gpus.as_ref());
        let network = self.has_network.as_ref().filter(|_| rule.requires_pod_network);
        rule.when.iter().chain(containers).chain(network).collect()
    }

    /// The keys of a table among the variables.
    pub(super) fn keys(&self, name: &str) -> Vec<Value> {
        let value = self.variables.get(name).map(|at| &self.definition.variables[*at].value);
        let Some(VariableValue::Map(entries)) = value else { return Vec::new() };
        entries.iter().map(|(key, _)| key.as_str().into()).collect()
    }

    /// Counts work; `None` if it was too much.
    pub(super) fn charge(&self, work: usize) -> Option<()> {
        self.work.set(self.work.get().saturating_add(work));
        (self.work.get() <= MAX_WORK).then_some(())
    }

    /// Returns whether conditions meet in none of the samples that the policy matches, where each alone does in some.
    pub(super) fn exclude(&self, one: &[&Interpolation], other: &[&Interpolation]) -> bool {
        let matcher: Vec<&Interpolation> = self.definition.matcher.when.iter().collect();
        let all: Vec<&Interpolation> = matcher.iter().chain(one).chain(other).copied().collect();
        let (mut ones, mut others, mut both) = (0, 0, 0);
        let is_all = self.each(&all, Parameters::Any, &mut |sample| {
            if sample.all_hold(&matcher) {
                let (one, other) = (sample.all_hold(one), sample.all_hold(other));
                ones += usize::from(one);
                others += usize::from(other);
                both += usize::from(one && other);
            }
        });
        is_all && both == 0 && ones > 0 && others > 0
    }

    /// Calls `visit` with the samples of what texts read. Returns false if a pod can be like none of them: there would be
    /// more of them, or the texts depend on more than what they compare with literals. With [`Parameters::Any`], it does
    /// not try any then, since a question about all pods has no answer.
    pub(super) fn each(
        &self,
        texts: &[&Interpolation],
        parameters: Parameters,
        visit: &mut dyn FnMut(&Sample),
    ) -> bool {
        let Some(mut terms) = Terms::of(self, texts) else { return false };
        let candidates = terms.candidates(parameters == Parameters::Any);
        let combinations =
            candidates.iter().try_fold(1_usize, |product, one| product.checked_mul(one.values.len()));
        let samples = combinations.map_or(MAX_SAMPLES, |all| all.min(MAX_SAMPLES));
        let is_all = combinations == Some(samples) && !terms.is_partial;
        if !is_all && parameters == Parameters::Any {
            return false;
        }
        let mut length = texts.iter().map(|text| text.source().len()).sum::<usize>() + OVERHEAD;
        for at in terms.variables.keys() {
            self.definition.variables[*at].value.texts(&mut |text| length += text.source().len());
        }
        if self.charge(samples.saturating_mul(length)).is_none() {
            return false;
        }
        for at in 0..samples {
            let mut rest = spread(at, samples, combinations);
            let chosen = candidates.iter().map(|one| {
                let value = &one.values[rest % one.values.len()];
                rest /= one.values.len();
                (one, value.as_ref())
            });
            visit(&self.sample(&chosen.collect::<Vec<_>>(), parameters, terms.variables.keys()));
        }
        is_all
    }

    fn sample<'t>(
        &self,
        chosen: &[(&Candidates, Option<&Value>)],
        parameters: Parameters,
        variables: impl Iterator<Item = &'t usize>,
    ) -> Sample {
        let mut bindings = Bindings::new();
        let mut objects: BTreeMap<&str, Value> = self.objects.iter().map(|name| (*name, json!({}))).collect();
        objects.insert("pod", json!({"metadata": {}, "spec": {}}));
        let mut total = None;
        for (Candidates { root, path, .. }, value) in chosen {
            match (objects.get_mut(root.as_str()), value) {
                (Some(object), value) => put(object, path, value.cloned()),
                (None, Some(value)) => self.bind(&mut bindings, root, value),
                (None, None) => {}
            }
            total = if root == "totalGpus" { value.and_then(Value::as_i64) } else { total };
        }
        if parameters == Parameters::Defaults {
            let label = |(label, value): (&String, &Value)| {
                let values = value.as_str().map(str::to_owned).into_iter().collect();
                SelectedLabel { label: label.clone(), values }
            };
            let labels = objects["node"].as_object().into_iter().flatten().map(label).collect();
            let selection = Selection { labels, gpus: total };
            for parameter in &self.definition.parameters {
                self.bind(&mut bindings, &parameter.name, resolve(parameter, None, &selection).value);
            }
        }
        for (name, object) in &objects {
            bindings.set(name, object);
        }
        // A variable reads those before it.
        for variable in variables.map(|at| &self.definition.variables[*at]) {
            if let Ok(value) = variable.value.evaluate(&bindings) {
                bindings.set(&variable.name, &value);
            }
        }
        Sample(bindings)
    }

    fn bind(&self, bindings: &mut Bindings<'_, '_>, name: &str, value: &Value) {
        let is_number = self.parameters.get(name).is_some_and(|one| one.kind == ParameterType::Number);
        match value.as_f64() {
            Some(number) if is_number => bindings.set_double(name, number),
            _ => bindings.set(name, value),
        }
    }
}

/// A combination, such that the samples differ in each value if they are not all.
fn spread(at: usize, samples: usize, combinations: Option<usize>) -> usize {
    match combinations {
        Some(all) if all == samples => at,
        // An odd constant of the size of a word visits each combination before it repeats one.
        _ => at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % combinations.unwrap_or(usize::MAX),
    }
}
