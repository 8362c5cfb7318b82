//! The reason why a text cannot be read.

use super::span::Span;

/// The reason why a text cannot be read, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} at line {}, column {}", self.explained(0), span.line, span.column)]
pub struct Error {
    /// The reason, without the position.
    pub message: String,
    /// The position of the first character that is wrong.
    pub span: Span,
    /// The line of the outermost brackets that are open there.
    pub(super) brackets: Option<usize>,
}

impl Error {
    pub fn new(message: impl Into<String>, span: Span) -> Self {
        Self { message: message.into(), span, brackets: None }
    }

    /// The reason, with the brackets that it is within. The text begins after so many lines of its file.
    pub fn explained(&self, lines: usize) -> String {
        let message = &self.message;
        match self.brackets {
            Some(line) => format!("{message}, within the brackets that begin on line {}", lines + line),
            None => message.clone(),
        }
    }
}
