//! Clients that begin something and do not go on.

use std::time::Duration;

use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::certificates::Site;
use super::client::Client;
use super::eventually;
use super::messages::{Body, Reply};
use super::reviews::{assert_right, halves, sample};

/// A little more than the longest of the limits, which are 10 seconds.
const ENOUGH: Duration = Duration::from_secs(18);

/// Says something on a connection and then nothing; what the server says until it closes, and after
/// what time.
async fn cut_off(client: &Client, said: &str) -> (String, Duration) {
    let mut stream = client.open().await.unwrap();
    let begun = Instant::now();
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(ENOUGH, stream.read_to_end(&mut answer)).await.expect("the server closes");
    (String::from_utf8(answer).unwrap(), begun.elapsed())
}

/// The answer to a request whose body ends in the middle, and after what time it came.
async fn half_a_body(client: &Client, path: &str) -> (Reply, Duration) {
    let (pieces, body) = Body::in_pieces();
    let [first, _] = halves(&sample("half"));
    pieces.send(first.into()).unwrap();
    let begun = Instant::now();
    let mut connection = client.connect().await.unwrap();
    let reply = timeout(ENOUGH, connection.begin(Method::POST, path, body)).await;
    (reply.expect("the server answers").unwrap(), begun.elapsed())
}

/// The answer to a request whose body comes byte by byte, and never whole.
async fn drops(client: &Client) -> Reply {
    let (pieces, body) = Body::in_pieces();
    tokio::spawn(async move {
        while pieces.send(b" ".to_vec().into()).is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    });
    let mut connection = client.connect().await.unwrap();
    let reply = timeout(ENOUGH, connection.begin(Method::POST, "/mutate", body)).await;
    reply.expect("the server answers").unwrap()
}

#[tokio::test]
async fn whoever_stalls_is_cut_off_and_the_others_are_served_meanwhile() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    let stalled = async {
        tokio::join!(
            cut_off(&client, ""),
            cut_off(&client, "POST /mutate HTTP/1.1\r\nhost: a\r\ncontent-ty"),
            half_a_body(&client, "/mutate"),
            half_a_body(&client, "/mutate?timeout=2s"),
            drops(&client),
        )
    };
    let (silent, half_a_head, half, half_of_hasty, drops) = tokio::select! {
        stalled = stalled => stalled,
        () = async {
            let mut kept = client.connect().await.unwrap();
            loop {
                assert_right(&kept.post(sample("others")).await.unwrap(), "others");
                assert_right(&client.post(sample("new")).await.unwrap(), "new");
                sleep(Duration::from_millis(50)).await;
            }
        } => unreachable!("it goes on for ever"),
    };
    assert_eq!(silent.0, "");
    assert!(half_a_head.0.is_empty() || half_a_head.0.starts_with("HTTP/1.1 408"), "{}", half_a_head.0);
    for reply in [&half.0, &half_of_hasty.0, &drops] {
        assert_eq!(reply.status, 408, "{}", reply.text());
        assert!(reply.text().contains("the body did not arrive in time"), "{}", reply.text());
    }
    assert!(half.1 >= Duration::from_secs(5), "{:?}", half.1);
    assert!(half_of_hasty.1 < Duration::from_secs(7), "{:?}", half_of_hasty.1);
    let cut_off = "fabric_injector_rejected_requests_total{reason=\"body_timeout\"}";
    assert_eq!(server.metric(cut_off).await, 3);
    eventually("nothing is in flight", async || {
        server.metric("fabric_injector_requests_in_flight").await == 0
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_body_leaves_nothing_behind() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    let in_flight = "fabric_injector_requests_in_flight";
    for _ in 0..2 {
        let (pieces, body) = Body::in_pieces();
        pieces.send(b"{".to_vec().into()).unwrap();
        let mut connection = client.connect().await.unwrap();
        let asking = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
        eventually("the request is in flight", async || server.metric(in_flight).await == 1).await;
        asking.abort();
        connection.hang_up();
        eventually("nothing is in flight", async || server.metric(in_flight).await == 0).await;
    }
    eventually("no connection", async || server.metric("fabric_injector_connections").await == 0).await;
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_while_it_is_sent() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    for megabytes in [8, 20] {
        let mut connection = client.connect().await.unwrap();
        let reply = connection.post(vec![b' '; megabytes << 20]).await.unwrap();
        assert_eq!((reply.status, reply.headers["connection"].as_bytes()), (413, &b"close"[..]));
        // Without a length, all that is allowed is read first.
        let (pieces, body) = Body::in_pieces();
        for _ in 0..megabytes {
            pieces.send(vec![b' '; 1 << 20].into()).unwrap();
        }
        let reply = client.post(body).await.unwrap();
        assert_eq!(reply.status, 413, "{}", reply.text());
        drop(pieces);
    }
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}
