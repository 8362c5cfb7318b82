//! The policy language: from the text of a file to rules that the engine applies.

pub mod check;
pub(crate) mod compiled;
pub(crate) mod definition;
pub(crate) mod expression;
pub(crate) mod file;
pub(crate) mod from_nodes;
pub(crate) mod interpolation;
pub(crate) mod keys;
pub(crate) mod matcher;
pub(crate) mod overlay;
pub(crate) mod parameter;
pub mod source;

pub use compiled::Policy;
pub(crate) use compiled::{Condition, Devices, ResolvedPolicy, choice_reads_writes};
pub(crate) use definition::{About, Containers, PolicyCheck, Rule, VALUE};
pub use definition::{Definition, OnConflict};
pub use file::{OtherKind, PolicyFile, composed_text, definitions};
pub(crate) use file::{composed, untaken};
pub use interpolation::Fault;
pub(crate) use keys::KIND;
pub(crate) use matcher::{ANY_VALUE, Matcher, group_of, kind_and_group};
pub use matcher::{PodContext, SelectedLabel};
pub(crate) use overlay::NETWORKS;
pub(crate) use parameter::{NoteKind, Origin, Resolution, Variable, resolve};
pub use parameter::{Override, OverrideTable, Parameter, ParameterType};
pub use source::reader::is_policy_name;
pub use source::{Diagnostic, ERRORS, Severity, SourceError, SourceErrors, SourceFile, WARNINGS};
