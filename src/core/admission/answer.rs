//! From the bytes of a request to the answer and what is to be recorded of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::core::engine::{self, Mutation};
use crate::core::policy::PodContext;
use crate::core::policy_set::PolicySet;

use super::Outcome;
use super::object::Object;
use super::response::{MAX_MESSAGE, OnError, Response, cut, respond};
use super::review::{self, AdmissionRequest, BadReview, V1};

/// What serves a pod: [`crate::core::policy_set::mutate`], or in a test something that fails.
pub type Evaluate = dyn Fn(&PolicySet, Value, &PodContext) -> Mutation + Send + Sync;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The AdmissionReview to send back, as JSON.
    pub body: Vec<u8>,
    /// What to log and count.
    pub record: Record,
}

/// What to log and count of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The request's uid.
    pub uid: String,
    /// The request's namespace.
    pub namespace: Option<String>,
    /// Name of the pod, or what its name will begin with.
    pub name: Option<String>,
    /// The policy that is for the pod.
    pub policy: Option<String>,
    /// What became of the request.
    pub outcome: Outcome,
    /// Why, as a stable code; none for a pod that was served.
    pub reason: Option<&'static str>,
    /// Why, as a sentence.
    pub message: Option<String>,
    /// Whether the object may be created.
    pub allowed: bool,
    /// Operations of the patch.
    pub operations: usize,
    /// Codes of the warnings.
    pub warnings: Vec<String>,
}

impl Record {
    /// The reasons of a record that are not the engine's: code and outcome of each.
    pub const REASONS: &[(&str, Outcome)] = &[
        ("not_a_new_pod", Outcome::Unchanged),
        ("unsupported_version", Outcome::Refused),
        ("panic", Outcome::Failed),
        ("overload", Outcome::Failed),
    ];

    fn new<O>(request: &AdmissionRequest<O>, response: &Response, outcome: Outcome) -> Self {
        Self {
            uid: request.uid.clone(),
            namespace: named(request.namespace.as_deref()),
            name: named(request.name.as_deref()),
            policy: None,
            outcome,
            reason: None,
            message: response.status.as_ref().map(|status| status.message.clone()),
            allowed: response.allowed,
            operations: 0,
            warnings: Vec::new(),
        }
    }

    fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

/// Answers a review.
///
/// An error means that the body could not be read as a request; everything else is answered with the uid of
/// the request, also when `evaluate` panics.
pub fn answer(
    policies: &PolicySet,
    evaluate: &Evaluate,
    on_error: OnError,
    body: &[u8],
) -> Result<Answer, BadReview> {
    let body = text(body)?;
    // Most of what is not for any policy can be told from the bytes; its object need not be built.
    if policies.may_concern(body) {
        let (version, mut request) = review::read::<Object>(body)?;
        let object = request.object.take();
        Ok(of_other_request(&version, &request)
            .unwrap_or_else(|| of_pod(policies, evaluate, on_error, &request, object.unwrap_or_default().0)))
    } else {
        let (version, request) = review::read::<IgnoredAny>(body)?;
        let reason = engine::Reason::NoPolicyMatches.code();
        Ok(of_other_request(&version, &request).unwrap_or_else(|| allowed(&request, reason)))
    }
}

/// Answers a review for which there is no time or room: as `on_error` says for a pod that a policy may be for, and
/// allowed for anything else.
pub fn answer_without_evaluation(
    policies: &PolicySet,
    on_error: OnError,
    body: &[u8],
    why: &str,
) -> Result<Answer, BadReview> {
    let body = text(body)?;
    let (version, request) = review::read::<IgnoredAny>(body)?;
    Ok(of_other_request(&version, &request).unwrap_or_else(|| {
        if policies.may_concern(body) {
            failed(&request, on_error, "overload", format!("overloaded: {why}"))
        } else {
            allowed(&request, engine::Reason::NoPolicyMatches.code())
        }
    }))
}

/// A name as it is logged, if it is there: none in Kubernetes is longer than 253 characters.
fn named(name: Option<&str>) -> Option<String> {
    let name = name.filter(|name| !name.is_empty())?;
    Some(cut(name.to_owned(), 256))
}

fn text(body: &[u8]) -> Result<&str, BadReview> {
    std::str::from_utf8(body).map_err(|error| BadReview::NotJson(error.to_string()))
}

/// The answer to a request that is not about a new pod, or that comes in a version we do not speak.
fn of_other_request<O>(version: &str, request: &AdmissionRequest<O>) -> Option<Answer> {
    if version != V1 {
        let why = format!(
            "AdmissionReview `{version}` is not supported; set `admissionReviewVersions: [\"v1\"]` in the webhook configuration"
        );
        let response = Response::refuse(&request.uid, 400, "BadRequest", &why);
        let record = Record::new(request, &response, Outcome::Refused).because("unsupported_version");
        // In the version of the request, since its sender reads no other.
        return Some(Answer { body: response.to_json_of(version), record });
    }
    (!request.creates_pod()).then(|| allowed(request, "not_a_new_pod"))
}

fn allowed<O>(request: &AdmissionRequest<O>, reason: &'static str) -> Answer {
    let response = Response::allow(&request.uid);
    let record = Record::new(request, &response, Outcome::Unchanged).because(reason);
    Answer { body: response.to_json(), record }
}

fn failed<O>(request: &AdmissionRequest<O>, on_error: OnError, reason: &'static str, why: String) -> Answer {
    let mut response = Response::fault(&request.uid, on_error, &why);
    response.audit_annotations.insert("outcome", format!("failed: {reason}"));
    let record = Record { message: Some(why), ..Record::new(request, &response, Outcome::Failed) };
    Answer { body: response.to_json(), record: record.because(reason) }
}

/// Serves the pod of a request.
fn of_pod(
    policies: &PolicySet,
    evaluate: &Evaluate,
    on_error: OnError,
    request: &AdmissionRequest<Object>,
    pod: Value,
) -> Answer {
    let generated = || Some(named(pod["metadata"]["generateName"].as_str())? + "*");
    let name = named(request.name.as_deref());
    let name = name.or_else(|| named(pod["metadata"]["name"].as_str())).or_else(generated);
    let about = PodContext {
        namespace: request.namespace.clone().filter(|namespace| !namespace.is_empty()),
        ..PodContext::default()
    };
    // A fault in serving one pod must not take down the connection on which others are being served.
    let served = catch_unwind(AssertUnwindSafe(|| evaluate(policies, pod, &about)));
    let Ok(mutation) = served else {
        let why = "fabric-injector itself failed on this pod, which is a bug of it; its log says where";
        let Answer { body, record } = failed(request, on_error, "panic", why.to_owned());
        return Answer { body, record: Record { name, ..record } };
    };
    let response = respond(&request.uid, &mutation, on_error);
    let (outcome, reason) = match &mutation.outcome {
        engine::Outcome::Mutated(_) => (Outcome::Mutated, None),
        engine::Outcome::Unchanged { reason, .. } => (Outcome::Unchanged, Some(reason)),
        engine::Outcome::Refused { reason } if reason.is_fault() => (Outcome::Failed, Some(reason)),
        engine::Outcome::Refused { reason } => (Outcome::Refused, Some(reason)),
    };
    let operations = match &mutation.outcome {
        engine::Outcome::Mutated(mutated) => mutated.operation_count(),
        _ => 0,
    };
    let record = Record {
        name,
        reason: reason.map(engine::Reason::code),
        message: reason.map(|reason| cut(reason.to_string(), MAX_MESSAGE)),
        operations,
        warnings: mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect(),
        ..Record::new(request, &response, outcome)
    };
    Answer { body: response.to_json(), record: Record { policy: mutation.policy, ..record } }
}
