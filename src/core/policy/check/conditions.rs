//! Conditions that have the same value for every pod, whatever the parameters are.

use serde_json::Value;

use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::{ALWAYS_FALSE, ALWAYS_TRUE};
use crate::core::policy::expression::types::{Kind, Texts};
use crate::core::policy::expression::{Bindings, Expression};
use crate::core::policy::interpolation::Interpolation;

use super::Finding;
use super::scope::Scope;

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
        let known = scope.of_text(condition).truth().or_else(|| for_all_values(expression, scope));
        let Some(value) = known else { return };
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

/// A condition with more combinations of values is not evaluated for each.
const MAX_COMBINATIONS: usize = 512;

/// The value of a condition over booleans and enumerations, if it is the same for each combination of their values:
/// that of `fabric != 'a' || fabric != 'b'` is.
fn for_all_values(expression: &Expression, scope: &Scope) -> Option<bool> {
    let values: Vec<(&str, Vec<Value>)> = expression
        .names()
        .iter()
        .map(|name| Some((name.as_str(), values_of(scope, name)?)))
        .collect::<Option<_>>()?;
    let combinations =
        values.iter().try_fold(1_usize, |product, (_, values)| product.checked_mul(values.len()))?;
    if combinations > MAX_COMBINATIONS {
        return None;
    }
    let mut all = (0..combinations).map(|mut at| {
        let mut bindings = Bindings::new();
        for (name, values) in &values {
            bindings.set(name, &values[at % values.len()]);
            at /= values.len();
        }
        expression.evaluate(&bindings).ok()?.as_bool()
    });
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// All values that a name can have; `None` if they cannot be listed.
fn values_of(scope: &Scope, name: &str) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for kind in scope.get(name).kinds()? {
        match kind {
            Kind::Null => values.push(Value::Null),
            Kind::Bool(Some(value)) => values.push((*value).into()),
            Kind::Bool(None) => values.extend([true.into(), false.into()]),
            Kind::String(Texts::These(texts)) => values.extend(texts.iter().map(|text| text.as_str().into())),
            _ => return None,
        }
    }
    (!values.is_empty()).then_some(values)
}
