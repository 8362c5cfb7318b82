//! Every expression that fails for a sample pod: the engine stops at the first one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::engine::{ScopeOf, each_scope};
use crate::core::policy::expression::{Bindings, Expression};
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::overlay::{
    Element, Instruction, Key, PodOverlay, Template, Written, evaluate_key, writes,
};
use crate::core::policy::{PodContext, Policy, ResolvedPolicy, Rule};

/// A failure, and the part of the policy in which it is.
pub(super) type Failure = (String, EvaluationError);

/// The failures of the rules that apply to a pod.
pub(super) fn all(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<Failure> {
    let mut found = Vec::new();
    let mut active: Vec<bool> = Vec::new();
    // A pod for which this fails has a failure of another kind, which is known.
    let _ = each_scope(policy, pod, pod, context, &mut |scope, resolved, bindings| {
        let mut evaluation = Evaluation::of(resolved, bindings, &mut found);
        match scope {
            ScopeOf::Pod => {
                for rule in &resolved.rules {
                    let holds = rule.when.as_ref().is_none_or(|when| evaluation.holds(rule, when));
                    if holds {
                        evaluation.pod(rule, &rule.pod);
                    }
                    active.push(holds);
                }
            }
            ScopeOf::Container { gpus, .. } => {
                for (rule, _) in resolved.rules.iter().zip(&active).filter(|(_, active)| **active) {
                    let selects = match &rule.containers {
                        Some(condition) => evaluation.holds(rule, condition),
                        None => gpus > 0,
                    };
                    if selects {
                        evaluation.instructions(rule, &rule.container);
                    }
                }
            }
            // The sample is not injected.
            ScopeOf::Injected => {}
        }
    });
    found
}

struct Evaluation<'a, 'p, 'v> {
    bindings: &'a Bindings<'p, 'v>,
    /// The variables without a value, each with the failure behind that.
    failed: BTreeMap<String, Failure>,
    found: &'a mut Vec<Failure>,
}

impl<'a, 'p, 'v> Evaluation<'a, 'p, 'v> {
    fn of(resolved: &ResolvedPolicy, bindings: &'a Bindings<'p, 'v>, found: &'a mut Vec<Failure>) -> Self {
        let mut failed: BTreeMap<String, Failure> = BTreeMap::new();
        for variable in resolved.variables() {
            let mut cause = None;
            variable.value.texts(&mut |text| {
                let mut names = text.expressions().flat_map(Expression::names);
                cause = cause.take().or_else(|| names.find_map(|name| failed.get(name).cloned()));
            });
            let failure = match (cause, variable.value.evaluate(bindings)) {
                (_, Ok(_)) => continue,
                (Some(cause), Err(_)) => cause,
                (None, Err(error)) => (format!("the variable `{}`", variable.name), error),
            };
            failed.insert(variable.name.clone(), failure);
        }
        Self { bindings, failed, found }
    }

    /// Records a failure, or that of the variable behind it.
    fn note<T>(
        &mut self,
        rule: &Rule,
        texts: impl FnOnce(&mut dyn FnMut(&Interpolation)),
        result: Result<T, EvaluationError>,
    ) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let mut cause = None;
        texts(&mut |text| {
            let mut names = text.expressions().flat_map(Expression::names);
            cause = cause.take().or_else(|| names.find_map(|name| self.failed.get(name).cloned()));
        });
        self.found.push(cause.unwrap_or_else(|| (format!("rule `{}`", rule.name), error)));
        None
    }

    fn holds(&mut self, rule: &Rule, condition: &Interpolation) -> bool {
        let holds = condition.holds(self.bindings);
        self.note(rule, |visit| visit(condition), holds).unwrap_or_default()
    }

    fn template(&mut self, rule: &Rule, template: &Template) {
        let built = template.build(self.bindings);
        self.note(rule, |visit| template.texts(visit), built);
    }

    fn element(&mut self, rule: &Rule, element: &Element) {
        let built = element.build(self.bindings);
        self.note(rule, |visit| element.0.texts(visit), built);
    }

    fn text(&mut self, rule: &Rule, text: &Interpolation) {
        let value = text.evaluate(self.bindings);
        self.note(rule, |visit| visit(text), value);
    }

    /// The parts of a pod's overlay that are evaluated before the pod is injected.
    fn pod(&mut self, rule: &Rule, overlay: &PodOverlay) {
        overlay.volumes.iter().for_each(|volume| self.element(rule, volume));
        self.instructions(rule, &overlay.claims);
        for container in &overlay.containers {
            self.template(rule, &container.name);
            self.instructions(rule, &container.instructions);
        }
    }

    fn instructions(&mut self, rule: &Rule, instructions: &[Instruction]) {
        for write in writes(instructions) {
            match write.value {
                Written::Value(template) | Written::Replacement(template) | Written::Names(template) => {
                    if let Key::Of(key, format) = write.key {
                        let name = evaluate_key(key, format, self.bindings);
                        self.note(rule, |visit| visit(key), name);
                    }
                    self.template(rule, template);
                }
                Written::Entry(entry) => self.element(rule, entry),
                Written::ListEdit(edit) => self.text(rule, &edit.entry),
                Written::Amount(amount) => {
                    let templates = amount.limit.iter().chain(&amount.request);
                    templates.for_each(|template| self.template(rule, template));
                }
                Written::Computed { expression, .. } => self.text(rule, expression),
                // Annotations are evaluated once the pod is injected.
                Written::Networks(_) | Written::Entries(_) | Written::Empty => {}
            }
        }
    }
}
