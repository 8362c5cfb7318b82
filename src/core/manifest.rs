//! The documents of a manifest: finds their pod templates and injects them.

mod document;
mod inline;
mod read;
mod templates;

pub(crate) use document::is_bad_input;
pub use document::{InjectedDocument, Note, Template, TriggerAnnotation, Wanted, inject};
pub use read::{Document, DocumentError, EditedDocument, RawDocument, Syntax};
pub use templates::{Found, find};
