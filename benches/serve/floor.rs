//! The floor: the same ports, connections, limits and logs, and a handler that reads the body and allows.

use std::time::SystemTime;

use bytes::Bytes;
use fabric_engine::admission::{Mode, OnError};
use fabric_injector::authority::Authority;
use fabric_injector::policy_sources::PolicySources;
use fabric_injector::server::{
    Config, Handler, InFlight, Limits, MaxConnections, ReplyBody, RequestBody, Server, Timeouts, TlsSource,
};
use fabric_injector::telemetry::logs;
use http_body_util::BodyExt as _;
use hyper::{Request, Response, header};
use tokio::sync::mpsc;
use tokio::time::Duration;

/// The argument that makes this program the floor.
pub(crate) const ARGUMENT: &str = "--floor";

const ANSWER: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"4a1b8f3e-7c52-4d1e-9a63-0f5be2d7c816","allowed":true}}"#;

/// Reads the body of each request, and allows the pod.
struct Allow;

impl Handler for Allow {
    async fn respond<B: RequestBody>(&self, request: Request<B>, in_flight: InFlight) -> Response<ReplyBody> {
        let mut body = request.into_body();
        while let Some(Ok(_)) = body.frame().await {}
        let mut response = Response::new(ReplyBody::from(Bytes::from_static(ANSWER)).for_request(in_flight));
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
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
        timeouts: Timeouts::default(),
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
        server.run_with(Allow, stops).await.unwrap();
    });
}
