//! The documents of a manifest: finds their pod templates and injects them.

mod document;
mod inline;
mod templates;

pub(crate) use document::is_bad_input;
pub use document::{
    Document, DocumentError, InjectedDocument, Note, RawDocument, Syntax, Template, TriggerAnnotation,
    Wanted, inject,
};
pub use templates::{Found, find};
