//! Mistakes in a policy that can be found without a pod: errors, and text that probably does not do what its author
//! means.
//!
//! An error is about a field that no pod has, so the policy does not load. A warning is about something valid that has
//! no effect, or a different effect than it seems to have.

mod expressions;
mod overlap;
mod unused;
mod values;

use crate::definition::{Definition, Rule};
use crate::overlay::{Addition, ContainerName, Write};
use crate::source::{Severity, SourceError};

pub use overlap::overlaps;
pub(super) use values::resource_names::WELL_KNOWN;

/// The errors in a policy's expressions.
pub fn errors(definition: &Definition) -> Vec<SourceError> {
    let mut found = expressions::findings(definition);
    found.extend(values::environment::findings(definition));
    let errors = found.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| definition.error(finding)).collect()
}

/// The warnings about a policy, also those in the files that it extends.
pub fn warnings(definition: &Definition) -> Vec<SourceError> {
    let mut found = expressions::findings(definition);
    found.extend(values::literals::findings(definition));
    found.extend(unused::findings(definition));
    found.extend(values::overlays::findings(definition));
    found.extend(values::amounts::findings(definition));
    found.extend(values::environment::findings(definition));
    found.extend(values::tables::findings(definition));
    found.extend(values::resource_names::findings(definition));
    found.extend(values::volumes::findings(definition));
    let warnings = found.into_iter().filter(|finding| finding.severity == Severity::Warning);
    warnings.map(|finding| definition.error(finding)).collect()
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
