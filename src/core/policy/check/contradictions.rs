//! Conditions of which the parts exclude each other or leave nothing out, alone or together with those around them.

use crate::core::policy::definition::{Definition, Rule};
use crate::core::policy::diagnostic::{ALWAYS_FALSE, ALWAYS_TRUE, Diagnostic};
use crate::core::policy::expression::{Chain, Claim, Formula, Test};
use crate::core::policy::interpolation::Interpolation;
use crate::core::yaml::Span;

use super::Finding;
use super::meaning::Meaning;
use super::satisfy::{Contradiction, contradiction};

/// The parts of all expressions that never or always hold.
pub(super) fn of_parts(definition: &Definition, meaning: &Meaning<'_>, known: &[Finding]) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    definition.texts(&mut |text| {
        for expression in text.expressions() {
            if is_known(known, expression.source()) {
                continue;
            }
            for chain in expression.chains(meaning) {
                let Some(finding) = of_chain(&chain, meaning) else { continue };
                let finding = Finding { text: expression.source().to_owned(), ..finding };
                if !found.iter().any(|other| other.diagnostic.span == finding.diagnostic.span) {
                    found.push(finding);
                }
            }
        }
    });
    found
}

fn is_known(known: &[Finding], source: &str) -> bool {
    known.iter().any(|finding| finding.text == source)
}

/// A finding about a conjunction that never holds, or a disjunction that always does.
fn of_chain(chain: &Chain, meaning: &Meaning<'_>) -> Option<Finding> {
    if chain.is_and {
        return Some(match contradiction(&[&meaning.facts, &chain.formula])? {
            Contradiction::Pair(one, other) if other.span.line > 0 => {
                let hint = if is_equality(&one) && is_equality(&other) {
                    "did you mean `||`?"
                } else {
                    "correct one of them, or remove what depends on it"
                };
                warning(ALWAYS_FALSE, other.span, never_both(&one, &other), hint)
            }
            Contradiction::One(test) => never(&test),
            _ => {
                let message = format!("`{}` never holds", chain.source);
                warning(ALWAYS_FALSE, chain.span, message, "correct one of its parts")
            }
        });
    }
    let negated = chain.formula.clone().negated();
    Some(match contradiction(&[&meaning.facts, &negated])? {
        Contradiction::Pair(one, other) if one.span.line > 0 => {
            let both = is_equality(&one) && is_equality(&other);
            let hint = if both { "did you mean `&&`?" } else { "leave it out, or correct one of them" };
            let (one, other) = (one.opposite(), other.opposite());
            let message = format!("`{}` or `{}` holds for every value", one.shown(), other.shown());
            warning(ALWAYS_TRUE, other.span, message, hint)
        }
        // `containers: ${gpus >= 0}` selects every container on purpose.
        Contradiction::One(test) if test.term == "gpus" => return None,
        Contradiction::One(test) => {
            let (span, message) = (test.span, format!("`{}` holds for every value", test.opposite().shown()));
            warning(
                ALWAYS_TRUE,
                span,
                message,
                "leave it out, or compare with a value that makes a difference",
            )
        }
        _ => {
            let message = format!("`{}` always holds", chain.source);
            warning(ALWAYS_TRUE, chain.span, message, "leave it out, or correct one of its parts")
        }
    })
}

/// Returns whether a test compares with one literal.
fn is_equality(test: &Test) -> bool {
    matches!(&test.claim, Claim::OneOf(constants) if constants.len() == 1)
        && !test.negated
        && test.span.line > 0
}

fn never(test: &Test) -> Finding {
    let message = format!("`{}` holds for no value", test.shown());
    warning(
        ALWAYS_FALSE,
        test.span,
        message,
        "compare with a value that occurs, or remove what depends on it",
    )
}

fn never_both(one: &Test, other: &Test) -> String {
    if one.span.line == 0 {
        return format!("`{}` never holds with `{}`", other.shown(), one.shown());
    }
    format!("`{}` and `{}` never hold together", one.shown(), other.shown())
}

fn excluded(reason: &Contradiction, source: &str, span: Span, together: &str, hint: &str) -> Finding {
    match reason {
        Contradiction::One(test) if test.span.line > 0 => never(test),
        Contradiction::Pair(one, other) if other.span.line > 0 => {
            let message = if together.is_empty() {
                never_both(one, other)
            } else {
                format!("`{source}` never holds{together}: {}", never_both(one, other))
            };
            warning(ALWAYS_FALSE, other.span, message, hint)
        }
        _ => warning(ALWAYS_FALSE, span, format!("`{source}` never holds{together}"), hint),
    }
}

fn warning(code: &'static str, span: Span, message: String, hint: &str) -> Finding {
    Finding { diagnostic: Diagnostic::warning(code, span, message).hint(hint), text: String::new() }
}

/// The conditions that never or always hold where those around them do.
pub(super) fn of_conditions(
    definition: &Definition,
    meaning: &Meaning<'_>,
    known: &[Finding],
) -> Vec<Finding> {
    let mut checker = Checker { meaning, known, found: Vec::new() };
    let matcher = (&definition.matcher.when, "`match.when` does");
    checker.condition(matcher.0.as_ref(), &[], true);
    for warning in definition.warnings.iter().chain(&definition.refusals) {
        checker.condition(Some(&warning.when), &[matcher], true);
    }
    for rule in &definition.rules {
        let own = (&rule.when, "`when` of the rule does");
        checker.condition(rule.when.as_ref(), &[matcher], true);
        checker.condition(rule.containers.as_ref(), &[matcher, own], false);
        checker.host_network(rule);
    }
    for settings in &definition.settings {
        let own = (&settings.when, "`when` of the settings does");
        checker.condition(settings.when.as_ref(), &[matcher], true);
        checker.condition(settings.containers.as_ref(), &[matcher, own], false);
    }
    checker.found
}

struct Checker<'c, 'd> {
    meaning: &'c Meaning<'d>,
    known: &'c [Finding],
    found: Vec<Finding>,
}

/// A condition around another one, and where it holds.
type Outer<'o> = (&'o Option<Interpolation>, &'static str);

impl Checker<'_, '_> {
    fn condition(&mut self, condition: Option<&Interpolation>, around: &[Outer<'_>], of_pod: bool) {
        let Some(text @ Interpolation::Expression(expression)) = condition else { return };
        if is_known(self.known, expression.source()) || expression.names().is_empty() {
            return;
        }
        let formula = self.meaning.formula(condition);
        let facts = &self.meaning.facts;
        let hint = "compare with a value that occurs, or remove what depends on it";
        if let Some(reason) = contradiction(&[facts, &formula]) {
            self.found.push(excluded(&reason, expression.source(), text.span(), "", hint));
            return;
        }
        let negated = formula.clone().negated();
        if of_pod && contradiction(&[facts, &negated]).is_some() {
            let message = format!("`{}` always holds", expression.source());
            let hint = "leave it out, or compare with a value that makes a difference";
            self.found.push(warning(ALWAYS_TRUE, text.span(), message, hint));
            return;
        }
        for (outer, place) in around {
            let outer = self.meaning.formula(outer.as_ref());
            if contradiction(&[facts, &outer]).is_some() {
                continue;
            }
            if let Some(reason) = contradiction(&[facts, &outer, &formula]) {
                let together = format!(" where {place}");
                self.found.push(excluded(&reason, expression.source(), text.span(), &together, hint));
                return;
            }
            if of_pod && contradiction(&[facts, &outer, &negated]).is_some() {
                let message = format!("`{}` always holds where {place}", expression.source());
                self.found.push(warning(ALWAYS_TRUE, text.span(), message, "leave it out"));
                return;
            }
        }
    }

    /// A rule that needs the network of the pod, for pods that do not have one.
    fn host_network(&mut self, rule: &Rule) {
        let Some(text @ Interpolation::Expression(expression)) = &rule.when else { return };
        if !rule.requires_pod_network || !expression.names().contains("hostNetwork") {
            return;
        }
        let formula = self.meaning.formula(rule.when.as_ref());
        let Some(host_network) = host_network_of(&formula) else { return };
        if contradiction(&[&host_network.negated(), &formula]).is_some() {
            let message = format!(
                "`{}` holds for hostNetwork pods only, which rule `{}` leaves out by `requiresPodNetwork`",
                expression.source(),
                rule.name
            );
            let hint = "write `!hostNetwork`, or remove `requiresPodNetwork`";
            self.found.push(warning(ALWAYS_FALSE, text.span(), message, hint));
        }
    }
}

/// The test of `hostNetwork` in a condition, as one that has to hold.
fn host_network_of(formula: &Formula) -> Option<Formula> {
    match formula {
        Formula::Constant(_) => None,
        Formula::Test(test) if test.term == "hostNetwork" => {
            let test = (**test).clone();
            Some(Formula::Test(Box::new(if test.negated { test.opposite() } else { test })))
        }
        Formula::Test(_) => None,
        Formula::All(parts) | Formula::Any(parts) => parts.iter().find_map(host_network_of),
    }
}
