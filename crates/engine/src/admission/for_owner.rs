//! Messages for the owner of a pod. The warnings in a response go to a controller, which drops them.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::NOT_THERE_YET;
use crate::{Mutation, Outcome, Reason, Warning, WarningKind};
use fabric_policy::objects::ObjectName;

use super::response::{MAX_MESSAGE, Mode, NOT_INJECTED, OnError, cut, would_be_denied};
use super::review::{self, AdmissionRequest};

/// The limit on warnings of one pod.
const MOST: usize = 8;
/// The length of a name or a uid, which comes from the author of the pod.
const MAX_NAME: usize = 253;

/// The message for the controller that owns a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForOwner {
    /// The reference to the owner, with its namespace.
    pub owner: Value,
    /// The code and the text of each warning.
    pub warnings: Vec<(String, String)>,
}

/// An object that an admitted pod names, and that the cluster does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    pub object: ObjectName,
    /// The warning about it.
    pub text: String,
    /// The reference to the owner of the pod, with its namespace.
    pub owner: Option<Value>,
}

impl Absent {
    /// Those that an injected pod names; none for a dry run, and in audit mode, whose pods stay as they are.
    pub(super) fn of<O>(
        request: &AdmissionRequest<O>,
        mutation: &Mutation,
        mode: Mode,
        owner: Option<&Value>,
    ) -> Vec<Self> {
        let is_admitted = !matches!(mutation.outcome, Outcome::Refused { .. });
        if !is_admitted || mode == Mode::Audit || request.dry_run == Some(true) {
            return Vec::new();
        }
        let absent = |warning: &Warning| match &warning.kind {
            WarningKind::NotThereYet { object, .. } => {
                Some(Self { object: object.clone(), text: warning.to_string(), owner: owner.cloned() })
            }
            _ => None,
        };
        mutation.warnings.iter().filter_map(absent).collect()
    }
}

/// The part of a pod that names its owners.
#[derive(Debug, Deserialize)]
struct Owned {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    owner_references: Value,
}

impl ForOwner {
    /// The pod was injected and needs action, or was admitted without the fabric.
    pub(super) fn new(
        owner: Option<Value>,
        mutation: &Mutation,
        mode: Mode,
        on_error: OnError,
    ) -> Option<Self> {
        let mut warnings = Vec::new();
        // An unchanged pod lacks the values that its warnings are about.
        let has_values = match mutation.outcome {
            Outcome::Mutated(_) => mode == Mode::Inject,
            Outcome::Skipped { .. } => true,
            // Another webhook has changed it after an earlier review, whose warnings it has as well.
            Outcome::Unchanged { reason: Reason::NothingToAdd, .. } => true,
            Outcome::Unchanged { .. } | Outcome::Refused { .. } => false,
        };
        if has_values {
            // Objects that are not there yet may follow.
            let is_repeated = matches!(mutation.outcome, Outcome::Unchanged { .. });
            let new = mutation.without_fabric();
            let asking = mutation.warnings.iter().filter(|warning| warning.asks_for_action());
            let asking = asking.filter(|warning| !is_repeated || Some(warning.code()) == new);
            let asking = asking.filter(|warning| warning.code() != NOT_THERE_YET);
            warnings.extend(asking.map(|warning| (warning.code().to_owned(), warning.to_string())));
        }
        warnings.truncate(MOST - 1);
        warnings.extend(let_through(&mutation.outcome, mode, on_error));
        let cut = |(code, text)| (code, cut(text, MAX_MESSAGE));
        let warnings: Vec<_> = warnings.into_iter().map(cut).collect();
        owner.filter(|_| !warnings.is_empty()).map(|owner| Self { owner, warnings })
    }

    /// The message about objects that are still absent; none for pods without an owner.
    pub fn of_absent(absent: &[&Absent]) -> Option<Self> {
        let texts: Vec<&str> = absent.iter().map(|absent| absent.text.as_str()).collect();
        let warnings = vec![(NOT_THERE_YET.to_owned(), cut(texts.join("; "), MAX_MESSAGE))];
        absent.first()?.owner.clone().map(|owner| Self { owner, warnings })
    }

    /// The message about a pod that was admitted although this program failed on it.
    pub(super) fn failed(owner: Option<Value>, code: &str, why: &str) -> Option<Self> {
        owner.map(|owner| Self { owner, warnings: vec![not_injected(code, why)] })
    }
}

/// The code and the text for a pod that requests the fabric and starts without it. The API server reports a refusal to
/// the controller, which writes an Event of its own.
fn let_through(outcome: &Outcome, mode: Mode, on_error: OnError) -> Option<(String, String)> {
    let reported = |reason: &Reason, text: String| Some((reason.code().to_owned(), text));
    match outcome {
        Outcome::Unchanged { reason, .. } if !reason.is_unmet_request() => None,
        Outcome::Skipped { reason, .. } | Outcome::Unchanged { reason, .. } => {
            reported(reason, format!("left alone: {reason}"))
        }
        Outcome::Refused { reason } if reason.is_fault() && on_error == OnError::Allow => {
            Some(not_injected(reason.code(), &reason.to_string()))
        }
        Outcome::Refused { reason } if mode == Mode::Audit => reported(reason, would_be_denied(reason)),
        _ => None,
    }
}

fn not_injected(code: &str, why: &str) -> (String, String) {
    (code.to_owned(), cut(format!("{NOT_INJECTED}{why}"), MAX_MESSAGE))
}

/// The controller of the pod in a review that is not evaluated.
pub(super) fn owner_of_review(body: &str) -> Option<Value> {
    let (_, request) = review::parse::<Owned>(body).ok()?;
    owner(&request, &request.object.as_ref()?.metadata.owner_references)
}

/// The controller of a pod; none for a dry run.
pub(super) fn owner<O>(request: &AdmissionRequest<O>, references: &Value) -> Option<Value> {
    let namespace = request.namespace.as_deref()?;
    if request.dry_run == Some(true) {
        return None;
    }
    let owner = references.as_array()?.iter().find(|owner| owner["controller"] == true)?;
    let text = |key: &str| owner[key].as_str().filter(|text| text.len() <= MAX_NAME);
    Some(json!({
        "apiVersion": text("apiVersion")?, "kind": text("kind")?, "name": text("name")?, "uid": text("uid")?,
        "namespace": namespace,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_pod_is_found_without_an_evaluation() {
        let review = |pod: &Value, dry_run: bool| {
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "operation": "CREATE", "namespace": "team", "dryRun": dry_run,
                "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": pod,
            }});
            owner_of_review(&review.to_string())
        };
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "b", "controller": true});
        let pod_of_job = json!({"metadata": {"ownerReferences": [job]}, "spec": {"containers": []}});
        assert_eq!(review(&pod_of_job, false).map(|owner| owner["name"].clone()), Some(json!("a")));
        assert_eq!(review(&pod_of_job, true), None);
        for pod in
            [json!({"metadata": {}}), json!({"metadata": {"ownerReferences": 1}}), json!({}), json!(null)]
        {
            assert_eq!(review(&pod, false), None, "{pod}");
        }
    }
}
