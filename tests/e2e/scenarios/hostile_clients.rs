//! Clients that are no API server: one that opens as many connections as it can and sends no request to its end, and
//! one without a certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::outages::{WEBHOOK, scale};
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::workloads::{annotated_template, is_injected, pod};

/// The address of the client, which no pod has.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 200, 1);
/// The connections that a server accepts, a tenth of the default.
const ACCEPTED: usize = 100;
/// The connections of the client to each server.
const CONNECTIONS: usize = 110;
/// Of these, so many send most of a large body, which together are more than a server holds.
const LARGE: usize = 8;
const NAME: &str = "fabric-injector.fabric-injector.svc";
const PODS: usize = 10;

/// Connections that stall, until this is dropped.
struct Stalled {
    _tasks: JoinSet<()>,
    begun: Arc<AtomicUsize>,
}

impl Stalled {
    fn start(servers: &[SocketAddr], tls: &Arc<ClientConfig>) -> Self {
        let (mut tasks, begun) = (JoinSet::new(), Arc::<AtomicUsize>::default());
        for server in servers {
            for number in 0..CONNECTIONS {
                let (server, tls, begun) = (*server, Arc::clone(tls), Arc::clone(&begun));
                let sent = if number < LARGE { 6 << 20 } else { 1_000 };
                tasks.spawn(async move {
                    loop {
                        // Whatever the end is, the next one takes its place.
                        let _ = stall(server, &tls, sent, &begun).await;
                        sleep(Duration::from_millis(10)).await;
                    }
                });
            }
        }
        Self { _tasks: tasks, begun }
    }
}

/// Sends so many bytes of a larger body, and waits until the server closes.
async fn stall(
    server: SocketAddr,
    tls: &Arc<ClientConfig>,
    sent: usize,
    begun: &AtomicUsize,
) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((CLIENT, 0).into())?;
    let stream = timeout(Duration::from_secs(10), socket.connect(server)).await??;
    let name = ServerName::try_from(NAME).unwrap();
    let mut stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        sent + 1
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; sent]).await?;
    begun.fetch_add(1, Ordering::Relaxed);
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// A client that trusts the CA of the servers.
async fn tls(cluster: &Cluster) -> Arc<ClientConfig> {
    let configuration = cluster.api.get(WEBHOOK).await.ok();
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
    let bundle = BASE64_STANDARD.decode(bundle).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(
        rustls_pki_types::CertificateDer::pem_slice_iter(&bundle).map(Result::unwrap),
    );
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build().unwrap();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_webpki_verifier(verifier).with_no_client_auth())
}

/// How many of ten annotated pods are created and injected, and what the API server says of the others.
async fn created(cluster: &Cluster) -> (usize, Vec<String>) {
    let (mut injected, mut errors) = (0, Vec::new());
    for number in 0..PODS {
        match created_one(cluster, number).await {
            Ok(()) => injected += 1,
            Err(error) => errors.push(error),
        }
        sleep(Duration::from_secs(1)).await;
    }
    (injected, errors)
}

async fn created_one(cluster: &Cluster, number: usize) -> Result<(), String> {
    let asked = pod("default", &format!("asked-{number}"), &annotated_template());
    let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
    if is_injected(&reply.body) { Ok(()) } else { Err(reply.message().to_owned()) }
}

fn address(server: &Value) -> SocketAddr {
    SocketAddr::new(server["status"]["podIP"].as_str().unwrap().parse().unwrap(), 8443)
}

/// Whether each server closes a connection without a certificate before it answers.
async fn are_refused(servers: &[SocketAddr], tls: &Arc<ClientConfig>) -> bool {
    for server in servers {
        let asked = timeout(Duration::from_secs(10), ask(*server, tls)).await.unwrap();
        if asked.is_ok() {
            return false;
        }
    }
    true
}

/// Sends a request to its end; an error if there is no response.
async fn ask(server: SocketAddr, tls: &Arc<ClientConfig>) -> std::io::Result<()> {
    let stream = TcpStream::connect(server).await?;
    let name = ServerName::try_from(NAME).unwrap();
    let mut stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {NAME}\r\n\r\n").as_bytes()).await?;
    stream.read_exact(&mut [0; 8]).await.map(|_| ())
}

pub(super) async fn clients_without_a_certificate_are_refused_and_the_api_server_is_not(cluster: &Cluster) {
    let mut values = values();
    values["server"]["clientCaBundle"] = json!(cluster.client_ca());
    cluster.ensure(&values).await;
    let (injected, errors) = created(cluster).await;
    assert_eq!(injected, PODS, "{errors:#?}");
    let servers: Vec<SocketAddr> = cluster.servers().await.iter().map(address).collect();
    assert!(are_refused(&servers, &tls(cluster).await).await);
}

pub(super) async fn pods_are_injected_while_a_client_sends_no_request_to_its_end(cluster: &Cluster) {
    let limit = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let mut values = values();
    values["server"]["extraArgs"] = json!([format!("--max-connections={ACCEPTED}")]);
    cluster.ensure(&values).await;
    let tls = tls(cluster).await;
    let mut created_with = Vec::new();
    for replicas in [1, 2] {
        scale(cluster, replicas).await;
        cluster.serves().await;
        let servers: Vec<SocketAddr> = cluster.servers().await.iter().map(address).collect();
        let stalled = Stalled::start(&servers, &tls);
        eventually("the client has as many connections as there may be", async || {
            stalled.begun.load(Ordering::Relaxed) >= ACCEPTED * servers.len()
        })
        .await;
        created_with.push(created(cluster).await);
    }
    let evicted = cluster.metric("fabric_injector_connections_closed_total{reason=\"evicted\"}").await;
    let all: Vec<usize> = created_with.iter().map(|(injected, _)| *injected).collect();
    assert_eq!(all, [PODS, PODS], "{evicted} connections were evicted: {created_with:#?}");
    assert!(evicted > 0);
}
