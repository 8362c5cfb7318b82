//! Rules, settings, conditions and messages without what is the same for every pod.

use std::collections::BTreeSet;

use super::Condition;
use super::ResolvedPolicy;
use crate::core::policy::active::{ActiveRule, ActiveWarning, names_in};
use crate::core::policy::definition::{About, Definition, PolicyWarning, Rule};
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::overlay::Fold;
use crate::core::policy::phase::Phase;

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
    fn active_rule(
        &self,
        rule: &Rule,
        definition: &Definition,
    ) -> Result<Option<ActiveRule>, EvaluationError> {
        let known = rule.when.as_ref().map_or(Ok(Some(true)), |when| self.known(when, definition))?;
        let when = match known {
            Some(false) => return Ok(None),
            Some(true) => None,
            None => rule.when.clone(),
        };
        let fold = Fold { names: &definition.names, fixed: &self.bindings };
        Ok(Some(ActiveRule {
            name: rule.name.clone(),
            when,
            containers: rule.containers.clone(),
            requires_pod_network: rule.requires_pod_network,
            on_conflict: rule.on_conflict,
            container: fold.instructions(&rule.container)?,
            pod: fold.pod(&rule.pod)?,
            parameters: parameters_of_rule(rule, definition),
        }))
    }

    /// Takes the rules, settings, conditions and messages as the file has them.
    pub(super) fn unfold(&mut self, definition: &Definition) {
        let rule = |rule: &Rule| ActiveRule {
            name: rule.name.clone(),
            when: rule.when.clone(),
            containers: rule.containers.clone(),
            requires_pod_network: rule.requires_pod_network,
            on_conflict: rule.on_conflict,
            container: rule.container.clone(),
            pod: rule.pod.clone(),
            parameters: parameters_of_rule(rule, definition),
        };
        let message = |message: &PolicyWarning| ActiveWarning {
            code: message.code.clone(),
            about: message.about.clone(),
            when: message.when.clone(),
            message: message.message.clone(),
        };
        self.rules = definition.rules.iter().map(rule).collect();
        self.warnings = definition.warnings.iter().map(message).collect();
        self.refusals = definition.refusals.iter().map(message).collect();
        self.settings.clone_from(&definition.settings);
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
        self.parameters_of_condition = parameters_of(names_in(when).collect(), definition);
        self.condition = if let Some(holds) = self.known(when, definition)? {
            Condition::Fixed(holds)
        } else {
            self.reads.extend(names_in(when));
            Condition::OfPod(when.clone())
        };
        Ok(())
    }

    /// The warnings or refusals whose conditions are not false for these parameters.
    pub(super) fn fold_warnings(
        &mut self,
        declared: &[PolicyWarning],
        definition: &Definition,
    ) -> Result<Vec<ActiveWarning>, EvaluationError> {
        let mut active = Vec::new();
        for warning in declared {
            let of_pod = warning.about == About::Pod;
            if of_pod && self.known(&warning.when, definition)? == Some(false) {
                continue;
            }
            let fold = Fold { names: &definition.names, fixed: &self.bindings };
            let message = if of_pod { fold.text(&warning.message)? } else { warning.message.clone() };
            for text in [&warning.when, &message] {
                self.reads.extend(names_in(text));
            }
            let (code, about, when) = (warning.code.clone(), warning.about.clone(), warning.when.clone());
            active.push(ActiveWarning { code, about, when, message });
        }
        Ok(active)
    }
}

fn parameters_of_rule(rule: &Rule, definition: &Definition) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    rule.texts(&mut |text| names.extend(names_in(text)));
    parameters_of(names, definition)
}

/// The parameters among these names, and those on which the variables among them depend.
fn parameters_of(mut names: BTreeSet<String>, definition: &Definition) -> BTreeSet<String> {
    for variable in definition.variables.iter().rev() {
        if names.contains(&variable.name) {
            variable.value.names(&mut |name| {
                names.insert(name.to_owned());
            });
        }
    }
    names.retain(|name| definition.parameters.iter().any(|parameter| parameter.name == *name));
    names
}
