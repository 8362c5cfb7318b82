//! Manifests: cutting a stream into documents, finding the pod templates in each, and serving them.
//!
//! Pure but for [`stream`], which reads from whatever `Read` it is given.

mod document;
pub mod stream;
mod templates;

pub(crate) use document::is_bad_input;
pub use document::{Document, DocumentError, Served, Syntax, Template, Wanted, serve};
pub use templates::{Found, find};
