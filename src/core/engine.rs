//! The mutation engine: a pod and a policy in, a JSON Patch and a report out.
//!
//! The pod is a [`serde_json::Value`] throughout, so that fields which this version does not know are kept. The engine
//! adds to it, and replaces a value only where a rule says so.
//!
//! [`inject`] evaluates the rules in passes. A pass merges the instructions of each rule through a cursor, which owns
//! the position in the pod and the change log; patch, report and stamp are read off that log.

mod annotations;
mod bindings;
mod claims;
mod codes;
mod command_line;
mod condition;
mod context;
mod cursor;
mod env;
mod fields;
mod inject;
mod list_in_string;
mod log;
mod merge;
mod mounts;
mod multus;
mod named_container;
mod node;
mod object_list;
mod operations;
mod own_fabric;
mod pass;
mod pod;
mod replace;
mod report;
mod resources;
mod scopes;
mod security;
mod settings;
mod stamp;
mod summary;
mod trace;
mod user;
mod volumes;
mod warnings;

use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

pub(crate) use condition::condition_holds;
pub(crate) use node::selected as selected_nodes;
pub use operations::{Operation, Operations};
pub use report::{Kept, Reason, Warning, WarningKind};
pub(crate) use scopes::{Scope, each_scope};
pub(crate) use stamp::skip;
pub use stamp::{SKIPPED, STAMP};
pub(crate) use trace::{Applied, Author, Trace};

use crate::core::policy::{PodContext, Policy};

use crate::core::pointer::{at_pointer, field_path};
use log::{ChangeLog, Changes};

/// The result for one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    pub outcome: Outcome,
    /// The policy that matches the pod.
    pub policy: Option<String>,
    /// Facts about the pod that its author should know.
    pub warnings: Vec<Warning>,
}

/// The outcome for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The pod was injected.
    Mutated(Mutated),
    /// The pod is left alone on purpose. It has the annotation [`SKIPPED`] and no other change.
    Skipped { marked: Mutated, reason: Reason },
    /// The pod is unchanged.
    Unchanged { pod: Value, reason: Reason },
    /// The pod must not be created.
    Refused { reason: Reason },
}

impl Outcome {
    /// The pod with its changes; none if there are none.
    pub fn changed(&self) -> Option<&Mutated> {
        match self {
            Self::Mutated(mutated) | Self::Skipped { marked: mutated, .. } => Some(mutated),
            Self::Unchanged { .. } | Self::Refused { .. } => None,
        }
    }
}

/// A pod that was injected or skipped.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutated {
    /// The pod as it is now.
    pub pod: Value,
    /// The stamp that it carries.
    pub stamp: String,
    /// True if an expression had another value after the policy changed the pod, so that another pass was necessary.
    pub(crate) reads_own_changes: bool,
    changes: Changes,
}

impl Mutated {
    /// The operations that change the pod as it came into the pod as it is now. They are computed at each call.
    pub fn operations(&self) -> Operations<'_> {
        let found = self.changes.iter().map(|(pointer, replaces)| Operation {
            pointer,
            replaces,
            value: at_pointer(&self.pod, pointer),
        });
        Operations { pod: &self.pod, list: found.collect() }
    }

    /// The number of operations.
    pub fn operation_count(&self) -> usize {
        self.changes.len()
    }

    /// The JSON Patch (RFC 6902); paths from the pod's root.
    pub fn patch(&self) -> Patch {
        let operations = self.operations().list.into_iter().filter_map(|operation| {
            let path = operation.pointer.parse().ok()?;
            Some(match operation.value.cloned() {
                None => PatchOperation::Remove(RemoveOperation { path }),
                Some(value) if operation.replaces => {
                    PatchOperation::Replace(ReplaceOperation { path, value })
                }
                Some(value) => PatchOperation::Add(AddOperation { path, value }),
            })
        });
        Patch(operations.collect())
    }
}

/// The early end of an injection.
#[derive(Debug)]
enum Stop {
    /// The pod stays as it came.
    Leave(Reason),
    /// The pod gets the annotation [`SKIPPED`] with this content.
    Skip { mark: String, reason: Reason },
    /// The pod is refused.
    Refuse(Reason),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Conflict { .. }
            | Reason::EvaluationFailed { .. }
            | Reason::NotIdempotent { .. }
            | Reason::Policy { .. }
            | Reason::Stopped
            | Reason::SeveralPoliciesMatch { .. } => Self::Refuse(reason),
            _ => Self::Leave(reason),
        }
    }
}

/// Injects a pod by a policy that matches it.
///
/// The result is the same for the same arguments, and injecting the result again changes nothing.
pub fn inject(policy: &Policy, pod: Value, context: &PodContext) -> Mutation {
    inject_logged(policy, pod, context, &mut ChangeLog::default())
}

/// [`inject`] with a record of the rules that applied and of what each of them wrote.
pub(crate) fn inject_traced(policy: &Policy, pod: Value, context: &PodContext) -> (Mutation, Trace) {
    let mut log = ChangeLog::default();
    log.trace = Some(Box::default());
    let mutation = inject_logged(policy, pod, context, &mut log);
    (mutation, log.trace.map(|trace| *trace).unwrap_or_default())
}

fn inject_logged(policy: &Policy, mut pod: Value, context: &PodContext, log: &mut ChangeLog) -> Mutation {
    let name = Some(policy.name().to_owned());
    match inject::inject(policy, &mut pod, context, log) {
        Ok(stamp) => {
            let reads_own_changes = log.feedback;
            let (changes, warnings) = log.finish();
            let mut warnings = with_field_paths(warnings::reconciled(warnings), &pod);
            stamp::name_kept_values(&mut warnings);
            let mutated = Mutated { pod, stamp, reads_own_changes, changes };
            Mutation { outcome: Outcome::Mutated(mutated), policy: name, warnings }
        }
        Err(Stop::Refuse(reason)) => {
            let reason = reason.with_field_path(&pod);
            Mutation { outcome: Outcome::Refused { reason }, policy: name, warnings: Vec::new() }
        }
        Err(Stop::Skip { mark, reason }) => {
            let warnings = with_field_paths(std::mem::take(&mut log.warnings), &pod);
            log.undo(&mut pod);
            skip(pod, mark, reason, name, warnings)
        }
        Err(Stop::Leave(reason)) => {
            let reason = reason.with_field_path(&pod);
            let warnings = with_field_paths(std::mem::take(&mut log.warnings), &pod);
            log.undo(&mut pod);
            Mutation { outcome: Outcome::Unchanged { pod, reason }, policy: name, warnings }
        }
    }
}

/// Warnings have JSON Pointers while the pod changes; this gives them field paths.
fn with_field_paths(mut warnings: Vec<Warning>, pod: &Value) -> Vec<Warning> {
    for warning in &mut warnings {
        if warning.path.starts_with('/') {
            warning.path = field_path(pod, &warning.path);
        }
    }
    warnings.dedup();
    warnings
}
