//! An error or a warning, with its position.

mod codes;

use fabric_yaml::{self as yaml, Span};

use super::suggestion::{closest, suggest};
pub use codes::*;

/// The effect of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The policy is valid, but probably does not do what its author intends.
    Warning,
    /// The policy does not load.
    Error,
}

/// An error or a warning about a file: message, position and remedy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// A stable identifier, in snake case.
    pub code: &'static str,
    pub severity: Severity,
    /// The error, with the value that was found.
    pub message: String,
    /// The position; the start of the file for an error about the whole of it.
    pub span: Span,
    /// The remedy, where the message does not imply it.
    pub hint: Option<String>,
    /// True if the hint is the name that the author most probably means.
    pub is_misspelling: bool,
}

impl Diagnostic {
    /// An error without a code of its own.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            code: INVALID_VALUE,
            severity: Severity::Error,
            message: message.into(),
            span,
            hint: None,
            is_misspelling: false,
        }
    }

    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code, ..Self::new(span, message) }
    }

    /// A warning, which does not keep the policy from loading.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, ..Self::new(span, message) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        (self.hint, self.is_misspelling) = (Some(hint.into()), false);
        self
    }

    /// With a hint at the name that is most probably meant, or at all known names.
    #[must_use]
    pub fn suggest<'a>(self, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        let is_misspelling = closest(name, known.clone()).is_some();
        Self { is_misspelling, ..self.hint(suggest(name, known)) }
    }
}

impl From<yaml::Error> for Diagnostic {
    fn from(error: yaml::Error) -> Self {
        Self::error(YAML_SYNTAX, error.span, error.explained(0))
    }
}
