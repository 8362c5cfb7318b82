//! The documents of a manifest: finds their pod templates and injects them.

mod document;
mod injected;
mod inline;
mod list;
mod read;
mod templates;

pub use document::is_bad_input;
pub use document::{inject, inject_item};
pub use injected::{InjectedDocument, Template, TriggerAnnotation, Wanted};
pub use list::List;
pub use read::{Document, DocumentError, EditedDocument, RawDocument, Syntax};
pub use templates::{Found, find, find_in_item};
