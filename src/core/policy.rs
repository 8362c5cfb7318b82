//! The policy language: from the text of a file to rules that the engine applies.

mod active;
mod compiled;
mod definition;
pub mod diagnostic;
pub(crate) mod expression;
mod extension;
mod feedback;
mod file;
pub(crate) mod interpolation;
pub(crate) mod matcher;
pub(crate) mod overlay;
mod parameter;
mod parse;
pub(crate) mod phase;
mod reader;
mod resolved;

pub(crate) use active::ActiveRule;
pub use compiled::Policy;
pub use definition::{Definition, OnConflict};
pub use diagnostic::{Diagnostic, SourceError};
pub(crate) use feedback::Feedback;
pub use file::{PolicyFile, SourceFile, definitions};
pub use matcher::PodContext;
pub(crate) use matcher::{ANY_VALUE, Matcher, group_of, kind_and_group};
pub(crate) use parameter::plain as parameter_text;
pub use parameter::{Parameter, ParameterType};
pub(crate) use resolved::{Condition, NoteKind, ResolvedPolicy};
