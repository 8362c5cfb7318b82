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
mod places;
mod samples;
mod scope;
mod shadowed;
mod tables;
mod terms;
mod types;
mod unused;
mod volumes;

use super::definition::Definition;
use super::diagnostic::{Diagnostic, Severity};
use super::source_error::SourceError;
use super::source_file::SourceFile;
use crate::core::yaml::Span;

use samples::Samples;
use scope::Scope;

pub(super) use names::is_slip;
pub use overlap::overlaps;

/// The errors in the types of a policy's expressions.
pub fn errors(definition: &Definition) -> Vec<SourceError> {
    let scope = Scope::of(definition);
    let mut found = types::findings(definition, &scope);
    found.retain(|finding| finding.diagnostic.severity == Severity::Error);
    found.into_iter().map(|finding| finding.located(definition)).collect()
}

/// The warnings about a policy. Those about a policy that it extends are left out: they are that policy's.
pub fn warnings(definition: &Definition) -> Vec<SourceError> {
    let scope = Scope::of(definition);
    let samples = Samples::of(definition);
    let mut found = types::findings(definition, &scope);
    found.extend(literals::findings(definition, &samples));
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
    found.retain(|finding| finding.diagnostic.severity == Severity::Warning);
    let located = found.into_iter().map(|finding| finding.located(definition));
    located.filter(|finding| *finding.file == *definition.file).collect()
}

/// A [`Diagnostic`], and the text that it is about.
#[derive(Debug)]
struct Finding {
    /// Without a place if it is not about an expression.
    diagnostic: Diagnostic,
    /// The source of an expression, or another text of the policy.
    text: String,
}

impl Finding {
    fn warning(code: &'static str, text: &str, message: String, hint: &str) -> Self {
        let diagnostic = Diagnostic::warning(code, Span::default(), message).hint(hint);
        Self { diagnostic, text: text.to_owned() }
    }

    /// A finding at a place of the policy's own file.
    fn placed(mut diagnostic: Diagnostic, definition: &Definition) -> Self {
        // The lines of a policy count on from those of its bases.
        diagnostic.span.line += definition.bases.iter().map(SourceFile::lines).sum::<usize>();
        Self { diagnostic, text: String::new() }
    }

    fn located(self, definition: &Definition) -> SourceError {
        if self.diagnostic.span.line > 0 {
            return definition.error(self.diagnostic);
        }
        definition.error_at(self.diagnostic, &[&self.text])
    }
}

#[cfg(test)]
mod tests;
