//! Expressions under conditions that no sample meets: those that fail for all values of the same types are found even so.

use serde_json::Value;

use crate::core::engine::{ScopeOf, each_scope};
use crate::core::policy::interpolation::{EvaluationError, Interpolation, Phase};
use crate::core::policy::{PodContext, Policy};

/// The first expression of each rule and check that fails for a sample by the types of what it reads.
pub(super) fn failures(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<(String, EvaluationError)> {
    let mut found: Vec<(String, EvaluationError)> = Vec::new();
    let names = &policy.definition().names;
    let _ = each_scope(policy, pod, pod, context, &mut |scope, resolved, bindings| {
        let is_of_scope = |text: &Interpolation| match (text.phase(names), scope) {
            (Phase::Fixed | Phase::Pod, ScopeOf::Pod) | (Phase::Injected, ScopeOf::Injected) => true,
            (phase, ScopeOf::Container { .. }) => phase == Phase::Container,
            _ => false,
        };
        let mut look = |place: &dyn Fn() -> String, text: &Interpolation| {
            let place_of_first = || found.iter().any(|(known, _)| *known == place());
            if !is_of_scope(text) || place_of_first() {
                return;
            }
            if let Some(error) = text.evaluate(bindings).err().filter(|error| error.fault.is_of_types) {
                found.push((place(), error));
            }
        };
        for rule in &resolved.rules {
            rule.texts(&mut |text| look(&|| format!("rule `{}`", rule.name), text));
        }
        for check in &policy.definition().checks {
            check.texts(&mut |text| look(&|| format!("the check `{}`", check.code), text));
        }
    });
    found
}
