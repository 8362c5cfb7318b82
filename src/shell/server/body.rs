//! Reading the body of a request within limits of size, time and memory.

use std::time::Instant;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, timeout_at};

use crate::core::admission::OnError;
use crate::shell::telemetry::Shed;

use super::refusal::Refusal;
use super::state::State;

/// The largest body: an API server takes objects of up to 3 MiB (`limit` of its request bodies), a review may
/// hold one twice (`object` and `oldObject`), and 1 MiB is for the rest of it.
pub const MAX_BODY: usize = 7 << 20;
/// How long a body may take to arrive.
pub(super) const BODY_TIME: Duration = Duration::from_secs(10);
/// What is read and thrown away of a body that nobody wants, so that its sender gets to read the answer.
const MAX_DRAINED: usize = 64 << 20;

/// A body that has arrived.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// The room that it takes, given back when nobody needs it any more.
    _room: Vec<OwnedSemaphorePermit>,
    /// There was no room for it, so that it can be answered, but not served.
    pub(super) shed: bool,
}

/// Reads a whole body. `length` is what its sender said of it, if anything.
pub(super) async fn read(
    state: &State,
    mut body: Body,
    length: Option<usize>,
    deadline: Instant,
) -> Result<Whole, Refusal> {
    // Most bodies come in one piece, which then need not be copied.
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut room = Room::default();
    while let Some(data) = next(&mut body, deadline).await? {
        if first.len() + whole.len() + data.len() > MAX_BODY {
            drain(body, deadline).await;
            return Err(too_large());
        }
        if !room.take(state, data.len(), deadline).await {
            state.metrics.shed(Shed::Memory);
            drain(body, deadline).await;
            return Err(Refusal::overloaded(Shed::Memory));
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
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    let shed = room.spare.is_some();
    Ok(Whole { bytes, _room: room.ours.into_iter().chain(room.spare).collect(), shed })
}

/// The next piece of a body, if there is one.
async fn next(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>, Refusal> {
    match timeout_at(deadline.into(), body.frame()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(error))) => {
            let sentence = format!("the body did not arrive whole: {error}");
            Err(Refusal::new(StatusCode::BAD_REQUEST, "body_incomplete", sentence))
        }
        Err(_) => {
            let sentence = "the body did not arrive in time".to_owned();
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", sentence))
        }
    }
}

/// The memory that a body takes.
#[derive(Debug, Default)]
struct Room {
    ours: Option<OwnedSemaphorePermit>,
    /// The room for one body more than there is room for, so that it can at least be answered.
    spare: Option<OwnedSemaphorePermit>,
}

impl Room {
    async fn take(&mut self, state: &State, bytes: usize, deadline: Instant) -> bool {
        if self.spare.is_some() {
            return true;
        }
        match (state.room(bytes), &mut self.ours) {
            (Some(more), Some(ours)) => ours.merge(more),
            (Some(more), ours @ None) => *ours = Some(more),
            (None, _) if state.on_error == OnError::Allow => {
                self.spare = timeout_at(deadline.into(), state.spare_room()).await.ok().flatten();
                return self.spare.is_some();
            }
            (None, _) => return false,
        }
        true
    }
}

/// Reads the rest of a body that nobody wants: a connection that closes on a sender takes the answer with it.
pub(super) async fn drain(mut body: Body, deadline: Instant) {
    let reading = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > MAX_DRAINED {
                break;
            }
        }
    };
    let _ = timeout_at(deadline.into(), reading).await;
}

/// What is said of a body that is larger than any review.
pub(super) fn too_large() -> Refusal {
    let sentence = format!("the body is larger than {MAX_BODY} bytes, which no review of a pod is");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", sentence)
}
