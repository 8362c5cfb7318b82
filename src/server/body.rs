//! Reads request bodies within limits of size, time and memory.

use std::time::Instant;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{self, Duration, timeout_at};

use crate::telemetry::Shed;
use fabric_engine::admission::OnError;

use super::connections::{Held, Slot};
use super::rejection::Rejection;
use super::state::State;

/// The largest body: an API server accepts objects of up to 3 MiB, a review may contain two of them (`object` and
/// `oldObject`), and 1 MiB is for the rest.
pub const MAX_BODY: usize = 7 << 20;
/// The time within which a body has to arrive.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time within which the next part of a body has to arrive, or its end. API servers send a body at once.
const PART_TIMEOUT: Duration = Duration::from_secs(2);
/// The size of such a part.
const PART: usize = 16 << 10;
/// The most that is read of a body that is not used.
const MAX_DRAINED: usize = 64 << 20;

/// A body that has arrived.
#[derive(Debug)]
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    _permits: Vec<OwnedSemaphorePermit>,
    /// The memory limit is exceeded, so that the review is answered without evaluation.
    pub(super) shed: bool,
}

/// Reads a body. `length` is its `content-length`, if there is one; `slot` is its connection.
pub(super) async fn read_body(
    state: &State,
    mut body: Body,
    length: Option<usize>,
    deadline: Instant,
    slot: Option<&Slot>,
) -> Result<BufferedBody, Rejection> {
    // Most bodies arrive as one chunk, which is not copied.
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut memory = MemoryPermit::default();
    let mut held = slot.map(|slot| slot.connection.hold(0));
    let mut parts = Parts::new(deadline);
    while let Some(data) = next(&mut body, parts.due).await? {
        let received = first.len() + whole.len() + data.len();
        if received > MAX_BODY {
            drop((first, whole, memory, held));
            drain(body, deadline).await;
            return Err(too_large());
        }
        if let Some(held) = &mut held {
            held.add(data.len());
        }
        if parts.received(received) {
            held.iter().for_each(Held::progress);
        }
        if !memory.extend(state, data.len(), deadline, slot).await {
            state.metrics.shed(Shed::Memory);
            drop((data, first, whole, memory, held));
            drain(body, deadline).await;
            return Err(Rejection::overloaded(Shed::Memory));
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
    let shed = memory.spare.is_some();
    Ok(BufferedBody { bytes, _permits: memory.regular.into_iter().chain(memory.spare).collect(), shed })
}

/// The parts in which a body arrives.
struct Parts {
    deadline: time::Instant,
    /// The time by which the next part has to be there.
    due: time::Instant,
    /// The bytes that are there with it.
    expected: usize,
}

impl Parts {
    fn new(deadline: Instant) -> Self {
        let mut parts = Self { deadline: deadline.into(), due: deadline.into(), expected: 0 };
        parts.received(0);
        parts
    }

    /// Returns whether these bytes complete a part.
    fn received(&mut self, bytes: usize) -> bool {
        let complete = bytes >= self.expected;
        if complete {
            self.expected = bytes + PART;
            self.due = self.deadline.min(time::Instant::now() + PART_TIMEOUT);
        }
        complete
    }
}

/// The next chunk of a body, if there is one.
async fn next(body: &mut Body, due: time::Instant) -> Result<Option<Bytes>, Rejection> {
    match timeout_at(due, body.frame()).await {
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

/// The permits for the memory of a body.
#[derive(Debug, Default)]
struct MemoryPermit {
    regular: Option<OwnedSemaphorePermit>,
    /// The permit of one more body than the limit allows, with which a pod is admitted unchanged.
    spare: Option<OwnedSemaphorePermit>,
}

impl MemoryPermit {
    /// Returns whether there is memory for more bytes.
    async fn extend(&mut self, state: &State, bytes: usize, deadline: Instant, slot: Option<&Slot>) -> bool {
        if self.spare.is_some() {
            return true;
        }
        let permit = timeout_at(deadline.into(), state.bodies.permit(bytes, slot)).await.ok().flatten();
        match (permit, &mut self.regular) {
            (Some(more), Some(regular)) => regular.merge(more),
            (Some(more), regular @ None) => *regular = Some(more),
            (None, _) if state.on_error == OnError::Allow => {
                self.spare = timeout_at(deadline.into(), state.spare_body_permit()).await.ok().flatten();
                return self.spare.is_some();
            }
            (None, _) => return false,
        }
        true
    }
}

/// Reads the rest of a body that is not used: a client that still sends when the connection closes loses the response.
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

/// The rejection of a body that is larger than any review.
pub(super) fn too_large() -> Rejection {
    let sentence = format!("the body is larger than {MAX_BODY} bytes, which no review of a pod is");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", sentence)
}
