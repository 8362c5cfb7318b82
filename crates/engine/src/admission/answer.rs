//! The answer to a review, and its record for logs and metrics.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::policy_set::PolicySet;
use crate::{self as engine, Mutation};
use fabric_policy::PodContext;

use super::ReviewOutcome;
use super::bounds::exceeded;
use super::for_owner::{Absent, ForOwner, owner, owner_of_review};
use super::response::{MAX_MESSAGE, Mode, OnError, Response, cut, respond_in};
use super::review::{self, AdmissionRequest, BadReview, V1};

/// The function that injects a pod: [`crate::policy_set::mutate`], or in a test one that fails.
pub type Evaluate = dyn Fn(&PolicySet, Value, &PodContext) -> Mutation + Send + Sync;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The AdmissionReview with the response, as JSON.
    pub body: Vec<u8>,
    pub record: Record,
}

/// The record of a review, for logs and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub uid: String,
    /// The namespace of the request.
    pub namespace: Option<String>,
    /// The name of the pod, or `generateName` with a `*`.
    pub name: Option<String>,
    /// The policy that matches the pod.
    pub policy: Option<String>,
    pub outcome: ReviewOutcome,
    /// The stable code of the reason; none for an injected pod.
    pub reason: Option<Cow<'static, str>>,
    /// The reason as a sentence.
    pub message: Option<String>,
    /// If true, the API server may create the object.
    pub allowed: bool,
    /// If true, nothing is created.
    pub dry_run: bool,
    /// The number of operations in the patch.
    pub operations: usize,
    /// The codes of the warnings.
    pub warnings: Vec<String>,
    /// The code that says why the pod requests the fabric and does not get it; none for other pods.
    pub without_fabric: Option<Cow<'static, str>>,
    /// Objects that the pod names, and that the cluster does not have yet.
    pub absent: Vec<Absent>,
    /// A message for the owner of the pod, if there is one.
    pub for_owner: Option<Box<ForOwner>>,
    /// In [`Mode::Audit`], the outcome is that of [`Mode::Inject`], and the pod is unchanged.
    pub mode: Mode,
}

impl Record {
    /// The codes of the reasons that are not the engine's, with the outcome of each.
    pub const REASONS: &[(&str, ReviewOutcome)] = &[
        ("not_a_new_pod", ReviewOutcome::Unchanged),
        ("unsupported_version", ReviewOutcome::Refused),
        (TOO_LONG, ReviewOutcome::Refused),
        ("panic", ReviewOutcome::Failed),
        ("overload", ReviewOutcome::Failed),
        (OTHER_POLICIES, ReviewOutcome::Failed),
        (OTHER_POLICIES, ReviewOutcome::Unchanged),
        ("", ReviewOutcome::Advised),
        ("", ReviewOutcome::Unadvised),
        ("panic", ReviewOutcome::Unadvised),
        ("overload", ReviewOutcome::Unadvised),
        ("cost", ReviewOutcome::Unadvised),
    ];

    pub(super) fn new<O>(
        request: &AdmissionRequest<O>,
        response: &Response,
        outcome: ReviewOutcome,
        reason: Option<&'static str>,
    ) -> Self {
        Self {
            uid: request.uid.clone(),
            namespace: named(request.namespace.as_deref()),
            name: named(request.name.as_deref()),
            outcome,
            reason: reason.map(Cow::Borrowed),
            message: response.status.as_ref().map(|status| status.message.clone()),
            allowed: response.allowed,
            dry_run: request.dry_run == Some(true),
            ..Self::default()
        }
    }
}

/// A response with its record, before it is written.
pub(super) struct Verdict {
    pub(super) response: Response,
    pub(super) record: Record,
}

impl Verdict {
    /// The answer in a mode, as a review of the version that its sender reads.
    pub(super) fn in_mode(self, mode: Mode, version: &str) -> Answer {
        let response = self.response.in_mode(mode);
        let record = Record { allowed: response.allowed, mode, ..self.record };
        Answer { body: response.to_json_of(version), record }
    }
}

/// The code of [`engine::Reason::NoPolicyMatches`].
const NO_POLICY: &str = "no_policy_matches";
/// The code for a pod that the API server refuses for a length.
const TOO_LONG: &str = "too_long";
/// The code for a pod with GPUs that the registered conditions select, and no policy in use.
const OTHER_POLICIES: &str = "other_policies_registered";

/// The policies and settings by which reviews are answered.
pub struct Reviewer<'a> {
    pub policies: &'a PolicySet,
    pub evaluate: &'a Evaluate,
    pub mode: Mode,
    pub on_error: OnError,
    /// Returns whether the registered conditions or the policies in use have just changed. It is asked about a pod with
    /// GPUs that the API server sends and that no policy in use matches.
    pub has_changed: &'a dyn Fn() -> bool,
}

impl Reviewer<'_> {
    /// Answers a review.
    ///
    /// Returns an error only if the body cannot be read as a request. Every other answer has the uid of the request, even
    /// if `evaluate` panics. `context` holds the caller's facts about the pod; its namespace and requester are those of the request.
    pub fn answer(&self, body: &[u8], context: PodContext) -> Result<Answer, BadReview> {
        let Self { policies, mode, .. } = *self;
        let body = text(body)?;
        context.count_reading();
        // The bytes of most pods show that no policy matches them, and that they have no GPUs. Their objects are not built.
        if policies.may_concern(body) || policies.may_name_gpus(body) {
            let (version, request) = review::parse::<&RawValue>(body)?;
            let verdict = if let Some(verdict) = answer_other_request(&version, &request) {
                verdict
            } else {
                let namespace = request.namespace.clone().filter(|namespace| !namespace.is_empty());
                let by_kubelet = Some(request.is_by_kubelet());
                let about = PodContext { namespace, by_kubelet, ..context };
                let pod = request.object.map(|object| about.read(object.get())).transpose()?;
                let pod = pod.unwrap_or_default();
                let name = name_of(&pod);
                let mut verdict = self.answer_pod(&request, pod, &about);
                verdict.record.name = verdict.record.name.or(name);
                verdict
            };
            Ok(verdict.in_mode(mode, &version))
        } else {
            let (version, request) = review::parse::<IgnoredAny>(body)?;
            let verdict = answer_other_request(&version, &request);
            Ok(verdict.unwrap_or_else(|| allowed(&request, NO_POLICY)).in_mode(mode, &version))
        }
    }

    /// Injects the pod of a request.
    fn answer_pod(&self, request: &AdmissionRequest<&RawValue>, pod: Value, about: &PodContext) -> Verdict {
        let Self { policies, evaluate, mode, on_error, .. } = *self;
        // The API server is going to refuse such a pod.
        if let Some(problem) = exceeded(&pod) {
            return denied(request, 422, "Invalid", TOO_LONG, &format!("the pod is invalid: {problem}"));
        }
        let owner = owner(request, &pod["metadata"]["ownerReferences"]);
        // A panic on one pod must not close a connection that serves other requests.
        let evaluated = catch_unwind(AssertUnwindSafe(|| evaluate(policies, pod, about)));
        let Ok(mutation) = evaluated else {
            let why = "internal error on this pod, a bug in fabric-injector; see its log";
            return failed(request, ReviewOutcome::Failed, on_error, "panic", why.to_owned(), owner);
        };
        if let engine::Outcome::Unchanged { pod, reason } = &mutation.outcome
            && reason.is_unmatched()
            && policies.may_have_gpus(pod)
        {
            return self.unmatched(request, owner);
        }
        let response = respond_in(mode, &request.uid, &mutation, on_error);
        let (outcome, reason) = ReviewOutcome::of_injection(&mutation.outcome);
        let operations = mutation.outcome.changed().map_or(0, engine::Mutated::operation_count);
        let record = Record {
            policy: mutation.policy.clone(),
            reason: reason.map(|reason| Cow::Owned(reason.code().to_owned())),
            message: reason.map(|reason| cut(reason.to_string(), MAX_MESSAGE)),
            operations,
            without_fabric: mutation.without_fabric().map(|code| Cow::Owned(code.to_owned())),
            warnings: mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect(),
            absent: Absent::of(request, &mutation, mode, owner.as_ref()),
            for_owner: ForOwner::new(owner, &mutation, mode, on_error).map(Box::new),
            ..Record::new(request, &response, outcome, None)
        };
        Verdict { response, record }
    }

    /// The answer for a pod with GPUs that the API server sends, although no policy in use matches it: the registered
    /// conditions are those of other policies. If either has just changed, the pod is retried until the servers have
    /// both. Later, it is admitted, so that a registration that somebody edited does not stop all pods.
    fn unmatched(&self, request: &AdmissionRequest<&RawValue>, owner: Option<Value>) -> Verdict {
        let why = "no policy in use matches this pod with GPUs, which the registered conditions select";
        if (self.has_changed)() {
            let why = format!("{why}; policies or conditions have just changed: try again in a minute");
            failed(request, ReviewOutcome::Failed, self.on_error, OTHER_POLICIES, why, owner)
        } else {
            let why = format!("{why}; run `fabric-injector check` and apply the registration again");
            failed(request, ReviewOutcome::Unchanged, OnError::Allow, OTHER_POLICIES, why, owner)
        }
    }
}

/// Answers a review when time or memory runs out: by `on_error` if a policy may match the pod. Other pods are allowed.
pub fn answer_without_evaluation(
    policies: &PolicySet,
    mode: Mode,
    on_error: OnError,
    body: &[u8],
    why: &str,
) -> Result<Answer, BadReview> {
    let body = text(body)?;
    let (version, request) = review::parse::<IgnoredAny>(body)?;
    let verdict = answer_other_request(&version, &request).unwrap_or_else(|| {
        if policies.may_concern(body) {
            let why = format!("overloaded: {why}; create the pod again, and add replicas or CPU");
            let owner = if on_error == OnError::Allow { owner_of_review(body) } else { None };
            failed(&request, ReviewOutcome::Failed, on_error, "overload", why, owner)
        } else {
            allowed(&request, NO_POLICY)
        }
    });
    Ok(verdict.in_mode(mode, &version))
}

/// The bytes of a review in which [`namespace`] looks for it. API servers write it before the object.
const HEAD: usize = 64 << 10;

/// The namespace of a review; empty for one that does not have it near its beginning.
pub fn namespace(body: &[u8]) -> String {
    review::namespace(&body[..body.len().min(HEAD)]).unwrap_or_default()
}

/// The logged form of a name; none if it is empty. Names in Kubernetes have at most 253 characters.
pub(super) fn named(name: Option<&str>) -> Option<String> {
    let name = name.filter(|name| !name.is_empty())?;
    Some(cut(name.to_owned(), 256))
}

/// The logged name of a pod, or the beginning of one that is to be generated.
fn name_of(pod: &Value) -> Option<String> {
    let name = |key: &str| named(pod["metadata"][key].as_str());
    name("name").or_else(|| Some(name("generateName")? + "*"))
}

pub(super) fn text(body: &[u8]) -> Result<&str, BadReview> {
    std::str::from_utf8(body).map_err(|error| BadReview::NotJson(error.to_string()))
}

/// The answer to a request that does not create a pod or has an unsupported version; none for other requests.
fn answer_other_request<O>(version: &str, request: &AdmissionRequest<O>) -> Option<Verdict> {
    let other = || (!request.creates_pod()).then(|| allowed(request, "not_a_new_pod"));
    unsupported(version, request).or_else(other)
}

/// The answer to a request of an unsupported version.
pub(super) fn unsupported<O>(version: &str, request: &AdmissionRequest<O>) -> Option<Verdict> {
    (version != V1).then(|| {
        let why = format!(
            "AdmissionReview `{version}` is not supported; set `admissionReviewVersions: [\"v1\"]` in the webhook configuration"
        );
        denied(request, 400, "BadRequest", "unsupported_version", &why)
    })
}

/// The answer to a request that is denied before its evaluation costs anything.
fn denied<O>(
    request: &AdmissionRequest<O>,
    code: u16,
    status: &'static str,
    reason: &'static str,
    why: &str,
) -> Verdict {
    let response = Response::deny(&request.uid, code, status, &why);
    let record = Record::new(request, &response, ReviewOutcome::Refused, Some(reason));
    Verdict { response, record: Record { without_fabric: record.reason.clone(), ..record } }
}

fn allowed<O>(request: &AdmissionRequest<O>, reason: &'static str) -> Verdict {
    let response = Response::allow(&request.uid);
    let record = Record::new(request, &response, ReviewOutcome::Unchanged, Some(reason));
    Verdict { response, record }
}

/// The answer to a request that cannot be evaluated. A message for the owner of the pod says that it has no fabric.
fn failed<O>(
    request: &AdmissionRequest<O>,
    outcome: ReviewOutcome,
    on_error: OnError,
    reason: &'static str,
    why: String,
    owner: Option<Value>,
) -> Verdict {
    let mut response = Response::fault(&request.uid, on_error, &why);
    response.audit_annotations.insert("outcome", format!("{}: {reason}", outcome.name()));
    let owner = owner.filter(|_| on_error == OnError::Allow);
    let for_owner = ForOwner::failed(owner, reason, &why).map(Box::new);
    let (message, without_fabric) = (Some(why), Some(Cow::Borrowed(reason)));
    let record = Record::new(request, &response, outcome, Some(reason));
    Verdict { response, record: Record { message, without_fabric, for_owner, ..record } }
}
