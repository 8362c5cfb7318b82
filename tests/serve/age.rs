//! Connections end at an age, so that load spreads anew.

use hyper::Method;

use super::certificates::Site;
use super::messages::{Body, Failure};
use super::reviews::{assert_right, halves, sample};
use super::{eventually, in_time};

const AGED: &str = "fabric_injector_connections_closed_total{reason=\"age\"}";

#[tokio::test]
async fn an_old_connection_is_told_to_end_and_loses_no_request() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connection-age", "1s"]).await;
    let client = site.client(&server);
    let mut connection = client.connect().await.unwrap();
    let (pieces, body) = Body::in_pieces();
    let slow = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    let [first, second] = halves(&sample("slow"));
    pieces.send(first.into()).unwrap();
    let mut answered = 0;
    in_time("the connection takes no more", async {
        loop {
            match connection.post(sample("more")).await {
                Ok(reply) => assert_right(&reply, "more"),
                Err(Failure::NotSent) => break,
                Err(lost) => panic!("a review was lost: {lost:?}"),
            }
            answered += 1;
        }
    })
    .await;
    assert!(answered > 0);
    assert_eq!(server.metric(AGED).await, 1);
    // There is another connection at once, while the old one waits for its last answer.
    assert_right(&client.post(sample("new")).await.unwrap(), "new");
    pieces.send(second.into()).unwrap();
    drop(pieces);
    assert_right(&slow.await.unwrap().unwrap(), "slow");
    connection.closed().await.expect("the connection comes to a clean end");
}

#[tokio::test]
async fn an_old_connection_of_http1_ends_with_the_answer_that_it_owes() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connection-age", "500ms"]).await;
    let client = site.client(&server).http1();
    let mut connection = client.connect().await.unwrap();
    let (pieces, body) = Body::in_pieces();
    let slow = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    let [first, second] = halves(&sample("slow"));
    pieces.send(first.into()).unwrap();
    eventually("the connection is old", async || server.metric(AGED).await == 1).await;
    pieces.send(second.into()).unwrap();
    drop(pieces);
    let reply = slow.await.unwrap().unwrap();
    assert_right(&reply, "slow");
    assert_eq!(reply.headers["connection"], "close");
    connection.closed().await.expect("the connection comes to a clean end");
    let mut idle = client.connect().await.unwrap();
    assert_right(&idle.post(sample("idle")).await.unwrap(), "idle");
    idle.closed().await.expect("an idle connection comes to a clean end");
    assert_eq!(server.metric(AGED).await, 2);
}
