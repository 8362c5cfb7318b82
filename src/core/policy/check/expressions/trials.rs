//! Trying conditions on samples, which have the values with which the policy compares what its expressions read.
//!
//! A sample need not be a pod that could exist: each name and each path that the tried expressions read takes all of its
//! values independently of the others. What is true for none of so many samples is true for no pod.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::matcher::{SelectedLabel, Selection};
use crate::core::policy::parameter::{ParameterType, of_one};

use super::samples::{Sample, Samples};
use super::terms::{Candidates, Terms, put};

/// The samples for one question.
const MAX_SAMPLES: usize = 1_024;
/// The work for a sample apart from its expressions.
const OVERHEAD: usize = 256;

/// The values of parameters in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::policy::check) enum Parameters {
    /// Any that an operator can set.
    Any,
    /// The defaults, and those of tables.
    Defaults,
}

impl Samples<'_> {
    /// Returns whether conditions meet in none of the samples that the policy matches, where each alone does in some.
    pub(in crate::core::policy::check) fn exclude(
        &self,
        one: &[&Interpolation],
        other: &[&Interpolation],
    ) -> bool {
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
    pub(in crate::core::policy::check) fn each(
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
            let selection = Selection { labels, gpus: total, ..Selection::default() };
            for parameter in &self.definition.parameters {
                self.bind(&mut bindings, &parameter.name, &of_one(parameter, None, &selection).value);
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
