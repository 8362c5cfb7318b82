//! Rules, settings, conditions and messages with their constant parts resolved.

use super::{Condition, EvaluatedPolicy};
use crate::definition::{About, Definition, Rule};
use crate::interpolation::{Evaluated, EvaluationError, Interpolation, Phase, names_in};
use crate::overlay::{Addition, ContainerName, Evaluation, Section};
use crate::schema::{Format, Shape};

impl EvaluatedPolicy {
    /// Adds the rules that may apply. Returns an error for each rule without a value.
    pub(super) fn evaluate_rules(&mut self, definition: &Definition) -> Vec<EvaluationError> {
        let mut errors = Vec::new();
        for rule in &definition.rules {
            match self.active_rule(rule, definition) {
                Ok(active) => self.rules.extend(active),
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    /// The rule for these parameters; `None` if its condition is false.
    fn active_rule(&self, rule: &Rule, definition: &Definition) -> Evaluated<Option<Rule>> {
        let mut when = rule.when.clone();
        if !self.may_hold(&mut when, definition)? {
            return Ok(None);
        }
        let mut additions = Vec::with_capacity(rule.additions.len());
        for addition in &rule.additions {
            additions.extend(self.addition(addition, definition)?);
        }
        Ok(Some(Rule { when, additions, ..rule.clone() }))
    }

    /// An addition with the values of these parameters; `None` for a container whose name is `null`.
    fn addition(&self, addition: &Addition, definition: &Definition) -> Evaluated<Option<Addition>> {
        let (bindings, names) = (&self.bindings, &definition.names);
        let mut evaluation = Evaluation::with_parameters(bindings, names, addition.names_places());
        let section = match &addition.section {
            Section::Named(ContainerName { list, name }) => {
                let name = evaluation.value(name, &Shape::Text(Format::DnsLabel))?;
                let Some(name) = name else { return Ok(None) };
                Section::Named(ContainerName { list, name })
            }
            other => other.clone(),
        };
        let tree = evaluation.object(&addition.tree, addition.section.object())?.unwrap_or_default();
        let left_out = evaluation.left_out();
        let shared = addition.shared.iter().cloned().chain(addition.left_out(&left_out)).collect();
        Ok(Some(Addition { section, tree, shared }))
    }

    /// The value of a condition for every pod, if it does not depend on the pod. Where one side of `&&` is false, or
    /// one of `||` true, CEL needs no value of the other.
    fn known(&self, condition: &Interpolation, definition: &Definition) -> Evaluated<Option<bool>> {
        let value = condition.is_true(&self.bindings);
        if condition.phase(&definition.names) == Phase::Fixed { value.map(Some) } else { Ok(value.ok()) }
    }

    pub(super) fn evaluate_files(&mut self, definition: &Definition) -> Evaluated<()> {
        for file in &definition.files {
            let mut file = file.clone();
            if self.may_hold(&mut file.when, definition)? {
                self.files.push(file);
            }
        }
        Ok(())
    }

    /// Returns whether a condition may hold for a pod. One that holds for every pod is dropped.
    fn may_hold(&self, condition: &mut Option<Interpolation>, definition: &Definition) -> Evaluated<bool> {
        let known = condition.as_ref().map_or(Ok(Some(true)), |when| self.known(when, definition))?;
        if known == Some(true) {
            *condition = None;
        }
        Ok(known != Some(false))
    }

    pub(super) fn evaluate_condition(&mut self, definition: &Definition) -> Evaluated<()> {
        let Some(when) = &definition.matcher.when else { return Ok(()) };
        self.parameters_of_condition = definition.parameters_of(names_in(when).collect());
        let of_pod = || Condition::OfPod(when.clone());
        self.condition = self.known(when, definition)?.map_or_else(of_pod, Condition::Fixed);
        Ok(())
    }

    /// Adds the checks whose conditions are not false for these parameters.
    pub(super) fn evaluate_checks(&mut self, definition: &Definition) -> Evaluated<()> {
        for check in &definition.checks {
            let mut check = check.clone();
            // That of a variable depends on its value. A condition that holds stays, for the record.
            let is_of_variable = matches!(check.about, About::Variable(..));
            if let (false, Some(when)) = (is_of_variable, &check.when)
                && self.known(when, definition)? == Some(false)
            {
                continue;
            }
            if check.about == About::Pod {
                check.message = check.message.with_parameters(&self.bindings, &definition.names)?;
            }
            self.checks.push(check);
        }
        Ok(())
    }
}
