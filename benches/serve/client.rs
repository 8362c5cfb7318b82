//! The load on a server: HTTP/1.1 connections, each with one request in flight, as from API servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::process::Process;

/// Connections to a server.
pub(crate) struct Client {
    connections: Vec<SendRequest<Full<Bytes>>>,
}

/// The result of a load.
pub(crate) struct Load {
    pub(crate) latencies: Vec<Duration>,
}

impl Client {
    pub(crate) async fn connect(process: &Process, connections: usize) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anything))
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let mut open = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(&process.address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let stream = connector.connect(name, stream).await.unwrap();
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            open.push(sender);
        }
        Self { connections: open }
    }

    /// Keeps a request in flight on each connection for this time, or begins one each so often.
    pub(crate) async fn load(&mut self, body: &[u8], time: Duration, every: Duration) -> Load {
        let body = Bytes::copy_from_slice(body);
        let end = Instant::now() + time;
        let one = |connection| tokio::spawn(one_after_another(connection, body.clone(), end, every));
        let tasks: Vec<_> = self.connections.drain(..).map(one).collect();
        let mut latencies = Vec::new();
        for task in tasks {
            let (connection, measured) = task.await.unwrap();
            self.connections.push(connection);
            latencies.extend(measured);
        }
        Load { latencies }
    }
}

async fn one_after_another(
    mut sender: SendRequest<Full<Bytes>>,
    body: Bytes,
    end: Instant,
    every: Duration,
) -> (SendRequest<Full<Bytes>>, Vec<Duration>) {
    let mut latencies = Vec::new();
    let mut next = Instant::now();
    while Instant::now() < end {
        let request = hyper::Request::post("/mutate?timeout=10s")
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))
            .unwrap();
        let began = Instant::now();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        latencies.push(began.elapsed());
        assert!(
            memchr::memmem::find(&answer, br#""allowed":true"#).is_some(),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        // A timer is one of milliseconds, also that for no time.
        if !every.is_zero() {
            next += every;
            tokio::time::sleep_until(next.into()).await;
        }
    }
    (sender, latencies)
}

/// A verifier that accepts any server.
#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
