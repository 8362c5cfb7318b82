//! The policy language: from the text of a file to rules that the engine applies.

mod active;
mod compiled;
mod definition;
pub mod diagnostic;
pub(crate) mod expression;
mod feedback;
pub(crate) mod interpolation;
mod known_nodes;
pub(crate) mod matcher;
pub(crate) mod node;
pub(crate) mod overlay;
mod parameter;
mod parse;
pub(crate) mod phase;
mod reader;
mod resolved;
mod setting;
mod table;

pub(crate) use active::ActiveRule;
pub use compiled::Policy;
pub use definition::{Definition, OnConflict};
pub use diagnostic::{Diagnostic, SourceError};
pub(crate) use feedback::Feedback;
pub(crate) use matcher::Matcher;
pub use matcher::PodContext;
pub use node::SelectedLabel;
pub(crate) use parameter::plain as parameter_text;
pub use parameter::{Parameter, ParameterType};
pub(crate) use resolved::{NoteKind, ResolvedPolicy};
pub use setting::{Setting, SettingTable};
