//! The policy language: from the text of a file to something that can be evaluated.
//!
//! Text in, values out: nothing here reads a file, prints or knows the time.

mod compiled;
mod definition;
pub mod diagnostic;
pub(crate) mod expression;
pub(crate) mod matcher;
mod overlay;
mod parameter;
mod reader;
pub(crate) mod schema;
pub(crate) mod scope;
pub(crate) mod template;
pub(crate) mod text;
mod variant;

pub use compiled::Policy;
pub use definition::{Definition, OnConflict};
pub use diagnostic::{Diagnostic, SourceError};
pub(crate) use matcher::Matcher;
pub use matcher::Request;
pub(crate) use parameter::plain as parameter_text;
pub use parameter::{Parameter, ParameterType};
pub(crate) use variant::{ActiveRule, NoteKind, Variant};
