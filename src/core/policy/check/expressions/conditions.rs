//! Conditions that have the same value for every sample.

use crate::core::counted;
use crate::core::policy::definition::Definition;
use crate::core::policy::expression::Expression;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::source::{ALWAYS_FALSE, ALWAYS_TRUE, Diagnostic};
use crate::core::yaml::Span;

use super::samples::Samples;
use super::trials::Parameters;

/// The subject of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::policy::check) enum Subject {
    Pod,
    /// One that always holds refuses every pod, and may be a constant.
    Refusal,
    /// One that always holds selects every container, as `${gpus >= 0}` does on purpose.
    Container,
}

/// Calls `visit` with every condition of a policy, and with those that hold where it is evaluated.
pub(in crate::core::policy::check) fn of<'d>(
    definition: &'d Definition,
    visit: &mut dyn FnMut(&'d Interpolation, Subject, &[&'d Interpolation]),
) {
    let matcher: Vec<&Interpolation> = definition.matcher.when.iter().collect();
    if let Some(when) = &definition.matcher.when {
        visit(when, Subject::Pod, &[]);
    }
    for warning in &definition.warnings {
        visit(&warning.when, if warning.refuses { Subject::Refusal } else { Subject::Pod }, &matcher);
    }
    let rules = definition.rules.iter().map(|rule| (&rule.when, &rule.containers));
    let settings = definition.settings.iter().map(|settings| (&settings.when, &settings.containers));
    for (when, containers) in rules.chain(settings) {
        if let Some(when) = when {
            visit(when, Subject::Pod, &matcher);
        }
        let around: Vec<&Interpolation> = matcher.iter().copied().chain(when).collect();
        if let Some(condition) = containers {
            visit(condition, Subject::Container, &around);
        }
    }
}

/// The conditions that no sample meets, or every sample, without those of which a part is known to be wrong.
pub(in crate::core::policy::check) fn findings(
    definition: &Definition,
    samples: &Samples<'_>,
    known: &[Diagnostic],
) -> Vec<Diagnostic> {
    let is_known = |expression: &Expression| {
        let range = expression.range();
        known.iter().any(|Diagnostic { span, .. }| range.contains(&(span.line, span.column)))
    };
    let mut found = Vec::new();
    of(definition, &mut |condition, subject, around| {
        let Interpolation::Expression(expression) = condition else { return };
        // A constant is written on purpose, unless it refuses every pod.
        let is_constant = expression.names().is_empty();
        if is_known(expression) || is_constant && subject != Subject::Refusal {
            return;
        }
        let alone = constant(samples, condition, &[]);
        let within = || if around.is_empty() { None } else { constant(samples, condition, around) };
        let Some((value, seen)) = alone.or_else(within) else { return };
        let is_meant = if value { subject == Subject::Container } else { is_constant };
        if !is_meant {
            found.push(finding(expression.source(), condition.span(), value, &seen));
        }
    });
    found
}

/// The value of a condition in all samples that meet those around it, and their number in words; `None` if it has both
/// values, or if a pod can exist for which it has another one.
fn constant(
    samples: &Samples<'_>,
    condition: &Interpolation,
    around: &[&Interpolation],
) -> Option<(bool, String)> {
    let all: Vec<&Interpolation> = around.iter().copied().chain([condition]).collect();
    let (mut yes, mut no) = (0, 0);
    let is_all = samples.each(&all, Parameters::Any, &mut |sample| {
        if sample.all_hold(around) {
            let value = sample.holds(condition);
            yes += usize::from(value == Some(true));
            no += usize::from(value == Some(false));
        }
    });
    let value = yes > 0;
    let is_constant = is_all && (yes == 0) != (no == 0);
    let what = if around.is_empty() { "" } else { " where the conditions around it hold" };
    let seen =
        || format!("{} of {}{what}", if value { "each" } else { "none" }, counted(yes + no, "sample pod"));
    is_constant.then(|| (value, seen()))
}

fn finding(source: &str, span: Span, value: bool, seen: &str) -> Diagnostic {
    let (code, hint) = match (value, source.contains("||"), source.contains("&&")) {
        (true, true, _) => (ALWAYS_TRUE, "did you mean `&&`? Otherwise, leave the condition out"),
        (true, _, _) => (ALWAYS_TRUE, "leave it out, or compare with a value that makes a difference"),
        (false, _, true) => {
            (ALWAYS_FALSE, "did you mean `||`? Otherwise, remove what depends on the condition")
        }
        (false, _, _) => (ALWAYS_FALSE, "compare with a value that occurs, or remove what depends on it"),
    };
    Diagnostic::warning(code, span, format!("`{source}` is true for {seen}")).hint(hint)
}
