//! The documents of a manifest: finds their pod templates and injects them.

mod document;
mod injected;
mod inline;
mod read;
mod templates;

pub use document::inject;
pub(crate) use document::is_bad_input;
pub use injected::{InjectedDocument, Note, Template, TriggerAnnotation, Wanted};
pub use read::{Document, DocumentError, EditedDocument, RawDocument, Syntax};
pub use templates::{Found, find};
