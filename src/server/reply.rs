//! Response bodies, which hold their memory permit until they are sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::{Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;

use super::connections::Held;

/// The size of a frame. The next one is handed to the connection when the client has taken this one, so that a response
/// holds its permit until the client reads it.
const FRAME: usize = 16 << 10;

/// The memory of a response.
pub(super) struct Memory {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) held: Option<Held>,
}

struct Sending {
    rest: Bytes,
    memory: Option<Memory>,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.memory.iter().flat_map(|memory| &memory.held).for_each(Held::progress);
        let length = self.rest.len().min(FRAME);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// A response in JSON, with its memory.
pub(super) fn json(status: StatusCode, bytes: Bytes, memory: Option<Memory>) -> Response<Body> {
    let mut reply = Response::new(Body::new(Sending { rest: bytes, memory }));
    *reply.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    reply
}
