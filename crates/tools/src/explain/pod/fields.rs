//! The outcome for each value of the policy, as the engine recorded it.

use serde::Serialize;
use serde_json::Value;

use fabric_engine::{Author, FieldOutcome, FieldState, Mutated, Mutation, Operation, Outcome, Trace};
use fabric_yaml::pointer::{at_pointer, field_path};

/// A value that the policy gives a field, and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldFact {
    /// The path in the pod, as in reports.
    pub path: String,
    /// The JSON Pointer from the pod's root.
    pub pointer: String,
    /// The value of the field in the result; none if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    pub state: FieldState,
    /// The reason for a state other than `added`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The part of the policy that has the value.
    pub by: Author,
}

/// The outcomes of an injection, in the order of the engine. A pod that stays as it came, or that is refused, has none.
pub(super) fn of_result(before: &Value, mutation: &Mutation, trace: &Trace) -> Vec<FieldFact> {
    let after = match &mutation.outcome {
        Outcome::Mutated(mutated) => &mutated.pod,
        Outcome::Unchanged { pod, reason } if reason.code() == "nothing_to_add" => pod,
        outcome => return outcome.changed().map(marked).unwrap_or_default(),
    };
    let fact = |outcome: &FieldOutcome| {
        let value = at_pointer(after, &outcome.pointer);
        let is_written = matches!(outcome.state, FieldState::Added | FieldState::Replaced);
        // Another rule may have reverted a change.
        if is_written && at_pointer(before, &outcome.pointer) == value {
            return None;
        }
        Some(FieldFact {
            path: field_path(after, &outcome.pointer),
            pointer: outcome.pointer.clone(),
            value: value.cloned(),
            state: outcome.state,
            because: outcome.because(after),
            by: outcome.author.clone(),
        })
    };
    trace.outcomes.iter().filter_map(fact).collect()
}

/// The annotations of a pod that is skipped.
fn marked(skipped: &Mutated) -> Vec<FieldFact> {
    let fact = |operation: Operation<'_>| FieldFact {
        path: field_path(&skipped.pod, operation.pointer),
        pointer: operation.pointer.to_owned(),
        value: operation.value.cloned(),
        state: if operation.op == "replace" { FieldState::Replaced } else { FieldState::Added },
        because: None,
        by: Author::Stamp,
    };
    skipped.operations().list.into_iter().map(fact).collect()
}
