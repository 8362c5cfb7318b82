//! The body of an answer, which takes room until it was sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::{Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;

/// What is handed on at once. The rest stays here until the client has taken that, so that the room of an answer is
/// taken for as long as nobody reads it.
const PIECE: usize = 16 << 10;

/// Bytes on their way to a client.
struct Sending {
    rest: Bytes,
    _room: Option<OwnedSemaphorePermit>,
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
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// An answer in JSON, and the room that it takes until it was sent.
pub(super) fn json(status: StatusCode, bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> Response<Body> {
    let mut reply = Response::new(Body::new(Sending { rest: bytes, _room: room }));
    *reply.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    reply
}
