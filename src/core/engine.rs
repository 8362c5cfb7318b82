//! The mutation engine: a pod and policies in, a JSON Patch and a report out.
//!
//! Pure: no I/O, no clock, no logging. The command line and the webhook call the same function, [`mutate`].
//! The pod stays a [`serde_json::Value`] throughout, so fields that this version has never heard of survive,
//! and it is only ever added to (or, where a rule says so, a value is replaced).

mod codes;
mod container;
mod instance_type;
mod merge;
mod networks;
mod operations;
mod patch;
mod plan;
mod pod;
mod report;
mod resources;
mod scope;
mod security;
mod serve;
mod summary;
mod volumes;

use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

pub use operations::{Operation, Operations};
pub use report::{Kept, Reason, Warning, WarningKind};

pub(crate) use patch::{field_path, push_token};
pub(crate) use pod::is_extended;

use crate::core::policy::Request;
use crate::core::policy::matcher::Match;
use crate::core::policy_set::PolicySet;

/// The annotation that says which policy served a pod, and with which content: `<policy>@<12 hex digits>`.
pub const STAMP: &str = "fabric-injector.io/injected";

/// What became of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// What became of it.
    pub outcome: Outcome,
    /// The policy that is for the pod, if one is.
    pub policy: Option<String>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// The outcome for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The pod was served.
    Mutated(Mutated),
    /// The pod is as it came.
    Unchanged {
        /// The pod.
        pod: Value,
        /// Why.
        reason: Reason,
    },
    /// The pod must not be created.
    Refused {
        /// Why.
        reason: Reason,
    },
}

/// A pod that was served.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutated {
    /// The pod as it is now.
    pub pod: Value,
    /// The stamp that it carries.
    pub stamp: String,
    changes: patch::Changes,
}

impl Mutated {
    /// What brings the pod as it came to what it is now. Finding the values takes a while, so whoever needs the
    /// operations more than once keeps them.
    pub fn operations(&self) -> Operations<'_> {
        let found = self.changes.operations().filter_map(|operation| {
            let value = patch::at_pointer(&self.pod, operation.pointer)?;
            Some(Operation { pointer: operation.pointer, replaces: operation.replaces, value })
        });
        Operations { pod: &self.pod, list: found.collect() }
    }

    /// How many operations there are.
    pub fn operation_count(&self) -> usize {
        self.changes.operations().count()
    }

    /// The JSON Patch (RFC 6902); paths from the pod's root.
    pub fn patch(&self) -> Patch {
        let operations = self.operations().list.into_iter().filter_map(|operation| {
            let (path, value) = (operation.pointer.parse().ok()?, operation.value.clone());
            Some(if operation.replaces {
                PatchOperation::Replace(ReplaceOperation { path, value })
            } else {
                PatchOperation::Add(AddOperation { path, value })
            })
        });
        Patch(operations.collect())
    }
}

/// How serving a pod ends early.
#[derive(Debug)]
enum Stop {
    /// Leave the pod as it came.
    Leave(Reason),
    /// Refuse it.
    Refuse(Reason),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Conflict { .. }
            | Reason::EvaluationFailed { .. }
            | Reason::SeveralPoliciesMatch { .. } => Self::Refuse(reason),
            _ => Self::Leave(reason),
        }
    }
}

/// Serves a pod by the one policy that is for it.
///
/// The result is the same for the same arguments, and serving the result again changes nothing.
pub fn mutate(policies: &PolicySet, mut pod: Value, request: &Request) -> Mutation {
    let policy = match select(policies, &pod, request) {
        Ok(policy) => policy,
        Err(Stop::Leave(reason)) => return ended(Outcome::Unchanged { pod, reason }, None),
        Err(Stop::Refuse(reason)) => return ended(Outcome::Refused { reason }, None),
    };
    let name = Some(policy.name().to_owned());
    let mut service = serve::Service::default();
    match service.serve(policy, &mut pod, request) {
        Ok(stamp) => {
            let warnings = service.finished_warnings(&pod);
            let outcome = Outcome::Mutated(Mutated { pod, stamp, changes: service.changes });
            Mutation { outcome, policy: name, warnings }
        }
        Err(Stop::Refuse(reason)) => {
            let reason = with_field_path(reason, &pod);
            ended(Outcome::Refused { reason }, name)
        }
        Err(Stop::Leave(reason)) => {
            let reason = with_field_path(reason, &pod);
            let warnings = service.finished_warnings(&pod);
            service.changes.undo(&mut pod);
            Mutation { outcome: Outcome::Unchanged { pod, reason }, policy: name, warnings }
        }
    }
}

fn ended(outcome: Outcome, policy: Option<String>) -> Mutation {
    Mutation { outcome, policy, warnings: Vec::new() }
}

/// The one policy for a pod.
fn select<'p>(
    policies: &'p PolicySet,
    pod: &Value,
    request: &Request,
) -> Result<&'p crate::core::policy::Policy, Stop> {
    let mut found: Vec<&crate::core::policy::Policy> = Vec::new();
    let mut near = None;
    for policy in policies.candidates(pod) {
        match policy.definition().matcher.test(pod, request) {
            Match::Yes => found.push(policy),
            Match::No => {}
            Match::OtherValue { key, seen, wanted } => {
                near = Some(Reason::TriggerValue { key, seen, wanted });
            }
            Match::Except { key, value } => near = Some(Reason::OptedOut { key, value }),
        }
    }
    if !found.is_empty() && pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Err(Stop::Leave(Reason::MirrorPod));
    }
    if !found.is_empty() && pod["spec"]["os"]["name"].as_str() == Some("windows") {
        return Err(Stop::Leave(Reason::WindowsPod));
    }
    match found.as_slice() {
        [] => Err(Stop::Leave(near.unwrap_or(Reason::NoPolicyMatches))),
        [policy] => Ok(policy),
        several => {
            let policies = several.iter().map(|policy| policy.name().to_owned()).collect();
            Err(Stop::Refuse(Reason::SeveralPoliciesMatch { policies }))
        }
    }
}

/// Field paths are kept as JSON Pointers while the pod changes, and written for people in the end.
fn with_field_path(reason: Reason, pod: &Value) -> Reason {
    let shown = |path: String| if path.starts_with('/') { field_path(pod, &path) } else { path };
    match reason {
        Reason::Conflict { rule, path, seen, wanted } => {
            Reason::Conflict { rule, path: shown(path), seen, wanted }
        }
        Reason::MalformedPod { path, wanted, seen } => {
            Reason::MalformedPod { path: shown(path), wanted, seen }
        }
        other => other,
    }
}
