//! Only the API server is served, where the operator wants it.

use std::fs;

use rustls::version::{TLS12, TLS13};

use fabric_injector::authority::{Authority, KeyPair};

use super::certificates::{Site, authority, client_certificate};
use super::client::Client;
use super::eventually;
use super::reviews::{assert_right, sample};
use super::server::Server;

const FAILURES: &str = "fabric_injector_tls_handshake_failures_total{reason=\"client_certificate\"}";

/// A server that serves clients of a CA, whose file is `clients.crt`.
async fn serve(site: &Site, clients: &Authority) -> Server {
    let file = site.path("clients.crt");
    fs::write(&file, &clients.cert).unwrap();
    site.serve_aws(&["--client-ca", &file]).await
}

/// A client that shows this certificate.
fn client(site: &Site, server: &Server, own: &KeyPair) -> Client {
    Client::with(server.address, &site.ca.cert, rustls::ALL_VERSIONS, Some(own))
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_ca_are_served() {
    let (site, clients, others) = (Site::new(), authority(), authority());
    let server = serve(&site, &clients).await;
    let (own, foreign) = (client_certificate(&clients), client_certificate(&others));
    for (version, failures) in [(&TLS12, 2), (&TLS13, 4)] {
        let client = |own| Client::with(server.address, &site.ca.cert, &[version], own);
        assert_right(&client(Some(&own)).post(sample("own")).await.unwrap(), "own");
        for client in [client(None), client(Some(&foreign))] {
            client
                .post(sample("other"))
                .await
                .expect_err("whoever has no certificate of the CA is not served");
        }
        eventually("both failures are counted", async || server.metric(FAILURES).await == failures).await;
    }
    // Health and metrics are for everybody.
    assert_eq!(server.status("/readyz").await, 200);
}

#[tokio::test]
async fn the_ca_of_the_clients_is_reloaded() {
    let (site, first, second) = (Site::new(), authority(), authority());
    let server = serve(&site, &first).await;
    let old = client(&site, &server, &client_certificate(&first));
    let new = client(&site, &server, &client_certificate(&second));
    assert_right(&old.post(sample("old")).await.unwrap(), "old");
    new.post(sample("new")).await.unwrap_err();
    let file = site.path("clients.crt");
    // Both, as while one CA takes the place of another.
    fs::write(&file, format!("{}{}", first.cert, second.cert)).unwrap();
    eventually("the new client is served", async || new.post(sample("new")).await.is_ok()).await;
    assert_right(&old.post(sample("old")).await.unwrap(), "old");
    fs::write(&file, "nothing").unwrap();
    eventually("that is no CA", async || !server.is_up_to_date("certificate").await).await;
    let verbose = server.get("/readyz?verbose").await.text();
    assert!(verbose.contains(&format!("{file} has no certificate in it")), "{verbose}");
    assert_right(&old.post(sample("old")).await.unwrap(), "old");
    fs::write(&file, &second.cert).unwrap();
    eventually("the old client is no longer served", async || old.post(sample("old")).await.is_err()).await;
    assert_right(&new.post(sample("new")).await.unwrap(), "new");
}
