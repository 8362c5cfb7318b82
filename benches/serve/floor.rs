//! The floor: the same ports, connections, limits and logs, and a handler that reads the body and allows.

use std::time::SystemTime;

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use fabric_engine::admission::{Mode, OnError};
use fabric_injector::authority::Authority;
use fabric_injector::policy_sources::PolicySources;
use fabric_injector::server::{Config, Limits, MaxConnections, Server, TlsSource};
use fabric_injector::telemetry::logs;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::Duration;

/// The argument that makes this program the floor.
pub(crate) const ARGUMENT: &str = "--floor";

const ANSWER: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"4a1b8f3e-7c52-4d1e-9a63-0f5be2d7c816","allowed":true}}"#;

/// Reads the body of a request, and allows the pod.
async fn allow(request: Request) -> impl IntoResponse {
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    ([(header::CONTENT_TYPE, "application/json")], ANSWER)
}

/// Serves until it is killed.
pub(crate) fn serve() {
    let _log = logs::install("info", std::io::stderr()).unwrap();
    let now = SystemTime::now();
    let life = Duration::from_hours(1);
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    let issued = Authority::new(now).unwrap().issue(&[], &[loopback], now, life).unwrap();
    let config = Config {
        listen: (loopback, 0).into(),
        admin_listen: (loopback, 0).into(),
        tls: TlsSource::Memory(issued),
        policy_sources: PolicySources { policies: vec!["aws-efa".to_owned()], ..PolicySources::default() },
        mode: Mode::Inject,
        on_error: OnError::Deny,
        shutdown_delay: Duration::ZERO,
        drain_timeout: Duration::ZERO,
        events: false,
        limits: Limits::default(),
        max_connections: MaxConnections::with(1_024),
        max_connection_age: Duration::from_mins(5),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(4))
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::bind(config, None).await.unwrap();
        let (address, admin) = (server.address().unwrap(), server.admin_address().unwrap());
        tracing::info!(%address, %admin, "listening");
        let (_stop, stops) = mpsc::channel(1);
        server.run_with(Router::new().route("/mutate", post(allow)), stops).await.unwrap();
    });
}
