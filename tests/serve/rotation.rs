//! Certificates are replaced while requests run.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric_injector::authority::KeyPair;

use super::certificates::{Site, leaf, mount};
use super::client::Client;
use super::eventually;
use super::policies::{Spoil, make_huge, make_pipe};
use super::reviews::{assert_right, sample};
use super::server::Server;

/// Posts on one new connection after another until told to stop; fails if any request does. The certificates
/// that were seen, in order.
async fn keep_posting(client: Client, stop: Arc<AtomicBool>) -> Vec<Vec<u8>> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    loop {
        // The last connection begins after the end is known, so that it is one with the new certificate.
        let is_last = stop.load(Ordering::Relaxed);
        let mut connection = client.connect().await.expect("every connection is accepted");
        let reply = connection.post(sample("during")).await.expect("every request is answered");
        assert_right(&reply, "during");
        let leaf = &connection.agreed().leaf;
        if seen.last() != Some(leaf) {
            seen.push(leaf.clone());
        }
        if is_last {
            return seen;
        }
    }
}

/// Replaces the first pair of the site by another while clients keep posting, and fails unless new connections
/// come to see it, and nobody notices anything else.
async fn assert_rotates(site: &Site, server: &Server, replace: impl FnOnce(&KeyPair)) {
    let client = site.client(server);
    let second = site.another();
    let mut kept = client.connect().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let posting = [(); 2].map(|()| tokio::spawn(keep_posting(client.clone(), Arc::clone(&stop))));
    let expiry = "fabric_injector_certificate_expiry_timestamp_seconds";
    let before = server.metric(expiry).await;
    replace(&second);
    eventually("new connections see the new certificate", async || {
        client.connect().await.unwrap().agreed().leaf == leaf(&second.cert)
    })
    .await;
    // Both clients go on with the new one.
    let handshakes = "fabric_injector_tls_handshakes_total";
    let so_far = server.metric(handshakes).await;
    eventually("more connections", async || server.metric(handshakes).await >= so_far + 10).await;
    stop.store(true, Ordering::Relaxed);
    for posting in posting {
        assert_eq!(posting.await.unwrap(), [leaf(&site.first.cert), leaf(&second.cert)]);
    }
    assert_right(&kept.post(sample("kept")).await.unwrap(), "kept");
    let later = server.metric(expiry).await - before;
    assert!((86_390..86_410).contains(&later), "the expiry is {later} seconds later, not a day");
    eventually("the reload is counted", async || server.reloads("certificate", "success").await == 1).await;
    assert_eq!(server.reloads("certificate", "failure").await, 0);
    let line = server.logged("reloaded", 1).await.remove(0);
    assert_eq!((&line["level"], &line["what"]), (&"INFO".into(), &"certificate".into()), "{line}");
}

#[tokio::test]
async fn a_mounted_secret_is_rotated_under_load() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let put = |generation: &str, KeyPair { cert, key }: &KeyPair| {
        mount(folder.path(), generation, &[("tls.crt", cert), ("tls.key", key)]);
    };
    put("..2026_a", &site.first);
    let options = ["--policy", "aws-efa", "--tls-dir", folder.path().to_str().unwrap()];
    let server = Server::start(&options).await;
    assert_rotates(&site, &server, |second| put("..2026_b", second)).await;
}

#[tokio::test]
async fn files_that_are_rewritten_in_place_are_rotated_under_load() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    assert_rotates(&site, &server, |second| site.put(second)).await;
}

#[tokio::test]
async fn files_of_any_name_are_rotated_under_load() {
    let site = Site::new();
    let (cert, key) = (site.path("chain.pem"), site.path("secret.pem"));
    let put = |pair: &KeyPair| {
        // As an editor or `certs --renew` does it: one file at a time, each renamed into its place.
        for (path, text) in [(&key, &pair.key), (&cert, &pair.cert)] {
            let beside = Path::new(path).with_extension("new");
            fs::write(&beside, text).unwrap();
            fs::rename(beside, path).unwrap();
        }
    };
    put(&site.first);
    let server = Server::start(&["--policy", "aws-efa", "--tls-cert", &cert, "--tls-key", &key]).await;
    assert_rotates(&site, &server, put).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_a_certificate_is_not_read_and_can_be_mended() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    let (cert, key) = (site.path("tls.crt"), site.path("tls.key"));
    let spoil: [(&str, Spoil, String); 2] = [
        (&key, make_pipe, format!("{key} is not a regular file")),
        (&cert, make_huge, format!("{cert} exceeds the 1 MiB limit for a certificate or key")),
    ];
    for (path, spoil, error) in spoil {
        spoil(path);
        eventually("a failed reload", async || !server.is_up_to_date("certificate").await).await;
        let verbose = server.get("/readyz?verbose").await.text();
        assert!(verbose.contains(&error), "no `{error}` in {verbose}");
        assert_eq!(client.connect().await.unwrap().agreed().leaf, leaf(&site.first.cert));
        fs::remove_file(path).unwrap();
        site.put(&site.first);
        eventually("it is mended", async || server.is_up_to_date("certificate").await).await;
    }
}
