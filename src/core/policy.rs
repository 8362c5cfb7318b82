//! The policy language: from the text of a file to rules that the engine applies.

mod active;
mod compiled;
mod definition;
mod device_names;
mod devices;
pub mod diagnostic;
pub(crate) mod expression;
mod feedback;
pub(crate) mod interpolation;
pub(crate) mod matcher;
pub(crate) mod overlay;
mod own_names;
mod parameter;
mod parse;
pub(crate) mod phase;
mod reader;
mod resolved;
pub(crate) mod settings;
mod variable;

pub(crate) use active::{ActiveRule, ActiveWarning};
pub use compiled::Policy;
pub(crate) use definition::About;
pub use definition::{Definition, OnConflict};
pub(crate) use device_names::ClaimedGpus;
pub(crate) use devices::Devices;
pub use diagnostic::{Diagnostic, SourceError};
pub(crate) use feedback::Feedback;
pub(crate) use matcher::Matcher;
pub use matcher::PodContext;
pub(crate) use own_names::NETWORKS;
pub(crate) use parameter::plain as parameter_text;
pub use parameter::{Parameter, ParameterType};
pub(crate) use parse::VALUE;
pub(crate) use resolved::{NoteKind, ResolvedPolicy};
pub(crate) use variable::Variable;
