//! Rules, settings, conditions and messages without what is the same for every pod.

use super::{Condition, ResolvedPolicy};
use crate::core::policy::definition::{About, Definition, PolicyWarning, Rule};
use crate::core::policy::interpolation::{EvaluationError, Interpolation, Phase, names_in};
use crate::core::policy::overlay::Fold;

impl ResolvedPolicy {
    /// Adds the rules that may apply. Returns an error for each rule without a value.
    pub(super) fn fold_rules(&mut self, definition: &Definition) -> Vec<EvaluationError> {
        let mut errors = Vec::new();
        for rule in &definition.rules {
            match self.active_rule(rule, definition) {
                Ok(Some(active)) => {
                    active.texts(&mut |text| self.reads.extend(names_in(text)));
                    self.rules.push(active);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    /// The rule for these parameters; `None` if its condition is false.
    fn active_rule(&self, rule: &Rule, definition: &Definition) -> Result<Option<Rule>, EvaluationError> {
        let known = rule.when.as_ref().map_or(Ok(Some(true)), |when| self.known(when, definition))?;
        let when = match known {
            Some(false) => return Ok(None),
            Some(true) => None,
            None => rule.when.clone(),
        };
        let fold = Fold { names: &definition.names, fixed: &self.bindings };
        let (container, pod) = (fold.instructions(&rule.container)?, fold.pod(&rule.pod)?);
        Ok(Some(Rule { when, container, pod, ..rule.clone() }))
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

    pub(super) fn fold_settings(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
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

    pub(super) fn fold_condition(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        let Some(when) = &definition.matcher.when else { return Ok(()) };
        self.parameters_of_condition = definition.parameters_of(names_in(when).collect());
        self.condition = if let Some(holds) = self.known(when, definition)? {
            Condition::Fixed(holds)
        } else {
            self.reads.extend(names_in(when));
            Condition::OfPod(when.clone())
        };
        Ok(())
    }

    /// Adds the warnings whose conditions are not false for these parameters.
    pub(super) fn fold_warnings(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for warning in &definition.warnings {
            let of_pod = warning.about == About::Pod;
            if of_pod && self.known(&warning.when, definition)? == Some(false) {
                continue;
            }
            let fold = Fold { names: &definition.names, fixed: &self.bindings };
            let message = if of_pod { fold.text(&warning.message)? } else { warning.message.clone() };
            for text in [&warning.when, &message] {
                self.reads.extend(names_in(text));
            }
            self.warnings.push(PolicyWarning { message, ..warning.clone() });
        }
        Ok(())
    }
}
