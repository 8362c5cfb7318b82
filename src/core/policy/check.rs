//! Mistakes in a policy that need no pod to be found: what is wrong, and what is probably not as its author means it.
//!
//! Errors are about types: no pod and no value of a parameter makes them right, so that the policy does not load. A
//! warning is about what is legal and has no effect, or another one than it seems to have.

mod amounts;
mod conditions;
mod environment;
mod literals;
mod names;
mod networks;
mod overlap;
mod overlays;
mod samples;
mod scope;
mod shadowed;
mod tables;
mod terms;
mod trials;
mod types;
mod unused;
mod volumes;

use super::definition::{Definition, Rule};
use super::diagnostic::Severity;
use super::place::Placed;
use super::source_error::SourceError;

use samples::Samples;
use scope::Scope;

pub(super) use names::is_slip;
pub use overlap::overlaps;

/// The errors in the types of a policy's expressions.
pub fn errors(definition: &Definition) -> Vec<SourceError> {
    let found = types::findings(definition, &Scope::of(definition));
    let errors = found.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| definition.error(finding)).collect()
}

/// The warnings about a policy. Those about a policy that it extends are left out: they are that policy's.
pub fn warnings(definition: &Definition) -> Vec<SourceError> {
    let scope = Scope::of(definition);
    let samples = Samples::of(definition);
    let mut found = types::findings(definition, &scope);
    found.extend(literals::findings(definition));
    found.extend(conditions::findings(definition, &samples, &found));
    found.extend(unused::findings(definition));
    found.extend(overlays::findings(definition));
    found.extend(networks::findings(definition));
    found.extend(amounts::findings(definition));
    found.extend(environment::findings(definition, &samples));
    found.extend(tables::findings(definition));
    found.extend(names::findings(definition));
    found.extend(volumes::findings(definition, &samples));
    found.extend(shadowed::findings(definition, &scope, &samples));
    let warnings = found
        .into_iter()
        .filter(|finding| finding.severity == Severity::Warning && !definition.is_of_base(finding.span));
    warnings.map(|finding| definition.error(finding)).collect()
}

/// Every write of the rules, except for claims and volumes.
fn writes(definition: &Definition) -> impl Iterator<Item = Placed<'_>> {
    definition.rules.iter().flat_map(Rule::writes)
}

#[cfg(test)]
mod tests;
