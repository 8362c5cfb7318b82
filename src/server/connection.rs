//! One connection, from the TLS handshake to its end, with its timeouts.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service as TowerService;

use crate::telemetry::Metrics;

use super::connections::{Connection, InFlight, Slot};
use super::linger::Lingering;

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// The head of an HTTP/1.1 request, and the idle time before it.
    pub head: Duration,
    /// The idle time of a connection.
    pub idle: Duration,
    /// The age of a connection, with a jitter of a tenth.
    pub age: Duration,
    /// The time from announcing the close of a connection to closing it.
    pub closing: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            age: Duration::from_mins(5),
            closing: Duration::from_secs(35),
        }
    }
}

/// The largest head of a request. API servers send a few hundred bytes.
const MAX_HEAD: u32 = 16 << 10;
/// Concurrent requests on one HTTP/2 connection. A request whose body does not arrive takes about 10 KiB, and any client
/// can have as many connections as there may be. API servers use HTTP/1.1 for webhooks.
const MAX_STREAMS: u32 = 8;
/// The interval of HTTP/2 pings, and the time within which the client has to answer one.
const PING: Duration = Duration::from_secs(20);

/// The time for which a client may leave its responses unread.
const STUCK: Duration = Duration::from_mins(1);
/// The time within which a connection without requests has to end after its close was announced.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a connection that closes waits for a request that the client may have sent already: the first one
/// of HTTP/2, one more of HTTP/1.1.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// The phases of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// It accepts connections, and asks clients to go to other replicas.
    Leaving,
    /// It finishes the requests in flight.
    Draining,
}

/// The router, which counts the requests in flight.
#[derive(Debug, Clone)]
struct Service {
    router: Router,
    slot: Arc<Slot>,
    /// The phase of the server, for HTTP/1.1: from `Leaving` on, each response is the last of its connection. Closing
    /// an idle connection may cut off a request that the client does not repeat, and API servers use HTTP/1.1 for
    /// webhooks.
    phase: Option<watch::Receiver<Phase>>,
}

impl Service {
    /// Returns whether a response is the last of its connection, so that it has `connection: close`.
    fn should_close(&self) -> bool {
        let leaving = |phase: &watch::Receiver<Phase>| *phase.borrow() >= Phase::Leaving;
        self.phase.as_ref().is_some_and(|phase| leaving(phase) || self.slot.connection.ends())
    }
}

impl hyper::service::Service<hyper::Request<Incoming>> for Service {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let in_flight = self.slot.connection.request();
        request.extensions_mut().insert(Arc::clone(&self.slot));
        let response = self.router.clone().call(request);
        let service = self.clone();
        Box::pin(async move {
            let mut response = response.await?;
            if service.should_close() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Body::new(CountedBody { body, _in_flight: in_flight })))
        })
    }
}

/// A response body, which counts as in flight until it is sent.
struct CountedBody {
    body: Body,
    _in_flight: InFlight,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The environment of a connection.
pub(super) struct Context {
    pub(super) router: Router,
    pub(super) timeouts: Timeouts,
    pub(super) slot: Arc<Slot>,
    pub(super) phase: watch::Receiver<Phase>,
    /// None on the admin port.
    pub(super) metrics: Option<Arc<Metrics>>,
}

impl Context {
    fn count(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    /// Counts a connection that the server closes.
    fn closed(&self, reason: &'static str) {
        self.count(|metrics| metrics.closed(reason));
    }
}

/// Serves one connection until it ends or is evicted.
pub(super) async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, context: Context) {
    tokio::select! {
        biased;
        // Without a farewell, for which the client might never be ready: another one waits for its place.
        () = context.slot.connection.evicted.notified() => context.closed("evicted"),
        () = serve_to_end(stream, tls, &context) => {}
    }
}

async fn serve_to_end(stream: TcpStream, tls: Option<TlsAcceptor>, context: &Context) {
    // A response is one write, so that Nagle's algorithm would only delay it.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = tls else { return serve_http1(stream, context).await };
    // The negotiated protocol decides rather than the first bytes, which may never arrive.
    match handshake(stream, acceptor, context).await {
        Some(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            serve_http2(stream, context).await;
        }
        Some(stream) => serve_http1(stream, context).await,
        None => {}
    }
}

async fn handshake(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    context: &Context,
) -> Option<TlsStream<TcpStream>> {
    context.count(Metrics::handshake);
    let failed = match timeout(context.timeouts.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => {
            let reason = handshake_failure(&error);
            tracing::debug!(%error, reason, "TLS handshake failed");
            reason
        }
        Err(_) => "timeout",
    };
    context.count(|metrics| metrics.handshake_failed(failed));
    None
}

fn handshake_failure(error: &std::io::Error) -> &'static str {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
            "client_certificate"
        }
        Some(_) => "protocol",
        None => "closed",
    }
}

async fn serve_http1(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, context: &Context) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(context.timeouts.head)
        .max_buf_size(MAX_HEAD as usize)
        .half_close(true);
    let service = Service {
        router: context.router.clone(),
        slot: Arc::clone(&context.slot),
        phase: Some(context.phase.clone()),
    };
    drive(builder.serve_connection(TokioIo::new(Lingering::new(stream)), service), context, true).await;
}

async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, context: &Context) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD);
    let service = Service { router: context.router.clone(), slot: Arc::clone(&context.slot), phase: None };
    drive(builder.serve_connection(TokioIo::new(Lingering::new(stream)), service), context, false).await;
}

/// Runs a connection, and closes it when it is too old or idle for too long, or when the server stops.
async fn drive(running: impl GracefulConnection, context: &Context, http1: bool) {
    let connection = &context.slot.connection;
    let mut running = pin!(running);
    let mut phase = context.phase.clone();
    let mut old = pin!(sleep(with_jitter(context.timeouts.age)));
    if !http1 && *phase.borrow() == Phase::Draining {
        // The client may not have sent its first request yet.
        tokio::select! {
            _ = running.as_mut() => return,
            () = sleep(LAST_REQUEST) => {}
        }
    }
    let reason = loop {
        let check = sleep(context.timeouts.idle / 4);
        tokio::select! {
            _ = running.as_mut() => return,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => break None,
            () = old.as_mut() => break Some("age"),
            () = check => {
                if connection.idle().is_some_and(|idle| idle >= context.timeouts.idle) {
                    break Some("idle");
                }
                if connection.stuck().is_some_and(|stuck| stuck >= STUCK) {
                    // The client would not read an announcement either.
                    return context.closed("stuck");
                }
            }
        }
    };
    if let Some(reason) = reason {
        context.closed(reason);
    }
    if http1 && matches!(reason, None | Some("age")) {
        // The next response announces the close, because a request may have been sent already.
        connection.end();
        tokio::select! {
            _ = running.as_mut() => return,
            () = sleep(LAST_REQUEST) => {}
        }
    }
    // HTTP/2 sends GOAWAY and finishes the requests in flight; HTTP/1.1 closes after the current response.
    running.as_mut().graceful_shutdown();
    tokio::select! {
        _ = running => {}
        () = sleep(context.timeouts.closing) => {}
        () = idle(connection) => {}
    }
}

/// Waits until the connection has been idle for a while: a client that is lost, or has not begun to speak HTTP/2, does
/// not close.
async fn idle(connection: &Connection) {
    let announced = Instant::now();
    loop {
        let idle = connection.idle().unwrap_or_default().min(announced.elapsed());
        if idle >= CLOSE_TIMEOUT {
            return;
        }
        sleep(CLOSE_TIMEOUT.saturating_sub(idle)).await;
    }
}

/// Spreads the ends of connections that began at the same time.
fn with_jitter(age: Duration) -> Duration {
    age.mul_f64(0.9 + 0.2 * fastrand::f64())
}
