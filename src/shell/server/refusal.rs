//! Requests that get no review for an answer.

use axum::body::Body;
use hyper::{Response, StatusCode, header};
use serde::Serialize;

use crate::shell::telemetry::{Answered, Shed};

use super::reply;
use super::state::State;

/// A refusal repeats what a stranger sent, which may be of any length.
const MAX_SENTENCE: usize = 512;

/// What people are told of an overload.
pub(super) fn overload(why: Shed) -> &'static str {
    match why {
        Shed::InFlight => "too many requests at once (`--max-in-flight`)",
        Shed::Memory => "too many bytes of requests at once",
        Shed::Deadline => "not enough time (`timeoutSeconds`)",
    }
}

/// A request that gets no review for an answer, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Option<Answered>,
    sentence: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Answered, sentence: impl Into<String>) -> Self {
        let mut sentence: String = sentence.into();
        if let Some((end, _)) = sentence.char_indices().nth(MAX_SENTENCE) {
            sentence.truncate(end);
        }
        Self { status, code: Some(code), sentence }
    }

    /// The early answer of a server that is asked for too much; after its `Retry-After` an API server tries again.
    pub(super) fn overloaded(why: Shed) -> Self {
        let sentence = format!("fabric-injector is overloaded: {}", overload(why));
        Self { status: StatusCode::TOO_MANY_REQUESTS, code: None, sentence }
    }

    /// The status that it is answered with.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Why, as a stable code.
    pub(super) fn reason(&self) -> &'static str {
        self.code.unwrap_or("overload")
    }

    /// A `Status` of the Kubernetes API, whose message the API server shows to its user.
    pub(super) fn reply(self, state: &State) -> Response<Body> {
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
        let Self { status, code, sentence } = self;
        tracing::debug!(status = status.as_u16(), detail = sentence, "request rejected");
        if let Some(code) = code {
            state.metrics.rejected(code);
        }
        let body = Status {
            kind: "Status",
            api_version: "v1",
            status: "Failure",
            message: &sentence,
            code: status.as_u16(),
        };
        let mut reply = reply::json(status, serde_json::to_vec(&body).unwrap_or_default().into(), None);
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
