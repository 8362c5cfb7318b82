//! Connections end at an age, so that load spreads anew.

use hyper::Method;

use super::certificates::Site;
use super::eventually;
use super::messages::Body;
use super::reviews::{assert_right, halves, sample};

const AGED: &str = "fabric_injector_connections_closed_total{reason=\"age\"}";

#[tokio::test]
async fn an_old_connection_ends_with_the_answer_that_it_owes() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connection-age", "500ms"]).await;
    let client = site.client(&server);
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
