//! The record of an injection: changes with the values before them, warnings, and the reason why a pod is left alone.
//! Patch, undoing and reports are read off it.
//!
//! Every change of the pod goes through a [`Cursor`], which records it.

mod codes;
mod cursor;
mod evaluated;
mod log;
mod outcome;
mod report;
mod stamp;
mod summary;
mod trace;

pub use codes::FINDINGS;
pub(crate) use codes::NOT_THERE_YET;
pub(super) use cursor::{
    Cursor, CursorOf, ListCursor, Place, add_container, change_annotations, malformed, shorten,
};
pub(super) use evaluated::add_reads;
pub use evaluated::{
    ConditionFact, ContainerCondition, ContainerGpus, EvaluatedCheck, EvaluatedRule, Read, ScopeOf,
    VariableIn,
};
pub(super) use log::{ChangeLog, Step};
pub use outcome::{Mutated, Mutation, Operation, Outcome, WITHOUT_FABRIC};
pub use report::{NodesLookedAt, OrReason, Reason, UnknownClaim, ValueKind, Warning, WarningKind, turns_on};
pub(super) use report::{evaluation_failed, reconciled, with_field_paths};
pub use stamp::{CLAIMS, NODES, PROVIDER, SKIPPED, STAMP, skip};
pub(super) use stamp::{MAX_ANNOTATIONS, record_annotation, record_ways, size_without, stamp};
pub use trace::{Author, FieldOutcome, FieldState, LookedAt, Resolved, Trace};
