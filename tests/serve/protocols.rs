//! Protocols and paths: what is spoken where.

use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::certificates::Site;
use super::client::{Client, Connection};
use super::messages::Failure;
use super::reviews::{assert_right, sample};
use super::{eventually, in_time};

#[tokio::test]
async fn every_version_of_tls_gives_the_same_right_answer_by_http1() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let mut answers = Vec::new();
    for (version, name) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let client = Client::with(server.address, &site.ca.cert, &[version], None);
        let offers: [(&[&str], Option<&str>); 3] =
            [(&["http/1.1"], Some("http/1.1")), (&["h2", "http/1.1"], Some("http/1.1")), (&[], None)];
        for (offer, agreed) in offers {
            let mut connection = client.clone().offering(offer).connect().await.unwrap();
            assert_eq!(connection.agreed().protocol.as_deref(), agreed, "{offer:?}");
            assert_eq!(connection.agreed().version, name);
            // Twice, since connections are kept.
            for _ in 0..2 {
                let reply = connection.post(sample("same")).await.unwrap();
                assert_right(&reply, "same");
                answers.push(reply.body);
            }
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert!(server.metric("fabric_injector_tls_handshakes_total").await >= 6);
}

#[tokio::test]
async fn a_client_that_speaks_another_protocol_is_turned_away() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    for other in ["http/0.9", "h2"] {
        let failure = site.client(&server).offering(&[other]).connect().await.err();
        assert!(matches!(failure, Some(Failure::Connect(_))), "{failure:?}");
    }
    let failures = "fabric_injector_tls_handshake_failures_total{reason=\"protocol\"}";
    eventually("both failures are counted", async || server.metric(failures).await == 2).await;
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_no_answer_and_harms_nobody() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    let mut before = client.connect().await.unwrap();
    assert_right(&before.post(sample("before")).await.unwrap(), "before");
    for request in ["GET /mutate HTTP/1.1\r\nhost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The connection may be reset as well as closed.
        let _ = in_time("the server closes", stream.read_to_end(&mut answer)).await;
        assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    }
    assert_right(&before.post(sample("same")).await.unwrap(), "same");
    assert_right(&client.post(sample("new")).await.unwrap(), "new");
    let failures = "fabric_injector_tls_handshake_failures_total{reason=\"protocol\"}";
    eventually("both failures are counted", async || server.metric(failures).await == 2).await;
}

#[tokio::test]
async fn each_port_has_its_own_paths() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    for path in ["/livez", "/readyz", "/metrics", "/policies"] {
        assert_eq!(server.status(path).await, 200, "{path} of the admin port");
        let reply = client.connect().await.unwrap().get(path).await.unwrap();
        assert_eq!(reply.status, 404, "{path} of the webhook's port");
        assert!(!reply.text().contains("fabric_injector_"), "{}", reply.text());
    }
    let mut admin = Connection::plain(server.admin).await.unwrap();
    assert_eq!(admin.post(sample("a")).await.unwrap().status, 404, "/mutate of the admin port");
    assert_eq!(server.metric("fabric_injector_rejected_requests_total{reason=\"path\"}").await, 4);
}
