//! Mistakes in a policy that can be found without a pod: errors, and text that probably does not do what its author
//! means.
//!
//! An error is about a field that no pod has, so the policy does not load. A warning is about something valid that has
//! no effect, or a different effect than it seems to have.

mod contradictions;
mod expressions;
mod overlap;
mod unused;
mod values;

use std::collections::HashSet;

use crate::definition::{Definition, Rule};
use crate::matcher::{PodContext, Selection};
use crate::overlay::{Addition, ContainerName, Write};
use crate::policy::Policy;
use crate::source::{Diagnostic, Severity, SourceError};

pub use overlap::overlaps;

/// The errors in a policy's expressions.
pub fn errors(definition: &Definition) -> Vec<SourceError> {
    let mut found = expressions::findings(definition);
    found.extend(values::environment::findings(definition));
    found.extend(contradictions::gpus_of_added(definition));
    let errors = found.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| definition.error(finding)).collect()
}

/// The warnings about a policy, also those in the files that it extends.
pub fn warnings(definition: &Definition) -> Vec<SourceError> {
    let mut found = expressions::findings(definition);
    found.extend(unused::findings(definition));
    found.extend(contradictions::findings(definition));
    found.extend(values::tables::findings(definition));
    found.extend(values::resource_names::findings(definition));
    found.extend(values::volumes::findings(definition));
    found.extend(values::overlays::findings(definition));
    found.extend(of_values(definition));
    let warnings = found.into_iter().filter(|finding| finding.severity == Severity::Warning);
    warnings.map(|finding| definition.error(finding)).collect()
}

/// What is odd about values of rules.
fn of_values(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = values::literals::findings(definition);
    found.extend(values::amounts::findings(definition));
    found.extend(values::environment::findings(definition));
    found
}

/// The warnings about the values that the rules of a policy have with its parameters, which have been written as
/// expressions: what a literal may not be, a parameter may not be either.
pub fn warnings_of_values(policy: &Policy) -> Vec<SourceError> {
    let definition = policy.definition();
    let Ok(resolved) = policy.resolved(&Selection::default(), &PodContext::default()) else {
        return Vec::new();
    };
    let valued = Definition { rules: resolved.evaluated.rules.clone(), ..definition.clone() };
    let known = of_values(definition);
    let place = |finding: &Diagnostic| (finding.code, finding.span.line);
    let (places, messages): (HashSet<_>, HashSet<&str>) =
        known.iter().map(|finding| (place(finding), finding.message.as_str())).unzip();
    let is_new = |finding: &Diagnostic| {
        !places.contains(&place(finding)) && !messages.contains(finding.message.as_str())
    };
    let found = of_values(&valued).into_iter().filter(is_new);
    found.map(|finding| definition.error(finding)).collect()
}

/// Every write of the rules.
fn writes(definition: &Definition) -> impl Iterator<Item = Write<'_>> {
    definition.rules.iter().flat_map(Rule::writes)
}

/// The containers that rules name.
fn named_containers(definition: &Definition) -> impl Iterator<Item = (&ContainerName, &Addition)> {
    let additions = definition.rules.iter().flat_map(|rule| &rule.additions);
    additions.filter_map(|addition| Some((addition.container_name()?, addition)))
}

#[cfg(test)]
mod tests;
