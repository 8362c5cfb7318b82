//! When the server is ready.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::certificates::{Site, leaf};
use super::eventually;
use super::reviews::{assert_right, sample};

#[tokio::test]
async fn it_is_ready_within_seconds_and_says_what_for() {
    let site = Site::new();
    let begun = Instant::now();
    let server = site.serve_aws(&[]).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(server.get("/readyz").await.text(), "ok\n");
    let verbose = server.get("/readyz?verbose").await.text();
    for line in ["[+]certificate: valid until ", "[+]policies: 1 in use\n", "[+]listener: accepting\n"] {
        assert!(verbose.contains(line), "no `{line}` in {verbose}");
    }
    assert!(verbose.ends_with("\nready\n"), "{verbose}");
}

/// Readiness ends a tenth of its life before the certificate does, not counting the five minutes by which it begins
/// early: of one that ends in 25 seconds, after 22 and a half.
#[tokio::test]
async fn readiness_ends_before_the_certificate_does_and_returns_with_a_new_one() {
    let site = Site::with_life(Duration::from_secs(25));
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(server.status("/readyz").await, 200);
    eventually("readiness ends", async || server.status("/readyz").await == 503).await;
    let reply = server.get("/readyz").await;
    assert!(reply.text().contains("[-]certificate: about to expire, at "), "{}", reply.text());
    assert!(reply.text().ends_with("\nnot ready\n"), "{}", reply.text());
    assert_eq!(server.status("/livez").await, 200);
    // Whoever comes nonetheless is served: the certificate is good still.
    assert_right(&client.post(sample("late")).await.unwrap(), "late");
    let second = site.another();
    site.put(&second);
    eventually("the server is ready again", async || server.status("/readyz").await == 200).await;
    assert_eq!(client.connect().await.unwrap().agreed().leaf, leaf(&second.cert));
}
