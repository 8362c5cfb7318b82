//! A port: it accepts connections, serves each from the TLS handshake to its end, and drains them at the end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::Service as _;

use crate::telemetry::Metrics;

use super::connections::{Connection, Connections};
use super::memory::bytes_with;
use super::tls::TlsSettings;

/// The time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The time limit of the head of a request, with the idle time before it.
const HEAD: Duration = Duration::from_secs(10);
/// The time from announcing the close of a connection to closing it.
const CLOSING: Duration = Duration::from_secs(35);
/// The largest head of a request. API servers send a few hundred bytes.
const MAX_HEAD: usize = 16 << 10;
/// The time for which a connection that closes waits for a request that the client may have sent already.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// The time within which a client has to close its side after the server did.
const LINGER: Duration = Duration::from_secs(1);

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Every request was answered.
    Drained,
    /// Requests were cut off.
    CutOff,
}

/// A port that does not accept connections yet.
pub(super) struct Port {
    pub(super) app: Router,
    /// None for a port without TLS.
    pub(super) tls: Option<Arc<TlsSettings>>,
    /// The age at which a connection ends, with a jitter of a tenth.
    pub(super) max_age: Duration,
    pub(super) connections: Arc<Connections>,
    pub(super) max_connections: usize,
    /// None on the admin port.
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// A port that accepts connections until this is dropped.
pub(super) struct OpenPort {
    accepting: AbortOnDropHandle<()>,
    connections: Arc<Connections>,
}

impl OpenPort {
    /// From now on, each response announces the end of its connection: the client moves to another replica.
    pub(super) fn leave(&self) {
        self.connections.leaving.cancel();
    }

    /// Stops accepting connections, and waits for the requests in flight.
    pub(super) async fn drain(self, within: Duration) -> Shutdown {
        let Self { accepting, connections } = self;
        accepting.abort();
        // The listener is closed with the task.
        let _ = accepting.await;
        connections.draining.cancel();
        connections.tasks.close();
        match timeout(within, connections.tasks.wait()).await {
            Err(_) if connections.any_busy() => Shutdown::CutOff,
            // Connections without requests may be left.
            Ok(()) | Err(_) => Shutdown::Drained,
        }
    }
}

impl Port {
    pub(super) fn open(self, listener: TcpListener) -> OpenPort {
        let connections = Arc::clone(&self.connections);
        let accepting = tokio::spawn(Arc::new(self).accept(listener));
        OpenPort { accepting: AbortOnDropHandle::new(accepting), connections }
    }

    fn count(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely too many open files, which takes longer than microseconds to resolve.
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(connection) = self.connections.add(self.max_connections) else {
                tracing::warn!("a connection was closed: a request is in flight on all others");
                continue;
            };
            self.connections.tasks.spawn(Arc::clone(&self).serve(stream, connection));
            // A connection that was evicted for this one closes its file before the next one opens another.
            yield_now().await;
        }
    }

    /// Serves one connection until it ends or is evicted.
    async fn serve(self: Arc<Self>, stream: TcpStream, connection: Arc<Connection>) {
        let _counted = self.metrics.as_ref().map(|metrics| metrics.connection());
        // A response is one write, so that Nagle's algorithm would only delay it.
        let _ = stream.set_nodelay(true);
        let served = async {
            match &self.tls {
                None => self.serve_http(stream, &connection).await,
                Some(tls) => {
                    if let Some(stream) = self.handshake(stream, TlsAcceptor::from(tls.current())).await {
                        self.serve_http(stream, &connection).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            // At once, because another connection waits for the place, and the client might read nothing.
            () = connection.evicted.notified() => self.count(|metrics| metrics.closed.count("evicted")),
            () = served => {}
        }
    }

    async fn handshake(&self, stream: TcpStream, acceptor: TlsAcceptor) -> Option<TlsStream<TcpStream>> {
        self.count(|metrics| {
            metrics.handshakes.inc();
        });
        let failed = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => {
                let reason = handshake_failure(&error);
                tracing::debug!(%error, reason, "TLS handshake failed");
                reason
            }
            Err(_) => "timeout",
        };
        self.count(|metrics| metrics.handshake_failures.count(failed));
        None
    }

    /// Serves requests until the client closes the connection, or the server does. hyper-util's graceful shutdown would
    /// own the stream, and end it without reading what the client still sends.
    async fn serve_http(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
        connection: &Arc<Connection>,
    ) {
        let is_last = self.connections.leaving.child_token();
        let service = service_fn(|request| self.respond(request, connection, &is_last));
        let mut serving = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(MAX_HEAD)
                .half_close(true)
                .serve_connection(TokioIo::new(&mut stream), service)
        );
        tokio::select! {
            _ = serving.as_mut() => {}
            () = self.last_request(&is_last) => {
                serving.as_mut().graceful_shutdown();
                let _ = timeout(CLOSING, serving).await;
            }
        }
        let _ = timeout(LINGER, linger(&mut stream)).await;
    }

    /// Waits until the connection is too old or the server stops, lets the next response announce the close, and leaves
    /// time for a request that may have been sent already.
    async fn last_request(&self, is_last: &CancellationToken) {
        // Spreads the ends of connections that began at the same time.
        let age = self.max_age.mul_f64(0.9 + 0.2 * fastrand::f64());
        tokio::select! {
            () = self.connections.draining.cancelled() => {}
            () = sleep(age) => self.count(|metrics| metrics.closed.count("age")),
        }
        is_last.cancel();
        sleep(LAST_REQUEST).await;
    }

    /// Responds to a request, which is in flight until the client has taken the response.
    async fn respond(
        &self,
        mut request: Request<Incoming>,
        connection: &Arc<Connection>,
        is_last: &CancellationToken,
    ) -> Result<Response<impl Body<Data = Bytes, Error = axum::Error> + use<>>, Infallible> {
        let in_flight = connection.begin();
        request.extensions_mut().insert(Arc::clone(&in_flight));
        let mut response = self.app.clone().call(request).await?;
        // Closing an idle connection may cut off a request that the client does not repeat. So each connection ends with
        // a response that announces it.
        if is_last.is_cancelled() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        in_flight.waits_for_client();
        Ok(response.map(|body| {
            body.map_frame(move |frame| frame.map_data(|data| bytes_with(data, Arc::clone(&in_flight))))
        }))
    }
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

/// Closes the side of the server, and reads until the client closes its own. If a stream is dropped while the client still
/// writes, the kernel sends a reset, and the client may lose the last response.
async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.shutdown().await?;
    copy(stream, &mut sink()).await?;
    Ok(())
}
