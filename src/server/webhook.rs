//! `POST /mutate` for pods, and `POST /validate-workloads` for the workloads that they come from.

use std::sync::Arc;
use std::time::Instant;

use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde::de::IgnoredAny;
use tokio::time::{Duration, timeout_at};

use crate::telemetry::traces::ReviewSpan;
use crate::telemetry::{INTERNAL, Shed};
use fabric_engine::admission::{
    self, Answer, BadReview, OnError, Record, ReviewOutcome, Reviewer, WorkloadReview,
};
use fabric_policy::PodContext;
use fabric_policy::work::Work;
use fabric_tools::lint;

use super::body::{BODY_TIMEOUT, BufferedBody, read_body};
use super::connection::{Handler, RequestBody};
use super::connections::InFlight;
use super::rejection::{Rejection, overload};
use super::reply::{self, ReplyBody};
use super::state::{State, request_timeout};

/// The handler of the HTTPS port.
#[derive(Debug, Clone)]
pub struct Webhook(Arc<State>);

impl Webhook {
    /// The handler of a server in this state.
    pub fn new(state: Arc<State>) -> Self {
        Self(state)
    }
}

impl Handler for Webhook {
    async fn respond<B: RequestBody>(&self, request: Request<B>, in_flight: InFlight) -> Response<ReplyBody> {
        let response = match request.uri().path() {
            "/mutate" => serve(Endpoint::Pods, &self.0, request, &in_flight).await,
            "/validate-workloads" => serve(Endpoint::Workloads, &self.0, request, &in_flight).await,
            path => unknown_path(path).reply(&self.0),
        };
        response.map(|body| body.for_request(in_flight))
    }
}

/// The objects that a path reviews.
#[derive(Debug, Clone, Copy)]
enum Endpoint {
    /// New pods, which are injected.
    Pods,
    /// Workloads with pod templates, which stay as they are.
    Workloads,
}

impl Endpoint {
    fn path(self) -> &'static str {
        match self {
            Self::Pods => "/mutate",
            Self::Workloads => "/validate-workloads",
        }
    }
}

fn unknown_path(path: &str) -> Rejection {
    let path: String = path.chars().take(128).collect();
    let message = format!("there is no resource at `{path}`; send reviews to `/mutate`");
    Rejection::new(StatusCode::NOT_FOUND, "path", message)
}

async fn serve(
    endpoint: Endpoint,
    state: &Arc<State>,
    request: Request<impl RequestBody>,
    in_flight: &InFlight,
) -> Response<ReplyBody> {
    let started = Instant::now();
    let span = ReviewSpan::begin(endpoint.path(), request.method(), request.headers());
    let _in_flight = state.metrics.in_flight();
    match review(endpoint, state, started, request, in_flight).await {
        Ok(Answer { body, mut record }) => {
            // A response may be larger than its request, and the client may never read it.
            let Some(permit) = state.memory.permit(body.len(), in_flight).await else {
                state.metrics.shed(Shed::Memory);
                let rejection = Rejection::overloaded(Shed::Memory);
                span.rejected(rejection.status(), rejection.reason());
                return rejection.reply(state);
            };
            let took = started.elapsed();
            state.metrics.reviewed(&record, took);
            log(&record, took);
            if let (Some(events), Some(advice)) = (state.events.get(), record.for_owner.take())
                && !events.offer(*advice)
            {
                state.metrics.event("dropped");
            }
            span.reviewed(&record);
            reply::json(StatusCode::OK, body).map(|body| body.holding(permit))
        }
        Err(rejection) => {
            span.rejected(rejection.status(), rejection.reason());
            rejection.reply(state)
        }
    }
}

async fn review(
    endpoint: Endpoint,
    state: &Arc<State>,
    started: Instant,
    request: Request<impl RequestBody>,
    in_flight: &InFlight,
) -> Result<Answer, Rejection> {
    let (head, body) = request.into_parts();
    let deadline = started + request_timeout(head.uri.query());
    if let Some(rejection) = wrong_request(endpoint, &head.method, &head.headers) {
        return Err(rejection);
    }
    let body = read_body(state, body, deadline.min(started + BODY_TIMEOUT), in_flight).await?;
    in_flight.waits_for_server();
    // Only now: bodies that never arrive must not take all permits.
    let Some(_permit) = state.enter() else {
        return shed(endpoint, state, Shed::InFlight, &body.bytes);
    };
    if Instant::now() >= deadline {
        return shed(endpoint, state, Shed::Deadline, &body.bytes);
    }
    tracing::trace!(body = %String::from_utf8_lossy(&body.bytes), "review");
    let bytes = body.bytes.clone();
    let work = StopOnDrop(Work::of_input(bytes.len()));
    match timeout_at(deadline.into(), evaluate(endpoint, state, body, &work.0)).await {
        Ok(answer) => answer,
        Err(_) => shed(endpoint, state, Shed::Deadline, &bytes),
    }
}

/// Ends an evaluation that no request waits for any more: its time is over, or the client has disconnected.
#[derive(Debug)]
struct StopOnDrop(Work);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The largest review that is evaluated at once.
pub const SHORT: usize = 32 << 10;
/// The most steps of such an evaluation. It takes at most 3 ms on two cores, which `tests/injection/cost.rs` measures.
pub const SHORT_STEPS: u64 = 200_000;

/// Evaluates a review: at once if that is short, since another thread takes longer to wake than most reviews. Others wait
/// in the queue, and begin again on another thread. They hold their permit until they end or `work` is stopped.
async fn evaluate(
    endpoint: Endpoint,
    state: &Arc<State>,
    body: BufferedBody,
    work: &Work,
) -> Result<Answer, Rejection> {
    if body.bytes.len() <= SHORT {
        let short = work.at_most(SHORT_STEPS);
        let answer = answer(endpoint, state, &body.bytes, &short);
        if short.ended().is_none() {
            return answer;
        }
    }
    let Some(place) = state.queue.place(admission::namespace(&body.bytes), body.bytes.len()) else {
        return shed(endpoint, state, Shed::Namespace, &body.bytes);
    };
    let permit = state.queue.permit(place).await;
    let (state, work) = (Arc::clone(state), work.clone());
    let evaluated = tokio::task::spawn_blocking(move || {
        let answer = answer(endpoint, &state, &body.bytes, &work);
        drop((body, permit));
        answer
    });
    evaluated.await.unwrap_or_else(|error| {
        let message = format!("internal error on this review, a bug in fabric-injector: {error}");
        Err(Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, message))
    })
}

fn answer(endpoint: Endpoint, state: &State, bytes: &[u8], work: &Work) -> Result<Answer, Rejection> {
    let policies = state.policies.load();
    let watched = state.nodes.load();
    let (nodes, claims) = (watched.nodes.clone(), watched.claims.clone());
    let context = PodContext { work: Some(work.clone()), nodes, claims, ..PodContext::default() };
    let answer = match endpoint {
        Endpoint::Pods => {
            let reviewer = Reviewer {
                policies: &policies,
                evaluate: state.evaluate(),
                mode: state.mode,
                on_error: state.on_error,
                has_changed: &|| state.change.is_recent(),
            };
            reviewer.answer(bytes, context)
        }
        Endpoint::Workloads => lint::answer(&policies, state.mode, bytes, &context),
    };
    answer.map_err(bad_review)
}

/// The response under overload: `429` with `Retry-After`, or the pod admitted unchanged with a warning. A workload does
/// not depend on its review.
fn shed(endpoint: Endpoint, state: &State, why: Shed, bytes: &[u8]) -> Result<Answer, Rejection> {
    if let Endpoint::Workloads = endpoint {
        let review = WorkloadReview::<IgnoredAny>::read(bytes).map_err(bad_review)?;
        return Ok(review.unadvised("overload", state.mode));
    }
    state.metrics.shed(why);
    match state.on_error {
        OnError::Allow => {
            let policies = state.policies.load();
            let why = overload(why);
            admission::answer_without_evaluation(&policies, state.mode, state.on_error, bytes, why)
                .map_err(bad_review)
        }
        OnError::Deny => Err(Rejection::overloaded(why)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn bad_review(error: BadReview) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
}

/// The rejection of a method or a content type that no review has.
fn wrong_request(endpoint: Endpoint, method: &Method, headers: &HeaderMap) -> Option<Rejection> {
    if method != Method::POST {
        let path = endpoint.path();
        let method: String = method.as_str().chars().take(64).collect();
        let message =
            format!("the method `{method}` is not allowed at `{path}`; send an AdmissionReview with `POST`");
        return Some(Rejection::new(StatusCode::METHOD_NOT_ALLOWED, "method", message));
    }
    let sent = headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes).unwrap_or_default();
    let media_type = sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !media_type.eq_ignore_ascii_case(b"application/json") {
        let sent: String = String::from_utf8_lossy(sent).chars().take(64).collect();
        let message = format!("the content type is `{sent}`; send `application/json`");
        return Some(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message));
    }
    None
}

/// Logs the outcome of a review: at `debug` for a pod that stays unchanged.
fn log(record: &Record, took: Duration) {
    let Record { uid, operations, allowed, .. } = record;
    let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let namespace = record.namespace.as_deref().unwrap_or_default();
    let name = record.name.as_deref().unwrap_or_default();
    let policy = record.policy.as_deref().unwrap_or_default();
    let reason = record.reason.as_deref().unwrap_or_default();
    // Not `message`, because that is the key of the line itself in JSON.
    let detail = record.message.as_deref().unwrap_or_default();
    let mode = record.mode.name();
    match record.outcome {
        ReviewOutcome::Mutated => {
            tracing::info!(uid, namespace, name, policy, operations, microseconds, mode, "pod mutated");
        }
        ReviewOutcome::Refused => {
            tracing::info!(uid, namespace, name, policy, reason, detail, microseconds, mode, "pod refused");
        }
        ReviewOutcome::Failed => {
            tracing::error!(
                uid,
                namespace,
                name,
                policy,
                reason,
                detail,
                allowed,
                microseconds,
                mode,
                "pod not injected"
            );
        }
        ReviewOutcome::Skipped => {
            tracing::info!(uid, namespace, name, policy, reason, detail, microseconds, mode, "pod skipped");
        }
        ReviewOutcome::Advised => {
            let advice = record.warnings.join(",");
            tracing::info!(uid, namespace, name, advice, microseconds, mode, "advice on a workload");
        }
        ReviewOutcome::Unadvised => {
            tracing::debug!(uid, namespace, name, reason, microseconds, mode, "no advice on a workload");
        }
        ReviewOutcome::Unchanged => {
            tracing::debug!(
                uid,
                namespace,
                name,
                policy,
                reason,
                detail,
                microseconds,
                mode,
                "pod unchanged"
            );
        }
    }
}
