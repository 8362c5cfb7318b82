//! The result for one pod, and the operations of its patch.

use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use serde::Serialize;
use serde_json::Value;

use fabric_yaml::pointer::at_pointer;

use super::log::Changes;
use super::report::{Reason, Warning};
use super::summary::summarize;

/// The annotation with the codes of the warnings that leave a pod on TCP all the same, the latest last: a later review of
/// the pod counts only what is new.
pub const WITHOUT_FABRIC: &str = "fabric-injector.io/without-fabric";

/// The codes in [`WITHOUT_FABRIC`].
pub(super) fn recorded_ways(pod: &Value) -> impl Iterator<Item = &str> {
    let recorded = pod["metadata"]["annotations"][WITHOUT_FABRIC].as_str();
    recorded.into_iter().flat_map(|codes| codes.split(','))
}

/// The JSON Pointer of that annotation.
const WAYS_POINTER: &str = "/metadata/annotations/fabric-injector.io~1without-fabric";

/// The result for one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    pub outcome: Outcome,
    /// The policy that matches the pod.
    pub policy: Option<String>,
    /// Facts about the pod that its author should know.
    pub warnings: Vec<Warning>,
}

impl Mutation {
    /// A result without warnings.
    pub(crate) fn new(outcome: Outcome, policy: Option<String>) -> Self {
        Self { outcome, policy, warnings: Vec::new() }
    }

    /// Returns whether the pod requests the fabric: a policy is for it, also if it adds nothing or refuses the pod.
    pub fn requests_fabric(&self) -> bool {
        let Outcome::Unchanged { reason, .. } = &self.outcome else { return true };
        !(reason.is_unmatched() || matches!(reason, Reason::OptedOut { .. } | Reason::TriggerValue { .. }))
    }

    /// The code that says why a pod requests the fabric and does not get it; `None` for other pods, for those without
    /// GPUs that are left alone, and for what an earlier review of the same pod has recorded.
    pub fn without_fabric(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Mutated(mutated) => recorded_ways(&mutated.pod)
                .last()
                .filter(|_| mutated.changes.iter().any(|(pointer, _)| WAYS_POINTER.starts_with(pointer))),
            Outcome::Unchanged { pod, reason: Reason::NothingToAdd } => {
                let mut ways = self.warnings.iter().filter(|warning| warning.leaves_tcp()).map(Warning::code);
                ways.find(|code| recorded_ways(pod).all(|known| known != *code))
            }
            Outcome::Skipped {
                reason: Reason::NoGpuContainer { other: None, unknown_claim: None, .. },
                ..
            } => None,
            Outcome::Unchanged { reason, .. } if !reason.is_unmet_request() => None,
            other => other.reason().map(Reason::code),
        }
    }
}

/// The outcome for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The pod was injected.
    Mutated(Mutated),
    /// The pod is skipped on purpose: it gets the annotation [`SKIPPED`](super::SKIPPED), and loses those of an earlier
    /// injection.
    Skipped { marked: Mutated, reason: Reason },
    /// The pod is unchanged.
    Unchanged { pod: Value, reason: Reason },
    /// The pod must not be created.
    Refused { reason: Reason },
}

impl Outcome {
    /// The stable name, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mutated(_) => "mutated",
            Self::Skipped { .. } => "skipped",
            Self::Unchanged { .. } => "unchanged",
            Self::Refused { .. } => "refused",
        }
    }

    /// The reason; none for a pod that was injected.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Mutated(_) => None,
            Self::Skipped { reason, .. } | Self::Unchanged { reason, .. } | Self::Refused { reason } => {
                Some(reason)
            }
        }
    }

    /// The pod as it is now; none for one that is refused.
    pub fn pod(&self) -> Option<&Value> {
        match self {
            Self::Unchanged { pod, .. } => Some(pod),
            other => other.changed().map(|changed| &changed.pod),
        }
    }

    /// The pod with its changes, of which there may be none; `None` for a pod that is unchanged or refused.
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
    pub(crate) changes: Changes,
}

impl Mutated {
    /// The operations that change the pod as it came into the pod as it is now. They are computed at each call.
    pub fn operations(&self) -> Vec<Operation<'_>> {
        let operations = self.changes.iter().map(|(pointer, replaces)| {
            let value = at_pointer(&self.pod, pointer);
            let op = if *replaces { "replace" } else { "add" };
            Operation { op: if value.is_none() { "remove" } else { op }, pointer, value }
        });
        operations.collect()
    }

    /// The JSON Patch as text, without copying the values first.
    pub fn patch_as_json(&self) -> Vec<u8> {
        // Serialising a `Value` into memory cannot fail.
        serde_json::to_vec(&self.operations()).unwrap_or_default()
    }

    /// The additions in words: one line for each container that was changed, and one for the pod.
    pub fn summary(&self) -> Vec<String> {
        summarize(&self.operations(), &self.pod)
    }

    /// The number of operations.
    pub fn operation_count(&self) -> usize {
        self.changes.len()
    }

    /// The JSON Patch (RFC 6902); paths from the pod's root.
    pub fn patch(&self) -> Patch {
        self.patch_at("")
    }

    /// The JSON Patch of a document that has the pod at a JSON Pointer.
    pub fn patch_at(&self, pointer: &str) -> Patch {
        let operation = |Operation { op, pointer: below, value }: Operation<'_>| {
            let path = format!("{pointer}{below}").parse().ok()?;
            Some(match value.cloned() {
                None => PatchOperation::Remove(RemoveOperation { path }),
                Some(value) if op == "replace" => PatchOperation::Replace(ReplaceOperation { path, value }),
                Some(value) => PatchOperation::Add(AddOperation { path, value }),
            })
        };
        Patch(self.operations().into_iter().filter_map(operation).collect())
    }
}

/// One operation of a JSON Patch (RFC 6902).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Operation<'a> {
    /// `add`, `replace` or `remove`.
    pub op: &'static str,
    /// JSON Pointer from the pod's root.
    #[serde(rename = "path")]
    pub pointer: &'a str,
    /// The value; none if it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a Value>,
}
