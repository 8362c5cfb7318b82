//! What is wrong with a policy, or probably not as its author means it, found without a pod.
//!
//! Errors are about types: no pod and no value of a parameter makes them right, so that the policy does not load. A
//! warning is about what is legal and has no effect, or another one than it seems to have.

mod conditions;
mod overlap;
mod overlays;
mod scope;
mod types;
mod unused;

use super::definition::Definition;
use super::diagnostic::{Diagnostic, Severity, SourceError};
use crate::core::yaml::Span;

use scope::Scope;

pub use overlap::overlaps;

/// The first error in the types of a policy's expressions.
pub(crate) fn first_error(definition: &Definition) -> Option<SourceError> {
    let scope = Scope::of(definition);
    let mut found = types::findings(definition, &scope);
    found.retain(|finding| finding.diagnostic.severity == Severity::Error);
    found.into_iter().next().map(|finding| finding.located(definition))
}

/// The errors and warnings of a policy. Those about a policy that it extends are left out: they are that policy's.
pub fn findings(definition: &Definition) -> Vec<SourceError> {
    let scope = Scope::of(definition);
    let mut found = types::findings(definition, &scope);
    found.extend(conditions::findings(definition, &scope, &found));
    found.extend(unused::findings(definition));
    found.extend(overlays::findings(definition));
    let located = found.into_iter().map(|finding| finding.located(definition));
    let own = |finding: &SourceError| {
        finding.diagnostic.severity == Severity::Error || *finding.file == *definition.file
    };
    located.filter(own).collect()
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

    fn located(self, definition: &Definition) -> SourceError {
        if self.diagnostic.span.line > 0 {
            return definition.error(self.diagnostic);
        }
        definition.error_at(self.diagnostic, &[&self.text])
    }
}

#[cfg(test)]
mod tests;
