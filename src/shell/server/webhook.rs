//! `POST /mutate`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::routing::any;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use tokio::time::{Duration, timeout_at};

use crate::core::admission::{self, Answer, BadReview, OnError, Outcome, Record};
use crate::shell::telemetry::Shed;
use crate::shell::telemetry::traces::ReviewSpan;

use super::body::{BODY_TIME, MAX_BODY, drain, read, too_large};
use super::refusal::{Refusal, overload};
use super::reply;
use super::state::{State, patience};

/// Larger pods are served apart, since they would hold up the others on their connection.
const LARGE: usize = 128 << 10;

/// The router of the HTTPS port.
pub fn router(state: Arc<State>) -> Router {
    Router::new().route("/mutate", any(mutate)).fallback(unknown_path).with_state(state)
}

async fn unknown_path(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Response<Body> {
    let path: String = request.uri().path().chars().take(128).collect();
    let deadline = Instant::now() + patience(request.uri().query()).min(BODY_TIME);
    drain(request.into_body(), deadline).await;
    let sentence = format!("there is nothing at `{path}`; reviews go to `/mutate`");
    Refusal::new(StatusCode::NOT_FOUND, "path", sentence).reply(&state)
}

async fn mutate(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Response<Body> {
    let started = Instant::now();
    let span = ReviewSpan::begin(request.method(), request.headers());
    let _in_flight = state.metrics.in_flight();
    match review(&state, started, request).await {
        Ok(Answer { body, record }) => {
            // An answer may be larger than its review, and its client may never read it.
            let Some(room) = state.room_for_answer(body.len()) else {
                state.metrics.shed(Shed::Memory);
                let refusal = Refusal::overloaded(Shed::Memory);
                span.rejected(refusal.status(), refusal.reason());
                return refusal.reply(&state);
            };
            let took = started.elapsed();
            state.metrics.reviewed(&record, took);
            log(&record, took);
            span.reviewed(&record);
            reply::json(StatusCode::OK, body.into(), Some(room))
        }
        Err(refusal) => {
            span.rejected(refusal.status(), refusal.reason());
            refusal.reply(&state)
        }
    }
}

async fn review(state: &Arc<State>, started: Instant, request: Request<Body>) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let deadline = started + patience(head.uri.query());
    let body_deadline = deadline.min(started + BODY_TIME);
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let refusal = wrong_request(&head.method, &head.headers);
    let refusal = refusal.or_else(|| length.is_some_and(|length| length > MAX_BODY).then(too_large));
    if let Some(refusal) = refusal {
        drain(body, body_deadline).await;
        return Err(refusal);
    }
    let whole = read(state, body, length, body_deadline).await?;
    // Not before, since bodies that never end would hold all places.
    let Some(_place) = state.enter() else {
        return shed(state, Shed::InFlight, &whole.bytes);
    };
    if whole.shed {
        return shed(state, Shed::Memory, &whole.bytes);
    }
    if Instant::now() >= deadline {
        return shed(state, Shed::Deadline, &whole.bytes);
    }
    tracing::trace!(body = %String::from_utf8_lossy(&whole.bytes), "review");
    if whole.bytes.len() < LARGE {
        return answer(state, &whole.bytes);
    }
    let Ok(Ok(turn)) = timeout_at(deadline.into(), Arc::clone(&state.large).acquire_owned()).await else {
        return shed(state, Shed::Deadline, &whole.bytes);
    };
    let state = Arc::clone(state);
    let served = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        answer(&state, &whole.bytes)
    });
    served.await.unwrap_or_else(|error| {
        let sentence = format!("fabric-injector itself failed on this review, which is a bug of it: {error}");
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", sentence))
    })
}

fn answer(state: &State, bytes: &[u8]) -> Result<Answer, Refusal> {
    let policies = state.policies.load();
    admission::answer(&policies, state.evaluate(), state.on_error, bytes).map_err(bad_review)
}

/// The early answer of a server that is asked for too much: `429` with `Retry-After`, or the pod let through with a
/// warning.
fn shed(state: &State, why: Shed, bytes: &[u8]) -> Result<Answer, Refusal> {
    state.metrics.shed(why);
    match state.on_error {
        OnError::Allow => {
            let policies = state.policies.load();
            let answer =
                admission::answer_without_evaluation(&policies, state.on_error, bytes, overload(why));
            answer.map_err(bad_review)
        }
        OnError::Deny => Err(Refusal::overloaded(why)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given away by `map_err`")]
fn bad_review(error: BadReview) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
}

/// Method and content type of a request that cannot be a review.
fn wrong_request(method: &Method, headers: &HeaderMap) -> Option<Refusal> {
    if method != Method::POST {
        let method: String = method.as_str().chars().take(64).collect();
        let sentence = format!("`{method}` is not answered at `/mutate`; send an AdmissionReview by `POST`");
        return Some(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", sentence));
    }
    let sent = headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes).unwrap_or_default();
    let media_type = sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !media_type.eq_ignore_ascii_case(b"application/json") {
        let sent: String = String::from_utf8_lossy(sent).chars().take(64).collect();
        let sentence = format!("the content type is `{sent}`; send `application/json`");
        return Some(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", sentence));
    }
    None
}

/// One line for each pod that was changed, refused or failed; the rest for whoever asks for it.
fn log(record: &Record, took: Duration) {
    let Record { uid, operations, allowed, .. } = record;
    let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let namespace = record.namespace.as_deref().unwrap_or_default();
    let name = record.name.as_deref().unwrap_or_default();
    let policy = record.policy.as_deref().unwrap_or_default();
    let reason = record.reason.unwrap_or_default();
    // Not `message`: that is what the line itself is called in JSON.
    let detail = record.message.as_deref().unwrap_or_default();
    match record.outcome {
        Outcome::Mutated => {
            tracing::info!(uid, namespace, name, policy, operations, microseconds, "pod mutated");
        }
        Outcome::Refused => {
            tracing::info!(uid, namespace, name, policy, reason, detail, microseconds, "pod refused");
        }
        Outcome::Failed => {
            tracing::error!(
                uid,
                namespace,
                name,
                policy,
                reason,
                detail,
                allowed,
                microseconds,
                "pod not served"
            );
        }
        Outcome::Unchanged => {
            tracing::debug!(uid, namespace, name, policy, reason, detail, microseconds, "unchanged");
        }
    }
}
