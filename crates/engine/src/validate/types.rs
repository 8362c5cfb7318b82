//! Expressions under conditions that no sample meets. Those that fail for all values of the same types are still found.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::each_scope;
use fabric_policy::interpolation::{EvaluationError, Interpolation, Phase};
use fabric_policy::{Definition, PodContext, Policy};

/// The first expression of each rule and check that fails for a sample because of the types that it reads. A condition
/// that reads the same values may guard it.
pub(super) fn failures(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<(String, EvaluationError)> {
    let mut found: Vec<(String, EvaluationError)> = Vec::new();
    let definition = policy.definition();
    let _ = each_scope(policy, pod, context, &mut |phase, resolved, bindings| {
        let is_of_scope = |text: &Interpolation| text.phase(&definition.names).max(Phase::Pod) == phase;
        let mut look = |place: &dyn Fn() -> String, text: &Interpolation, guards: &[&Interpolation]| {
            if !is_of_scope(text) || found.iter().any(|(known, _)| *known == place()) {
                return;
            }
            let Some(error) = text.evaluate(bindings).err().filter(|error| error.fault.is_of_types) else {
                return;
            };
            let read = reads(definition, [text]);
            let others: Vec<&Interpolation> = guards.iter().copied().filter(|guard| *guard != text).collect();
            if reads(definition, others).is_disjoint(&read) {
                found.push((place(), error));
            }
        };
        for rule in &resolved.rules {
            let guards: Vec<&Interpolation> = rule.when.iter().chain(rule.containers.condition()).collect();
            rule.texts(&mut |text| look(&|| format!("rule `{}`", rule.name), text, &guards));
        }
        for check in &definition.checks {
            let guards: Vec<&Interpolation> = check.conditions().collect();
            check.texts(&mut |text| look(&|| format!("the check `{}`", check.code), text, &guards));
        }
    });
    found
}

/// The names that texts read, directly or through variables. A variable reads only those before it.
fn reads<'t>(
    definition: &Definition,
    texts: impl IntoIterator<Item = &'t Interpolation>,
) -> BTreeSet<String> {
    let mut read: BTreeSet<String> = BTreeSet::new();
    for text in texts {
        read.extend(text.expressions().flat_map(|expression| expression.names().iter().cloned()));
    }
    for variable in definition.variables.iter().rev() {
        if read.contains(&variable.name) {
            variable.value.names(&mut |name| _ = read.insert(name.to_owned()));
        }
    }
    read
}
