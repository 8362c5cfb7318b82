//! Rules, settings, conditions and messages without what is the same for every pod.

use super::{Condition, ResolvedPolicy};
use crate::core::policy::definition::{About, Definition, Rule, Settings};
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
        let Some(when) = self.condition(rule.when.as_ref(), definition)? else { return Ok(None) };
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

    pub(super) fn fold_files(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for file in &definition.files {
            if let Some(when) = self.condition(file.when.as_ref(), definition)? {
                self.reads.extend(when.iter().flat_map(names_in));
                self.files.push(Settings { when, ..file.clone() });
            }
        }
        Ok(())
    }

    /// A condition without what is known of it; `None` if it is false for every pod.
    fn condition(
        &self,
        condition: Option<&Interpolation>,
        definition: &Definition,
    ) -> Result<Option<Option<Interpolation>>, EvaluationError> {
        let known = condition.map_or(Ok(Some(true)), |when| self.known(when, definition))?;
        Ok(match known {
            Some(false) => None,
            Some(true) => Some(None),
            None => Some(condition.cloned()),
        })
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

    /// Adds the checks whose conditions are not false for these parameters.
    pub(super) fn fold_checks(&mut self, definition: &Definition) -> Result<(), EvaluationError> {
        for check in &definition.checks {
            let mut check = check.clone();
            if !matches!(check.about, About::Variable(..)) {
                let Some(when) = self.condition(check.when.as_ref(), definition)? else { continue };
                check.when = when;
            }
            if check.about == About::Pod {
                let fold = Fold { names: &definition.names, fixed: &self.bindings };
                check.message = fold.text(&check.message)?;
            }
            check.texts(&mut |text| self.reads.extend(names_in(text)));
            self.checks.push(check);
        }
        Ok(())
    }
}
