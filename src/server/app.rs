//! The routes of both ports, and the layers around them.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::telemetry::INTERNAL;

use super::admin;
use super::rejection::Rejection;
use super::state::AppState;
use super::trace::trace;
use super::webhook::{advise, check_policies, mutate};

/// The HTTPS port.
pub fn webhook(state: Arc<AppState>) -> Router {
    let routes = Router::new()
        .route("/mutate", post(mutate))
        .route("/validate-workloads", post(advise))
        .route("/validate-policies", post(check_policies))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path);
    with_layers(routes, state)
}

/// The layers of every request to the HTTPS port. A panic outside of the engine, which catches its own, becomes a response,
/// so that the connection goes on. The limits on memory, number and time are not among them: they come with the body, in
/// `review.rs` and `webhook.rs`. A body that never arrives must not hold a place, and 512 places of 7 MiB are 3.5 GiB.
fn with_layers(routes: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
    let traced = from_fn_with_state(Arc::clone(&state), trace);
    routes.layer(traced).layer(catch_panic(&state)).with_state(state)
}

/// The admin port.
pub fn admin(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/livez", get(admin::live))
        .route("/readyz", get(admin::ready))
        .route("/metrics", get(admin::metrics))
        .route("/policies", get(admin::policies))
        .method_not_allowed_fallback(admin::wrong_method)
        .fallback(admin::unknown_path)
        .layer(catch_panic(&state))
        .with_state(state)
}

/// The response to a panic, whose message is in the log.
fn catch_panic(
    state: &Arc<AppState>,
) -> CatchPanicLayer<impl FnMut(Box<dyn Any + Send>) -> Response + Clone + use<>> {
    let metrics = Arc::clone(&state.metrics);
    CatchPanicLayer::custom(move |_| {
        metrics.rejected.count(INTERNAL);
        let message = "internal error, a bug in fabric-injector; see its log";
        Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, message).into_response()
    })
}

async fn unknown_path(uri: Uri) -> Rejection {
    let path: String = uri.path().chars().take(128).collect();
    let message = format!("there is no resource at `{path}`; send reviews to `/mutate`");
    Rejection::new(StatusCode::NOT_FOUND, "path", message)
}

async fn wrong_method(method: Method, uri: Uri) -> Rejection {
    let method: String = method.as_str().chars().take(64).collect();
    let path = uri.path();
    let message =
        format!("the method `{method}` is not allowed at `{path}`; send an AdmissionReview with `POST`");
    Rejection::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::extract::Request;
    use fabric_engine::admission::OnError;
    use fabric_engine::policy_set::PolicySet;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Duration;
    use tower::ServiceExt as _;

    use super::super::limits::Limits;
    use super::super::port::Port;
    use super::*;

    /// The layers around a route that panics.
    fn faulty(state: &Arc<AppState>) -> Router {
        let fault = get(async || assert!(state_is_sound(), "a test panics"));
        let routes = Router::new().route("/fault", fault).route("/", get(async || "{}"));
        with_layers(routes, Arc::clone(state))
    }

    fn state_is_sound() -> bool {
        false
    }

    fn state() -> Arc<AppState> {
        Arc::new(AppState::new(PolicySet::default(), OnError::Deny, Limits::default()))
    }

    #[tokio::test]
    async fn a_panic_in_a_handler_is_a_500_with_a_message_and_is_counted() {
        let state = state();
        let request = Request::get("/fault").body(String::new()).unwrap();
        let response = faulty(&state).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = to_bytes(response.into_body(), 1_024).await.unwrap();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["message"], "internal error, a bug in fabric-injector; see its log");
        let metrics = state.metrics.encode();
        assert!(metrics.contains("rejected_requests_total{reason=\"internal\"} 1\n"), "{metrics}");
        assert!(metrics.contains("requests_in_flight 0\n"), "{metrics}");
    }

    #[tokio::test]
    async fn a_panic_on_a_request_closes_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = Port {
            app: faulty(&state()),
            tls: None,
            max_age: Duration::from_mins(1),
            connections: Arc::default(),
            max_connections: 8,
            metrics: None,
        };
        let _open = port.open(listener);
        let mut stream = TcpStream::connect(address).await.unwrap();
        for (path, status) in [("/", "200 OK"), ("/fault", "500 Internal Server Error"), ("/", "200 OK")] {
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = [0; 1024];
            let length = stream.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..length]);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{path}: {answer}");
        }
    }
}
