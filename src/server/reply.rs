//! Responses, which hold their memory until they are sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::connections::InFlight;
use super::memory::MemoryPermit;

/// The size of a frame. The connection gets the next one when the client has taken this one, so that a response holds
/// its permit until the client reads it.
const FRAME: usize = 16 << 10;

/// The body of a response.
#[derive(Debug, Default)]
pub struct ReplyBody {
    rest: Bytes,
    /// The permit for its memory.
    _permit: Option<MemoryPermit>,
    /// The request, which ends with its response.
    _in_flight: Option<InFlight>,
}

impl From<Bytes> for ReplyBody {
    fn from(rest: Bytes) -> Self {
        Self { rest, _permit: None, _in_flight: None }
    }
}

impl ReplyBody {
    pub(super) fn holding(self, permit: MemoryPermit) -> Self {
        Self { _permit: Some(permit), ..self }
    }

    /// The request is in flight until this is sent.
    #[must_use]
    pub fn for_request(self, request: InFlight) -> Self {
        request.waits_for_client();
        Self { _in_flight: Some(request), ..self }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
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

/// A response of a media type.
pub(super) fn reply(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<ReplyBody> {
    let mut reply = Response::new(ReplyBody::from(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

/// A response in JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<ReplyBody> {
    reply(status, "application/json", body)
}

/// A `Status` of the Kubernetes API, whose message the API server shows to its client.
pub(super) fn status(status: StatusCode, message: &str) -> Response<ReplyBody> {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "code": status.as_u16(),
    });
    json(status, body.to_string())
}
