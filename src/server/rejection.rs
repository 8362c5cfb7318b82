//! The responses to requests that are not answered with a review.

use hyper::{Response, StatusCode, header};

use crate::telemetry::{Answered, Shed};

use super::reply::{self, ReplyBody};
use super::state::State;

/// The longest message. It may quote the request, which may have any length.
const MAX_MESSAGE: usize = 512;

/// The reason of an overload, for people.
pub(super) fn overload(why: Shed) -> &'static str {
    match why {
        Shed::InFlight => "too many requests at once (`--max-in-flight`)",
        Shed::Namespace => "too many requests of this namespace at once",
        Shed::Memory => "too many bytes of requests at once",
        Shed::Deadline => "not enough time (`timeoutSeconds`)",
    }
}

/// The response to a request that is not answered with a review.
#[derive(Debug)]
pub(super) struct Rejection {
    status: StatusCode,
    code: Option<Answered>,
    message: String,
    /// The connection ends with the response, because the body of the request may not have been read.
    closes: bool,
}

impl Rejection {
    pub(super) fn new(status: StatusCode, code: Answered, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
        }
        Self { status, code: Some(code), message, closes: true }
    }

    /// The response under overload. The API server tries again after the time in its `Retry-After`.
    pub(super) fn overloaded(why: Shed) -> Self {
        let message = format!("fabric-injector is overloaded: {}", overload(why));
        let closes = why == Shed::Memory;
        Self { status: StatusCode::TOO_MANY_REQUESTS, code: None, message, closes }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The reason, as a stable code.
    pub(super) fn reason(&self) -> &'static str {
        self.code.unwrap_or("overload")
    }

    /// The response, whose message the API server shows to its client.
    pub(super) fn reply(self, state: &State) -> Response<ReplyBody> {
        let Self { status, code, message, closes } = self;
        tracing::debug!(status = status.as_u16(), detail = message, "request rejected");
        if let Some(code) = code {
            state.metrics.rejected(code);
        }
        let mut reply = reply::status(status, &message);
        if closes {
            reply.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        match status {
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
