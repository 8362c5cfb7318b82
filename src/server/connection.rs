//! One connection, from the TLS handshake to its end, with its timeouts.

use std::convert::Infallible;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy, sink};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::telemetry::{INTERNAL, Metrics};

use super::connections::{InFlight, Slot};
use super::reply::{self, ReplyBody};

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// The head of a request, and the idle time before it.
    pub head: Duration,
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
            age: Duration::from_mins(5),
            closing: Duration::from_secs(35),
        }
    }
}

/// The largest head of a request. API servers send a few hundred bytes.
const MAX_HEAD: usize = 16 << 10;
/// The time for which a connection that closes waits for a request that the client may have sent already.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// The time within which a client has to close its side after the server did.
const LINGER: Duration = Duration::from_secs(1);

/// The phases of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// It accepts connections, and asks clients to move to other replicas.
    Leaving,
    /// It finishes the requests in flight.
    Draining,
}

/// The body of a request, from a connection or from a test.
pub trait RequestBody: Body<Data = Bytes, Error: Display> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Display> + Send + Unpin + 'static> RequestBody for B {}

/// Responds to the requests of a port.
pub trait Handler: Send + Sync + 'static {
    /// Responds to a request, which is in flight until the body of the response is dropped.
    fn respond<B: RequestBody>(
        &self,
        request: Request<B>,
        in_flight: InFlight,
    ) -> impl Future<Output = Response<ReplyBody>> + Send;
}

/// The environment of a connection.
pub(super) struct Context<H> {
    pub(super) handler: Arc<H>,
    pub(super) timeouts: Timeouts,
    pub(super) slot: Slot,
    pub(super) phase: watch::Receiver<Phase>,
    /// None on the admin port.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// The next response is the last.
    pub(super) is_ending: AtomicBool,
}

impl<H: Handler> Context<H> {
    fn count(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<ReplyBody>, Infallible> {
        let in_flight = self.slot.connection.begin();
        // A panic on one request must not close a connection that serves others. Its message is in the log.
        let responding = AssertUnwindSafe(self.handler.respond(request, in_flight)).catch_unwind();
        let mut response = responding.await.unwrap_or_else(|_| {
            self.count(|metrics| metrics.rejected(INTERNAL));
            reply::status(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal error, a bug in fabric-injector; see its log",
            )
        });
        // Closing an idle connection may cut off a request that the client does not repeat. So each connection ends with
        // a response that announces it.
        if *self.phase.borrow() >= Phase::Leaving || self.is_ending.load(Ordering::Relaxed) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Waits until the connection is too old or the server stops, lets the next response announce the close, and leaves
    /// time for a request that may have been sent already.
    async fn last_request(&self) {
        let mut phase = self.phase.clone();
        tokio::select! {
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => {}
            () = sleep(with_jitter(self.timeouts.age)) => self.count(|metrics| metrics.closed("age")),
        }
        self.is_ending.store(true, Ordering::Relaxed);
        sleep(LAST_REQUEST).await;
    }
}

/// Serves one connection until it ends or is evicted.
pub(super) async fn serve<H: Handler>(stream: TcpStream, tls: Option<TlsAcceptor>, context: Context<H>) {
    tokio::select! {
        biased;
        // At once, because another connection waits for the place, and the client might read nothing.
        () = context.slot.connection.evicted.notified() => context.count(|metrics| metrics.closed("evicted")),
        () = serve_to_end(stream, tls, &context) => {}
    }
}

async fn serve_to_end<H: Handler>(stream: TcpStream, tls: Option<TlsAcceptor>, context: &Context<H>) {
    // A response is one write, so that Nagle's algorithm would only delay it.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_http(stream, context).await,
        Some(acceptor) => {
            if let Some(stream) = handshake(stream, acceptor, context).await {
                serve_http(stream, context).await;
            }
        }
    }
}

async fn handshake<H: Handler>(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    context: &Context<H>,
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

async fn serve_http<H: Handler>(
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    context: &Context<H>,
) {
    serve_requests(&mut stream, context).await;
    let _ = timeout(LINGER, linger(&mut stream)).await;
}

/// Serves requests until the client closes the connection, or the server does.
async fn serve_requests<H: Handler>(
    stream: &mut (impl AsyncRead + AsyncWrite + Send + Unpin),
    context: &Context<H>,
) {
    let running = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.timeouts.head)
        .max_buf_size(MAX_HEAD)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service_fn(|request| context.respond(request)));
    let mut running = pin!(running);
    tokio::select! {
        _ = running.as_mut() => {}
        () = context.last_request() => {
            running.as_mut().graceful_shutdown();
            let _ = timeout(context.timeouts.closing, running).await;
        }
    }
}

/// Closes the side of the server, and reads until the client closes its own. If a stream is dropped while the client still
/// writes, the kernel sends a reset, and the client may lose the last response.
async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.shutdown().await?;
    copy(stream, &mut sink()).await?;
    Ok(())
}

/// Spreads the ends of connections that began at the same time.
fn with_jitter(age: Duration) -> Duration {
    age.mul_f64(0.9 + 0.2 * fastrand::f64())
}
