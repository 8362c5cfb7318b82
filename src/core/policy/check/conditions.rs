//! Conditions that have the same value for every pod, whatever the parameters are.

use crate::core::policy::definition::Definition;
use crate::core::policy::interpolation::Interpolation;

use super::Finding;
use super::scope::Scope;

const ALWAYS_TRUE: &str = "always_true";
const ALWAYS_FALSE: &str = "always_false";

/// The subject of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Pod,
    /// One that always holds selects every container, as `${gpus >= 0}` does on purpose.
    Container,
}

/// Calls `visit` with every condition of a policy.
pub(super) fn of(definition: &Definition, visit: &mut dyn FnMut(&Interpolation, Subject)) {
    let mut pod = |condition: &Interpolation| visit(condition, Subject::Pod);
    definition.matcher.when.iter().for_each(&mut pod);
    for warning in definition.warnings.iter().chain(&definition.refusals) {
        pod(&warning.when);
    }
    definition.rules.iter().filter_map(|rule| rule.when.as_ref()).for_each(&mut pod);
    definition.settings.iter().filter_map(|settings| settings.when.as_ref()).for_each(&mut pod);
    let rules = definition.rules.iter().filter_map(|rule| rule.containers.as_ref());
    let settings = definition.settings.iter().filter_map(|settings| settings.containers.as_ref());
    rules.chain(settings).for_each(|condition| visit(condition, Subject::Container));
}

/// The conditions that never or always hold, without those of which a part is known to be wrong.
pub(super) fn findings(definition: &Definition, scope: &Scope, known: &[Finding]) -> Vec<Finding> {
    let mut found = Vec::new();
    of(definition, &mut |condition, subject| {
        let Interpolation::Expression(expression) = condition else { return };
        let is_known = known.iter().any(|finding| finding.text == expression.source());
        // A constant is written on purpose.
        if is_known || expression.names().is_empty() {
            return;
        }
        let Some(value) = scope.of_text(condition).truth() else { return };
        if value && subject == Subject::Container {
            return;
        }
        let (code, adverb, hint) = if value {
            (ALWAYS_TRUE, "always", "leave it out, or compare with a value that makes a difference")
        } else {
            (ALWAYS_FALSE, "never", "compare with a value that occurs, or remove what depends on it")
        };
        let message = format!("`{}` {adverb} holds, for any pod and any parameters", condition.source());
        let mut finding = Finding::warning(code, expression.source(), message, hint);
        finding.diagnostic.span = condition.span();
        found.push(finding);
    });
    found
}
