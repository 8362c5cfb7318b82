//! Manifests: the pod templates in a document, and their injection.

mod document;
mod templates;

pub(crate) use document::is_bad_input;
pub use document::{Document, DocumentError, RawDocument, Served, Syntax, Template, Wanted, serve};
pub use templates::{Found, find};
