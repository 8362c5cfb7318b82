//! A port: it accepts connections, and drains them at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, anyhow};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::telemetry::Metrics;

use super::connection::{self, Context, Handler, Phase, Timeouts};
use super::connections::Connections;
use super::tls::TlsSettings;

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request was answered.
    Drained,
    /// Requests were cut off.
    CutOff,
}

/// Opens the port of an option.
pub(super) async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                anyhow!("`{option} {address}`: another program listens there; choose another port")
            }
            io::ErrorKind::PermissionDenied => {
                anyhow!(
                    "`{option} {address}`: not permitted; ports below 1024 are reserved, choose a higher one"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                anyhow!("`{option} {address}`: this machine has no such address")
            }
            _ => anyhow!(error),
        })
        .with_context(|| format!("cannot listen on {address}"))
}

/// A port that does not accept connections yet.
pub(super) struct Port<H> {
    pub(super) listener: TcpListener,
    pub(super) handler: H,
    /// None for a port without TLS.
    pub(super) tls: Option<Arc<TlsSettings>>,
    pub(super) timeouts: Timeouts,
    pub(super) connections: Arc<Connections>,
    pub(super) max_connections: usize,
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// A port that accepts connections.
pub(super) struct OpenPort {
    accepting: tokio::task::JoinHandle<()>,
    phase: watch::Sender<Phase>,
    connections: Arc<Connections>,
    /// Each connection has a sender: this ends with the last one.
    ended: mpsc::Receiver<()>,
}

impl<H: Handler> Port<H> {
    pub(super) fn open(self) -> OpenPort {
        let (phase, of_server) = watch::channel(Phase::Serving);
        let (alive, ended) = mpsc::channel(1);
        let connections = Arc::clone(&self.connections);
        let accepting = tokio::spawn(self.accept(of_server, alive));
        OpenPort { accepting, phase, connections, ended }
    }

    async fn accept(self, phase: watch::Receiver<Phase>, alive: mpsc::Sender<()>) {
        let handler = Arc::new(self.handler);
        loop {
            let (stream, _) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely too many open files, which takes longer than microseconds to resolve.
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(slot) = self.connections.add(self.max_connections) else {
                tracing::warn!("a connection was closed: a request is in flight on all others");
                continue;
            };
            let context = Context {
                handler: Arc::clone(&handler),
                timeouts: self.timeouts,
                slot,
                phase: phase.clone(),
                metrics: self.metrics.clone(),
                is_ending: AtomicBool::new(false),
            };
            let tls = self.tls.as_ref().map(|settings| TlsAcceptor::from(settings.current()));
            let alive = alive.clone();
            tokio::spawn(async move {
                let _counted = context.metrics.as_ref().map(|metrics| metrics.connection());
                connection::serve(stream, tls, context).await;
                drop(alive);
            });
            // A connection that was evicted for this one closes its file before the next one opens another.
            yield_now().await;
        }
    }
}

impl OpenPort {
    /// Asks clients to move to other replicas.
    pub(super) fn leave(&self) {
        let _ = self.phase.send(Phase::Leaving);
    }

    /// Stops accepting connections, and waits for the requests in flight.
    pub(super) async fn drain(mut self, within: Duration) -> Ended {
        self.accepting.abort();
        // The sender of the accepting task is dropped with it.
        let _ = (&mut self.accepting).await;
        let _ = self.phase.send(Phase::Draining);
        match timeout(within, self.ended.recv()).await {
            Err(_) if self.connections.any_busy() => Ended::CutOff,
            // Connections without requests may be left.
            Ok(_) | Err(_) => Ended::Drained,
        }
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;
    use hyper::{Request, Response, StatusCode};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::super::connection::RequestBody;
    use super::super::connections::InFlight;
    use super::super::reply::{self, ReplyBody};
    use super::*;

    /// Panics on one path.
    struct Faulty;

    impl Handler for Faulty {
        async fn respond<B: RequestBody>(&self, request: Request<B>, _: InFlight) -> Response<ReplyBody> {
            assert_ne!(request.uri().path(), "/fault", "a test panics");
            reply::json(StatusCode::OK, Bytes::from_static(b"{}"))
        }
    }

    #[tokio::test]
    async fn a_panic_on_a_request_closes_no_connection() {
        let listener = bind("--listen", ([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = Port {
            listener,
            handler: Faulty,
            tls: None,
            timeouts: Timeouts::default(),
            connections: Arc::default(),
            max_connections: 8,
            metrics: None,
        };
        let _open = port.open();
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
