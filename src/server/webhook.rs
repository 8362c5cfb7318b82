//! `POST /mutate`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::routing::any;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, timeout_at};

use crate::admission::{self, Answer, OnError, Outcome, Record};
use crate::telemetry::traces::ReviewSpan;
use crate::telemetry::{Answered, Shed};

use super::state::{State, patience};

/// The largest body: an API server takes objects of up to 3 MiB (`limit` of its request bodies), a review may
/// hold one twice (`object` and `oldObject`), and 1 MiB is for the rest of it.
pub const MAX_BODY: usize = 7 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// What is read and thrown away of a body that is too large, so that its sender gets to read the answer.
const MAX_DRAINED: usize = 64 << 20;
/// Larger pods are served apart, since they would hold up the others on their connection.
const LARGE: usize = 128 << 10;

type Reply = Response<Body>;

/// The router of the HTTPS port.
pub fn router(state: Arc<State>) -> Router {
    Router::new().route("/mutate", any(mutate)).fallback(unknown_path).with_state(state)
}

async fn unknown_path(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Reply {
    let path: String = request.uri().path().chars().take(128).collect();
    drain(request.into_body()).await;
    let sentence = format!("there is nothing at `{path}`; reviews go to `/mutate`");
    Refusal::new(StatusCode::NOT_FOUND, "path", sentence).reply(&state)
}

async fn mutate(Shared(state): Shared<Arc<State>>, request: Request<Body>) -> Reply {
    let started = Instant::now();
    let span = ReviewSpan::begin(request.method(), request.headers());
    let _in_flight = state.metrics.in_flight();
    match review(&state, started, request).await {
        Ok(Answer { body, record }) => {
            let took = started.elapsed();
            state.metrics.reviewed(&record, took);
            log(&record, took);
            span.reviewed(&record);
            reply(StatusCode::OK, body.into())
        }
        Err(refusal) => {
            span.rejected(refusal.status, refusal.code.unwrap_or("overload"));
            refusal.reply(&state)
        }
    }
}

async fn review(state: &Arc<State>, started: Instant, request: Request<Body>) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let refusal = wrong_request(&head.method, &head.headers);
    let refusal =
        refusal.or_else(|| length.filter(|length| *length > MAX_BODY).map(|_| Refusal::too_large()));
    if let Some(refusal) = refusal {
        drain(body).await;
        return Err(refusal);
    }
    let deadline = started + patience(head.uri.query());
    let place = state.enter();
    if place.is_none() && state.on_error == OnError::Deny {
        drain(body).await;
        return shed(state, Shed::InFlight, &[]);
    }
    let (bytes, _room) = read(state, body, length, deadline.min(started + BODY_TIME)).await?;
    if place.is_none() {
        return shed(state, Shed::InFlight, &bytes);
    }
    if Instant::now() >= deadline {
        return shed(state, Shed::Deadline, &bytes);
    }
    tracing::trace!(body = %String::from_utf8_lossy(&bytes), "review");
    if bytes.len() < LARGE {
        return answer(state, &bytes);
    }
    let Ok(Ok(turn)) = timeout_at(deadline.into(), Arc::clone(&state.large).acquire_owned()).await else {
        return shed(state, Shed::Deadline, &bytes);
    };
    let state = Arc::clone(state);
    let served = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        answer(&state, &bytes)
    });
    served.await.unwrap_or_else(|error| {
        let sentence = format!("fabric-injector itself failed on this review, which is a bug of it: {error}");
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", sentence))
    })
}

fn answer(state: &State, bytes: &[u8]) -> Result<Answer, Refusal> {
    let policies = state.policies.load();
    let answer = admission::answer(&policies, state.evaluate(), state.on_error, bytes);
    answer.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.code(), error.to_string()))
}

/// The early answer of a server that is asked for too much: `429` with `Retry-After`, after which an API server
/// tries again, or the pod let through with a warning.
fn shed(state: &State, why: Shed, bytes: &[u8]) -> Result<Answer, Refusal> {
    state.metrics.shed(why);
    let sentence = match why {
        Shed::InFlight => "too many requests at once (`--max-in-flight`)",
        Shed::Memory => "too many bytes of requests at once",
        Shed::Deadline => "not enough time (`timeoutSeconds`)",
    };
    match state.on_error {
        OnError::Allow => {
            let answer =
                admission::answer_without_evaluation(&state.policies.load(), state.on_error, bytes, sentence);
            answer.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.code(), error.to_string()))
        }
        OnError::Deny => Err(Refusal::overloaded(sentence)),
    }
}

/// Method and content type of a request that cannot be a review.
fn wrong_request(method: &Method, headers: &HeaderMap) -> Option<Refusal> {
    if method != Method::POST {
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

/// The whole body, and the room that it takes. `length` is what its sender said of it, if anything.
async fn read(
    state: &State,
    mut body: Body,
    length: Option<usize>,
    deadline: Instant,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    // Most bodies come in one piece, which then need not be copied.
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    loop {
        let Ok(frame) = timeout_at(deadline.into(), body.frame()).await else {
            let sentence = "the body did not arrive in time".to_owned();
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", sentence));
        };
        let data = match frame {
            None => break,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => {
                let sentence = format!("the body did not arrive whole: {error}");
                return Err(Refusal::new(StatusCode::BAD_REQUEST, "body_incomplete", sentence));
            }
        };
        if first.len() + whole.len() + data.len() > MAX_BODY {
            drain(body).await;
            return Err(Refusal::too_large());
        }
        let Some(more) = state.room(data.len()) else {
            state.metrics.shed(Shed::Memory);
            drain(body).await;
            return Err(Refusal::overloaded("too many bytes of requests at once"));
        };
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(length.unwrap_or_default().min(MAX_BODY));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok((if whole.is_empty() { first } else { whole.freeze() }, room))
}

/// Reads the rest of a body that nobody wants: a connection that closes on a sender takes the answer with it.
async fn drain(mut body: Body) {
    let reading = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > MAX_DRAINED {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(BODY_TIME, reading).await;
}

/// A request that gets no review for an answer.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    code: Option<Answered>,
    sentence: String,
}

impl Refusal {
    fn new(status: StatusCode, code: Answered, sentence: String) -> Self {
        Self { status, code: Some(code), sentence }
    }

    fn too_large() -> Self {
        let sentence = format!("the body is larger than {MAX_BODY} bytes, which no review of a pod is");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", sentence)
    }

    fn overloaded(sentence: &str) -> Self {
        let sentence = format!("fabric-injector is overloaded: {sentence}");
        Self { status: StatusCode::TOO_MANY_REQUESTS, code: None, sentence }
    }

    /// A `Status` of the Kubernetes API, whose message the API server shows to its user.
    fn reply(self, state: &State) -> Reply {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(clippy::struct_field_names, reason = "the API calls the field so")]
        struct Status<'a> {
            kind: &'static str,
            api_version: &'static str,
            status: &'static str,
            message: &'a str,
            code: u16,
        }
        tracing::debug!(status = self.status.as_u16(), detail = self.sentence, "request rejected");
        if let Some(code) = self.code {
            state.metrics.rejected(code);
        }
        let message = self.sentence.as_str();
        let status = Status {
            kind: "Status",
            api_version: "v1",
            status: "Failure",
            message,
            code: self.status.as_u16(),
        };
        let mut reply = reply(self.status, serde_json::to_vec(&status).unwrap_or_default().into());
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => {
                reply.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                reply.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
            }
            _ => {}
        }
        reply
    }
}

fn reply(status: StatusCode, body: Bytes) -> Reply {
    let mut reply = Response::new(Body::from(body));
    *reply.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    reply
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
