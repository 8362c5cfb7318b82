//! A bad new certificate is refused, said once, and healed by a good one.

use std::fs;
use std::time::{Duration, SystemTime};

use super::certificates::{DAY, Site, leaf, pair};
use super::eventually;
use super::reviews::{assert_right, sample};
use super::server::Server;

/// What the log says then.
const FAILED: &str = "reload failed, the previous version stays in use";

/// Fails unless what was put into the folder is refused, with these words, and the first pair stays in use.
async fn assert_refused(site: &Site, server: &Server, words: &[&str]) {
    eventually("the reload fails", async || !server.is_up_to_date("certificate").await).await;
    let mut connection = site.client(server).connect().await.unwrap();
    assert_eq!(connection.agreed().leaf, leaf(&site.first.cert), "{words:?}: the old certificate stays");
    assert_right(&connection.post(sample("old")).await.unwrap(), "old");
    assert_eq!(server.reloads("certificate", "failure").await, 1);
    assert_eq!(server.status("/readyz").await, 200, "an old certificate is no reason to be unready");
    let line = server.logged(FAILED, 1).await.remove(0);
    assert_eq!((&line["level"], &line["what"]), (&"ERROR".into(), &"certificate".into()));
    let verbose = server.get("/readyz?verbose").await;
    assert_eq!(verbose.status, 200);
    assert!(verbose.text().contains("[!]certificate: the last reload failed"), "{}", verbose.text());
    for word in words {
        assert!(line["error"].as_str().unwrap().contains(word), "no `{word}` in {line}");
        assert!(verbose.text().contains(word), "no `{word}` in {}", verbose.text());
    }
}

/// Puts a good pair into the folder; fails unless all is well again.
async fn assert_heals(site: &Site, server: &Server) {
    let good = site.another();
    site.put(&good);
    eventually("the reload succeeds", async || server.is_up_to_date("certificate").await).await;
    assert_eq!(server.reloads("certificate", "success").await, 1);
    assert_eq!(server.reloads("certificate", "failure").await, 1);
    assert_eq!(site.client(server).connect().await.unwrap().agreed().leaf, leaf(&good.cert));
    let verbose = server.get("/readyz?verbose").await.text();
    assert!(!verbose.contains("[!]"), "{verbose}");
}

/// Something bad in the folder, from the first word about it until all is well again.
async fn spoil(bad: impl FnOnce(&Site), words: &[&str]) {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let expiry = "fabric_injector_certificate_expiry_timestamp_seconds";
    let ends = server.metric(expiry).await;
    bad(&site);
    assert_refused(&site, &server, words).await;
    assert_eq!(server.metric(expiry).await, ends);
    assert_heals(&site, &server).await;
    assert!(server.metric(expiry).await > ends);
}

#[tokio::test]
async fn every_kind_of_bad_pair_is_refused_until_there_is_a_good_one() {
    let garbage = |site: &Site| fs::write(site.path("tls.crt"), "garbage").unwrap();
    let missing = |site: &Site| fs::remove_file(site.path("tls.key")).unwrap();
    let foreign = |site: &Site| fs::write(site.path("tls.key"), site.another().key).unwrap();
    let now = SystemTime::now();
    let expired = |site: &Site| site.put(&pair(&site.ca, now - DAY, DAY / 2));
    let early = |site: &Site| site.put(&pair(&site.ca, now + DAY, DAY));
    tokio::join!(
        spoil(garbage, &["/tls.crt has no certificate in it"]),
        spoil(missing, &["/tls.key cannot be read", "No such file"]),
        spoil(foreign, &["/tls.key is not the key of ", "/tls.crt"]),
        spoil(expired, &["/tls.crt expired at "]),
        spoil(early, &["/tls.crt is not valid before "]),
    );
}

#[tokio::test]
async fn what_stays_bad_is_said_and_counted_once() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    fs::write(site.path("tls.crt"), "garbage").unwrap();
    assert_refused(&site, &server, &["no certificate in it"]).await;
    // The files are looked at every second.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_refused(&site, &server, &["no certificate in it"]).await;
    // Another fault is news.
    fs::remove_file(site.path("tls.crt")).unwrap();
    eventually("it is counted", async || server.reloads("certificate", "failure").await == 2).await;
    let line = server.logged(FAILED, 2).await.remove(1);
    assert!(line["error"].as_str().unwrap().contains("cannot be read"), "{line}");
}
