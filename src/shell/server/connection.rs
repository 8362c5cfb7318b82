//! One connection from its first byte to its last, and the limits on how long each part may take.

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

use crate::shell::telemetry::Metrics;

use super::connections::{Connection, Request as Answering};
use super::linger::Lingering;

/// How long the parts of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The TLS handshake.
    pub handshake: Duration,
    /// The head of a request by HTTP/1.1, and the silence before it.
    pub head: Duration,
    /// The silence of a connection.
    pub idle: Duration,
    /// The whole connection, give or take a tenth.
    pub age: Duration,
    /// From saying that the connection will close to closing it, for a client that goes on.
    pub closing: Duration,
}

impl Times {
    /// How old a connection gets by default.
    pub const AGE: Duration = Duration::from_mins(5);
}

impl Default for Times {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            age: Self::AGE,
            closing: Duration::from_secs(35),
        }
    }
}

/// The largest head of a request; that of an API server is a few hundred bytes.
const MAX_HEAD: u32 = 16 << 10;
/// Requests that a client may have open on one connection.
const MAX_STREAMS: u32 = 256;
/// A client that does not answer a ping within this time is gone.
const PING: Duration = Duration::from_secs(20);

/// How long a client may leave all of its answers unread: longer than any answer takes.
const STUCK: Duration = Duration::from_mins(1);
/// How long a connection on which nothing is asked may take to end once it was told to: as long as a handshake.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a connection has for a request that may be on its way when it is to end: its first one by HTTP/2, one more
/// by HTTP/1.1.
const LATE: Duration = Duration::from_secs(1);

/// How far a server is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// It still accepts, but clients should go elsewhere.
    Leaving,
    /// What was asked is answered, and nothing else.
    Draining,
}

/// What answers requests: the router, and a count of what is being answered.
#[derive(Debug, Clone)]
struct Service {
    router: Router,
    connection: Arc<Connection>,
    /// By HTTP/1.1, the phase of the server: from leaving on, each answer is the last of its connection. Who closes an
    /// idle connection may meet a request on its way, which its client does not send again; API servers speak
    /// HTTP/1.1 to webhooks.
    phase: Option<watch::Receiver<Phase>>,
}

impl Service {
    /// Whether an answer is the last of its connection, which is told by `connection: close`.
    fn farewell(&self) -> bool {
        let leaving = |phase: &watch::Receiver<Phase>| *phase.borrow() >= Phase::Leaving;
        self.phase.as_ref().is_some_and(|phase| leaving(phase) || self.connection.ends())
    }
}

impl hyper::service::Service<hyper::Request<Incoming>> for Service {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let answering = self.connection.request();
        let answer = self.router.clone().call(request);
        let service = self.clone();
        Box::pin(async move {
            let mut answer = answer.await?;
            if service.farewell() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer.map(|body| Body::new(Sent { body, _answering: answering })))
        })
    }
}

/// A body, and the count of what is being answered until it was sent.
struct Sent {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Sent {
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

/// Everything that a connection needs to know.
pub(super) struct Context {
    pub(super) router: Router,
    pub(super) times: Times,
    pub(super) connection: Arc<Connection>,
    /// How far the server is.
    pub(super) phase: watch::Receiver<Phase>,
    /// None on a port that is not the webhook's.
    pub(super) metrics: Option<Arc<Metrics>>,
}

impl Context {
    fn count(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    /// The connection is closed from this side.
    fn closed(&self, reason: &'static str) {
        self.count(|metrics| metrics.closed(reason));
    }
}

/// Serves one connection until it ends, of itself or because it must.
pub(super) async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, context: Context) {
    // A review is one write; waiting to join it with another only costs time.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = tls else { return serve_http1(stream, &context).await };
    let stream = tokio::select! {
        biased;
        () = context.connection.evicted.notified() => return context.closed("evicted"),
        stream = handshake(stream, acceptor, &context) => stream,
    };
    // By the protocol that was agreed on, not by the first bytes: those may never come.
    match stream {
        Some(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            serve_http2(stream, &context).await;
        }
        Some(stream) => serve_http1(stream, &context).await,
        None => {}
    }
}

async fn handshake(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    context: &Context,
) -> Option<TlsStream<TcpStream>> {
    context.count(Metrics::handshake);
    let failed = match timeout(context.times.handshake, acceptor.accept(stream)).await {
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
        .header_read_timeout(context.times.head)
        .max_buf_size(MAX_HEAD as usize)
        .half_close(true);
    let service = Service {
        router: context.router.clone(),
        connection: Arc::clone(&context.connection),
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
    let service =
        Service { router: context.router.clone(), connection: Arc::clone(&context.connection), phase: None };
    drive(builder.serve_connection(TokioIo::new(Lingering::new(stream)), service), context, false).await;
}

/// Runs a connection, and asks it to end when it is too old, was silent for too long, or the server stops.
async fn drive(running: impl GracefulConnection, context: &Context, http1: bool) {
    let mut running = pin!(running);
    let mut phase = context.phase.clone();
    let mut old = pin!(sleep(with_jitter(context.times.age)));
    if !http1 && *phase.borrow() == Phase::Draining {
        // It was accepted, so it is served.
        tokio::select! {
            _ = running.as_mut() => return,
            () = sleep(LATE) => {}
        }
    }
    let reason = loop {
        let look_again = sleep(context.times.idle / 4);
        tokio::select! {
            _ = running.as_mut() => return,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => break None,
            () = context.connection.evicted.notified() => break Some("evicted"),
            () = old.as_mut() => break Some("age"),
            () = look_again => {
                if context.connection.idle().is_some_and(|idle| idle >= context.times.idle) {
                    break Some("idle");
                }
                if context.connection.stuck().is_some_and(|stuck| stuck >= STUCK) {
                    // It will not read a farewell either.
                    return context.closed("stuck");
                }
            }
        }
    };
    if let Some(reason) = reason {
        context.closed(reason);
        if reason == "evicted" && !context.connection.has_asked() {
            return;
        }
    }
    if http1 && matches!(reason, None | Some("age")) {
        // With its next answer, if it is asked something: a request may be on its way already.
        context.connection.end();
        tokio::select! {
            _ = running.as_mut() => return,
            () = sleep(LATE) => {}
        }
    }
    // HTTP/2 says GOAWAY and finishes what was asked, HTTP/1.1 closes when nothing is being answered.
    running.as_mut().graceful_shutdown();
    tokio::select! {
        _ = running => {}
        () = sleep(context.times.closing) => {}
        () = silence(&context.connection) => {}
    }
}

/// Waits until nothing was asked for a while: a client that is gone, or has never begun to speak HTTP/2, does
/// not take its leave.
async fn silence(connection: &Connection) {
    let told = Instant::now();
    loop {
        let silent = connection.idle().unwrap_or_default().min(told.elapsed());
        if silent >= FAREWELL {
            return;
        }
        sleep(FAREWELL.saturating_sub(silent)).await;
    }
}

/// Connections that began together should not all end together.
fn with_jitter(age: Duration) -> Duration {
    age.mul_f64(0.9 + 0.2 * fastrand::f64())
}
