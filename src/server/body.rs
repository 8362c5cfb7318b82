//! Reads request bodies within limits of size, time and memory.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::time::{Duration, timeout_at};

use crate::telemetry::Shed;

use super::connection::RequestBody;
use super::connections::InFlight;
use super::limits::MAX_BODY;
use super::memory::MemoryPermit;
use super::rejection::Rejection;
use super::state::State;

/// The time limit for a body to arrive.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A body that has arrived.
#[derive(Debug)]
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    _permit: Option<MemoryPermit>,
}

/// Reads a body. With its first bytes, it takes memory for its whole length, or waits for it: bodies that took memory as
/// they arrive could each hold a part of it, and none of them end.
pub(super) async fn read_body(
    state: &State,
    mut body: impl RequestBody,
    deadline: Instant,
    request: &InFlight,
) -> Result<BufferedBody, Rejection> {
    // Most bodies arrive as one chunk, which is not copied.
    let (mut first, mut whole, mut size) = (Bytes::new(), BytesMut::new(), 0);
    let mut permit: Option<MemoryPermit> = None;
    let length = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    let expected = length.unwrap_or(state.memory.of_any_body());
    while let Some(chunk) = next(&mut body, deadline).await? {
        size += chunk.len();
        request.has_received(chunk.len());
        if size > MAX_BODY {
            return Err(too_large());
        }
        if permit.is_none() {
            let memory = timeout_at(deadline.into(), state.memory.permit(expected, request)).await;
            permit = memory.ok().flatten();
        }
        if permit.as_ref().is_none_or(|permit| permit.bytes() < size) {
            state.metrics.shed(Shed::Memory);
            return Err(Rejection::overloaded(Shed::Memory));
        }
        if size == chunk.len() {
            first = chunk;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(length.unwrap_or(size));
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&chunk);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    if let Some(permit) = &mut permit {
        permit.shrink_to(size);
    }
    Ok(BufferedBody { bytes, _permit: permit })
}

/// The next chunk of a body, if there is one.
async fn next(body: &mut impl RequestBody, deadline: Instant) -> Result<Option<Bytes>, Rejection> {
    match timeout_at(deadline.into(), body.frame()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(error))) => {
            let sentence = format!("the body is incomplete: {error}");
            Err(Rejection::new(StatusCode::BAD_REQUEST, "body_incomplete", sentence))
        }
        Err(_) => {
            let sentence = "the body did not arrive in time".to_owned();
            Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", sentence))
        }
    }
}

/// The rejection of a body that is larger than any review.
pub(super) fn too_large() -> Rejection {
    let sentence = format!("the body exceeds the limit of {MAX_BODY} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", sentence)
}
