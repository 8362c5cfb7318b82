//! The policy language: from the text of a policy file to rules that the engine applies, and the fields of a Pod.
//!
//! | to change | look at |
//! |---|---|
//! | the keys of a file, and how it is read | [`keys`], `file`, `source` |
//! | CEL, and strings with `${…}` | [`expression`], [`interpolation`] |
//! | `match`, and the labels of nodes | [`matcher`] |
//! | parameters, machine tables, and where a value comes from | [`parameter`], `policy` |
//! | the pieces of a Pod in a rule | [`overlay`] |
//! | which fields of a Pod exist, and which of them a rule can set | [`schema`] |
//! | the warnings of `policy check` | [`check`] |
//! | the nodes of a cluster as data, and which of them a pod fits | [`nodes`] |
//! | the device classes of claims | [`claims`] |
//! | which devices a class has, and what nodes offer of it | [`device_classes`] |
//! | the objects that pods name, and which of them exist | [`objects`], `facts/objects.yaml` |
//! | the names that a misspelled one is compared with | `known_names`, `facts/names.yaml` |
//! | the limit on the work for a pod or a file, and results that pods share | [`work`], [`cache`] |
//!
//! `file` reads what a file says, and [`definition`] is what it says. `policy` is what that means with values. [`overlay`]
//! is a piece of a Pod in each of these states.
//!
//! The states of a policy:
//!
//! | state | what it is | made when |
//! |---|---|---|
//! | [`PolicyFile`] | the text of a file | a file is read |
//! | [`Definition`] | a file and those that it extends, read and checked; rules are trees as their authors wrote them | policies are loaded |
//! | [`Policy`] | a definition with the operator's values | policies are loaded |
//! | [`EvaluatedPolicy`] | its rules and checks with the values for one kind of node; what is left depends on the pod | policies are loaded; for rare nodes, a pod comes |
//! | [`ResolvedPolicy`] | the same, with where each value comes from | as above |
//!
//! The words of the code:
//!
//! | word | what it means |
//! |---|---|
//! | extension, base, part | files of a policy: one extends another policy, its base, and can take parts, which are no policies |
//! | addition, section | what a rule adds, and where: to the selected containers, a named one, claims, volumes, or the pod |
//! | subject, place | what a value is a value of, and its fields and name there. A value belongs to the rule furthest out |
//! | to resolve | to choose the source of the value of a parameter, for nodes |
//! | to evaluate | to replace expressions by their values |
//! | to leave out | to add nothing, because a value is `null` or belongs to another rule |
//! | to keep | to leave a value of the pod as it is |
//!
//! This crate contains no knowledge of a provider, changes no pod, and does not depend on the engine. It reads no files.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests may measure"))]

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

pub mod cache;
pub mod check;
pub mod claims;
pub mod definition;
pub mod device_classes;
pub mod expression;
pub(crate) mod file;
pub(crate) mod from_nodes;
pub mod interpolation;
pub mod keys;
pub(crate) mod known_names;
pub mod matcher;
pub mod nodes;
pub mod objects;
pub mod overlay;
pub mod parameter;
pub(crate) mod policy;
pub mod schema;
pub mod source;
pub mod work;

pub use definition::{About, Containers, Definition, Effect, OnConflict, PolicyCheck, Rule};
pub use file::{
    Extendable, OtherKind, PolicyFile, composed, composed_text, definitions, untaken, wrong_value,
};
pub use interpolation::Fault;
pub use keys::KIND;
pub use matcher::{Matcher, PodContext, SelectedLabel, group_of, kind_and_group};
pub use overlay::NETWORKS;
pub use parameter::{NoteKind, Origin, Override, Overrides, Parameter, ParameterType, Resolution, Variable};
pub use policy::{
    Condition, Devices, EvaluatedPolicies, EvaluatedPolicy, Policy, ResolvedPolicy, choice_reads_writes,
    evaluated_policies,
};
pub use source::reader::is_policy_name;
pub use source::{Diagnostic, ERRORS, Severity, SourceError, SourceErrors, SourceFile, WARNINGS};
