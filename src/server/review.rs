//! The extractor of a review, within limits of size, time and memory.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequest, Query, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use humantime::parse_duration;
use hyper::body::Body as _;
use tokio::time::{Duration, timeout_at};

use crate::telemetry::Shed;

use super::connections::InFlight;
use super::limits::MAX_BODY;
use super::memory::MemoryPermit;
use super::rejection::Rejection;
use super::state::AppState;

/// The time limit for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A review that has arrived. The engine reads its JSON, most of which it only passes over.
#[derive(Debug, Clone)]
pub(super) struct Review {
    /// It holds its memory until its last clone is dropped.
    pub(super) body: Bytes,
    /// The time by which the API server needs the response.
    pub(super) deadline: Instant,
    pub(super) request: Arc<InFlight>,
}

impl FromRequest<Arc<AppState>> for Review {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, Rejection> {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        is_json(&head.headers)?;
        let deadline = started + request_timeout(&head.uri);
        let request = head.extensions.get::<Arc<InFlight>>().cloned().unwrap_or_default();
        let body = read(state, body, deadline.min(started + BODY_TIMEOUT), &request).await?;
        request.waits_for_server();
        Ok(Self { body, deadline, request })
    }
}

fn is_json(headers: &HeaderMap) -> Result<(), Rejection> {
    let sent = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media_type = sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if media_type.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let sent: String = String::from_utf8_lossy(sent).chars().take(64).collect();
    let message = format!("the content type is `{sent}`; send `application/json`");
    Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message))
}

/// The keys and values of a query.
pub(super) type QueryPairs = Query<Vec<(String, String)>>;

/// The time limit of the API server for the response, from its query parameter `timeout`.
fn request_timeout(uri: &Uri) -> Duration {
    let query = QueryPairs::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default();
    let mut values = query.iter().filter(|(key, _)| key == "timeout");
    let timeout = values.find_map(|(_, value)| parse_duration(value).ok());
    // The API's own bounds for `timeoutSeconds`; 10 s is its default.
    let timeout = timeout.filter(|timeout| !timeout.is_zero());
    let timeout = timeout.unwrap_or(Duration::from_secs(10)).min(Duration::from_secs(30));
    // A tenth is left for the response to arrive.
    timeout.mul_f64(0.9)
}

/// Reads a body. With its first bytes, it takes memory for its whole length, or waits for it: bodies that took memory as
/// they arrive could each hold a part of it, and none of them end.
async fn read(
    state: &AppState,
    mut body: Body,
    deadline: Instant,
    request: &InFlight,
) -> Result<Bytes, Rejection> {
    let (mut whole, mut permit) = (BytesMut::new(), None::<MemoryPermit>);
    let length = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    let expected = length.unwrap_or(state.memory.of_any_body());
    while let Some(chunk) = next(&mut body, deadline).await? {
        request.has_received(chunk.len());
        let size = whole.len() + chunk.len();
        if size > MAX_BODY {
            return Err(too_large());
        }
        if permit.is_none() {
            let memory = timeout_at(deadline.into(), state.memory.permit(expected, request)).await;
            permit = memory.ok().flatten();
        }
        if permit.as_ref().is_none_or(|permit| permit.bytes() < size) {
            return Err(Rejection::overloaded(&state.metrics, Shed::Memory));
        }
        if whole.is_empty() {
            whole.reserve(length.unwrap_or(size));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(permit.map_or_else(Bytes::new, |permit| permit.hold(whole.freeze())))
}

/// The next chunk of a body, if there is one.
async fn next(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>, Rejection> {
    match timeout_at(deadline.into(), body.frame()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(error))) => {
            let message = format!("the body is incomplete: {error}");
            Err(Rejection::new(StatusCode::BAD_REQUEST, "body_incomplete", message))
        }
        Err(_) => {
            let message = "the body did not arrive in time";
            Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
        }
    }
}

fn too_large() -> Rejection {
    let message = format!("the body exceeds the limit of {MAX_BODY} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}
