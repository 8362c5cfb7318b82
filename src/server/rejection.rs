//! The responses to requests that are not answered with a review.

use axum::Extension;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::telemetry::{Answered, Metrics, Shed};

use super::trace::Outcome;

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

/// The response to a request that is not answered with a review: a `Status` of the Kubernetes API, whose message the API
/// server shows to its client.
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
        // A fault of the program is no reason to end a connection.
        Self { status, code: Some(code), message, closes: status.is_client_error() }
    }

    /// The response under overload, which is counted. The API server tries again after the time in its `Retry-After`.
    pub(super) fn overloaded(metrics: &Metrics, why: Shed) -> Self {
        metrics.shed.count(why.name());
        let message = format!("fabric-injector is overloaded: {}", overload(why));
        Self { status: StatusCode::TOO_MANY_REQUESTS, code: None, message, closes: why == Shed::Memory }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Self { status, code, message, closes } = self;
        tracing::debug!(status = status.as_u16(), detail = message, "request rejected");
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "code": status.as_u16(),
        });
        let media_type = [(header::CONTENT_TYPE, "application/json")];
        let close = closes.then_some([(header::CONNECTION, "close")]);
        let retry = (status == StatusCode::TOO_MANY_REQUESTS).then_some([(header::RETRY_AFTER, "1")]);
        let outcome = Extension(Outcome::Rejected(code));
        (status, media_type, close, retry, outcome, body.to_string()).into_response()
    }
}
