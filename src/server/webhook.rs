//! `POST /mutate` for pods, and `POST /validate-workloads` for the workloads that they come from.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::routing::any;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde::de::IgnoredAny;
use tokio::time::{Duration, timeout_at};

use crate::telemetry::Shed;
use crate::telemetry::traces::ReviewSpan;
use fabric_engine::admission::{self, Answer, BadReview, OnError, Record, ReviewOutcome, WorkloadReview};
use fabric_policy::PodContext;
use fabric_policy::work::Work;
use fabric_tools::lint;

use super::body::{BODY_TIMEOUT, BufferedBody, MAX_BODY, drain, read_body, too_large};
use super::connections::Slot;
use super::rejection::{Rejection, overload};
use super::reply;
use super::state::{State, request_timeout};

/// The router of the HTTPS port.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route(Webhook::Pods.path(), any(|state, request| serve(Webhook::Pods, state, request)))
        .route(Webhook::Workloads.path(), any(|state, request| serve(Webhook::Workloads, state, request)))
        .fallback(unknown_path)
        .with_state(state)
}

/// What is reviewed.
#[derive(Debug, Clone, Copy)]
enum Webhook {
    /// New pods, which are injected.
    Pods,
    /// Workloads with pod templates, which stay as they are.
    Workloads,
}

impl Webhook {
    fn path(self) -> &'static str {
        match self {
            Self::Pods => "/mutate",
            Self::Workloads => "/validate-workloads",
        }
    }
}

async fn unknown_path(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Response<Body> {
    let path: String = request.uri().path().chars().take(128).collect();
    let deadline = Instant::now() + request_timeout(request.uri().query()).min(BODY_TIMEOUT);
    drain(request.into_body(), deadline).await;
    let message = format!("there is no resource at `{path}`; send reviews to `/mutate`");
    Rejection::new(StatusCode::NOT_FOUND, "path", message).reply(&state)
}

async fn serve(
    webhook: Webhook,
    Shared(state): Shared<Arc<State>>,
    request: Request<Body>,
) -> Response<Body> {
    let started = Instant::now();
    let span = ReviewSpan::begin(webhook.path(), request.method(), request.headers());
    let _in_flight = state.metrics.in_flight();
    let slot = request.extensions().get::<Arc<Slot>>().cloned();
    match review(webhook, &state, started, request, slot.as_deref()).await {
        Ok(Answer { body, mut record }) => {
            // A response may be larger than its request, and the client may never read it.
            let Some(permit) = state.responses.permit(body.len(), slot.as_deref()).await else {
                state.metrics.shed(Shed::Memory);
                let rejection = Rejection::overloaded(Shed::Memory);
                span.rejected(rejection.status(), rejection.reason());
                return rejection.reply(&state);
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
            let held = slot.map(|slot| slot.connection.hold(body.len()));
            reply::json(StatusCode::OK, body.into(), Some(reply::Memory { _permit: permit, held }))
        }
        Err(rejection) => {
            span.rejected(rejection.status(), rejection.reason());
            rejection.reply(&state)
        }
    }
}

async fn review(
    webhook: Webhook,
    state: &Arc<State>,
    started: Instant,
    request: Request<Body>,
    slot: Option<&Slot>,
) -> Result<Answer, Rejection> {
    let (head, body) = request.into_parts();
    let deadline = started + request_timeout(head.uri.query());
    let body_deadline = deadline.min(started + BODY_TIMEOUT);
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let rejection = wrong_request(webhook, &head.method, &head.headers);
    let rejection = rejection.or_else(|| length.is_some_and(|length| length > MAX_BODY).then(too_large));
    if let Some(rejection) = rejection {
        drain(body, body_deadline).await;
        return Err(rejection);
    }
    let body = read_body(state, body, length, body_deadline, slot).await?;
    let _working = slot.map(|slot| slot.connection.work());
    // Only now: bodies that never arrive must not take all permits.
    let Some(_permit) = state.enter() else {
        return shed(webhook, state, Shed::InFlight, &body.bytes);
    };
    if body.shed {
        return shed(webhook, state, Shed::Memory, &body.bytes);
    }
    if Instant::now() >= deadline {
        return shed(webhook, state, Shed::Deadline, &body.bytes);
    }
    tracing::trace!(body = %String::from_utf8_lossy(&body.bytes), "review");
    let bytes = body.bytes.clone();
    let work = StopOnDrop(Work::of_input(bytes.len()));
    match timeout_at(deadline.into(), evaluate(webhook, state, body, &work.0)).await {
        Ok(answer) => answer,
        Err(_) => shed(webhook, state, Shed::Deadline, &bytes),
    }
}

/// Ends an evaluation that no request waits for anymore: its time is over, or the client has gone.
#[derive(Debug)]
struct StopOnDrop(Work);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The largest review that is evaluated at once.
const SHORT: usize = 32 << 10;
/// The most steps of such an evaluation, which takes about 2 ms.
const SHORT_STEPS: u64 = 200_000;

/// Evaluates a review: at once if that is short, since another thread takes longer to wake than most reviews. Others begin
/// again on another thread when it is their turn, which they keep until they end or `work` is stopped.
async fn evaluate(
    webhook: Webhook,
    state: &Arc<State>,
    body: BufferedBody,
    work: &Work,
) -> Result<Answer, Rejection> {
    if body.bytes.len() <= SHORT {
        let short = work.at_most(SHORT_STEPS);
        let answer = answer(webhook, state, &body.bytes, &short);
        if short.ended().is_none() {
            return answer;
        }
    }
    let turn = state.turns.wait(admission::namespace(&body.bytes), body.bytes.len()).await;
    let (state, work) = (Arc::clone(state), work.clone());
    let evaluated = tokio::task::spawn_blocking(move || {
        let answer = answer(webhook, &state, &body.bytes, &work);
        drop((body, turn));
        answer
    });
    evaluated.await.unwrap_or_else(|error| {
        let message = format!("internal error on this review, which is a bug of fabric-injector: {error}");
        Err(Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
    })
}

fn answer(webhook: Webhook, state: &State, bytes: &[u8], work: &Work) -> Result<Answer, Rejection> {
    let policies = state.policies.load();
    let nodes = state.nodes.load().nodes.clone();
    let context = PodContext { work: Some(work.clone()), nodes, ..PodContext::default() };
    let answer = match webhook {
        Webhook::Pods => {
            admission::answer(&policies, state.evaluate(), state.mode, state.on_error, bytes, context)
        }
        Webhook::Workloads => lint::answer(&policies, state.mode, bytes, &context),
    };
    answer.map_err(bad_review)
}

/// The response under overload: `429` with `Retry-After`, or the pod admitted unchanged with a warning. A workload does
/// not depend on its review.
fn shed(webhook: Webhook, state: &State, why: Shed, bytes: &[u8]) -> Result<Answer, Rejection> {
    if let Webhook::Workloads = webhook {
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
fn wrong_request(webhook: Webhook, method: &Method, headers: &HeaderMap) -> Option<Rejection> {
    if method != Method::POST {
        let path = webhook.path();
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
    // Not `message`, which is the key of the line itself in JSON.
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
