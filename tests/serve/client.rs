//! A small client: one connection at a time, by HTTP/1.1.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use fabric_injector::authority::KeyPair;

use super::in_time;
use super::messages::{Body, Failure, Reply};

/// How to reach a server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Client {
    /// A client that trusts a CA, and offers every protocol.
    pub(crate) fn new(address: SocketAddr, ca: &str) -> Self {
        Self::with(address, ca, rustls::ALL_VERSIONS, None)
    }

    /// A client that shows a certificate, and speaks these versions of TLS.
    pub(crate) fn with(
        address: SocketAddr,
        ca: &str,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&KeyPair>,
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build().unwrap();
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_webpki_verifier(verifier);
        let config = match own {
            None => config.with_no_client_auth(),
            Some(KeyPair { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self { address, tls: Arc::new(config) }.offering(&["h2", "http/1.1"])
    }

    /// The client, offering these protocols by ALPN.
    pub(crate) fn offering(mut self, protocols: &[&str]) -> Self {
        let config = Arc::make_mut(&mut self.tls);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        // Every connection stands for a client of its own.
        config.resumption = rustls::client::Resumption::disabled();
        self
    }

    /// What connections begin with.
    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// A TLS connection on which nothing was said.
    pub(crate) async fn open(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let stream = in_time("a connection", TcpStream::connect(self.address)).await;
        self.shake_hands(stream.map_err(Failure::Connect)?).await
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let name = ServerName::from(self.address.ip());
        let connecting = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream);
        in_time("a TLS handshake", connecting).await.map_err(Failure::Connect)
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        Self::over(self.address, self.open().await?).await
    }

    /// A connection by way of one on which nothing was said.
    pub(crate) async fn connect_by(&self, stream: TcpStream) -> Result<Connection, Failure> {
        Self::over(self.address, self.shake_hands(stream).await?).await
    }

    async fn over(address: SocketAddr, stream: TlsStream<TcpStream>) -> Result<Connection, Failure> {
        let session = stream.get_ref().1;
        let agreed = Agreed {
            leaf: session.peer_certificates().unwrap()[0].to_vec(),
            protocol: session.alpn_protocol().map(|protocol| String::from_utf8(protocol.to_vec()).unwrap()),
            version: session.protocol_version().unwrap(),
        };
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        let driver = tokio::spawn(connection);
        Ok(Connection { address, sender, driver, agreed: Some(agreed) })
    }

    /// Posts a review on a connection of its own.
    pub(crate) async fn post(&self, review: impl Into<Body>) -> Result<Reply, Failure> {
        self.connect().await?.post(review).await
    }
}

/// What a TLS handshake agreed on.
pub(crate) struct Agreed {
    /// The serving certificate, DER.
    pub(crate) leaf: Vec<u8>,
    pub(crate) protocol: Option<String>,
    pub(crate) version: ProtocolVersion,
}

/// An open connection.
pub(crate) struct Connection {
    address: SocketAddr,
    sender: SendRequest<Body>,
    driver: JoinHandle<hyper::Result<()>>,
    agreed: Option<Agreed>,
}

impl Connection {
    /// A connection without TLS, by HTTP/1.1.
    pub(crate) async fn plain(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await.map_err(Failure::Connect)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        Ok(Self { address, sender, driver: tokio::spawn(connection), agreed: None })
    }

    /// What the TLS handshake agreed on.
    pub(crate) fn agreed(&self) -> &Agreed {
        self.agreed.as_ref().expect("the connection has TLS")
    }

    /// Posts a review.
    pub(crate) async fn post(&mut self, review: impl Into<Body>) -> Result<Reply, Failure> {
        self.ready().await?;
        in_time("an answer", self.begin(Method::POST, "/mutate", review.into())).await
    }

    /// Gets something.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Reply, Failure> {
        self.ready().await?;
        in_time("an answer", self.begin(Method::GET, path, Body::Whole(None))).await
    }

    /// Waits until a request can be sent.
    async fn ready(&mut self) -> Result<(), Failure> {
        let ready = in_time("a connection is ready", self.sender.ready()).await;
        ready.map_err(|_| Failure::NotSent)
    }

    /// Begins a request; its answer is in the future, which takes as long as it takes.
    pub(crate) fn begin(
        &mut self,
        method: Method,
        path: &str,
        body: Body,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<> {
        let request = Request::builder().method(method).header(header::CONTENT_TYPE, "application/json");
        let request = request.uri(path).header(header::HOST, self.address.to_string()).body(body).unwrap();
        let sent: Sent = Box::pin(self.sender.try_send_request(request));
        async {
            let (head, body) = match sent.await {
                Ok(response) => response.into_parts(),
                Err(error) if error.message().is_some() => return Err(Failure::NotSent),
                Err(error) => return Err(lost(&error.into_error())),
            };
            let body = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
            Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
        }
    }

    /// Closes the connection at once, in the middle of whatever it is about.
    pub(crate) fn hang_up(self) {
        self.driver.abort();
    }

    /// Waits for the server to close the connection: whether it came to a clean end.
    pub(crate) async fn closed(&mut self) -> hyper::Result<()> {
        in_time("the server closes a connection", &mut self.driver).await.unwrap()
    }
}

/// A request on its way, which comes back if nothing of it could be sent.
type Sent = Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + Send>>;

fn lost(error: &hyper::Error) -> Failure {
    Failure::Lost(format!("{error:?}"))
}
