//! From the signal to the last answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use rustix::process::Signal;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::certificates::Site;
use super::client::{Client, Connection};
use super::eventually;
use super::messages::{Body, Failure, Reply};
use super::reviews::{assert_right, sample};
use super::server::Server;

/// Waits until the webhook's port is closed.
pub(crate) async fn port_is_closed(server: &Server) {
    eventually("the port is closed", async || TcpStream::connect(server.address).await.is_err()).await;
}

/// Waits until so many requests are in flight.
pub(crate) async fn in_flight(server: &Server, count: usize) {
    let series = "fabric_injector_requests_in_flight";
    eventually("requests are in flight", async || server.metric(series).await == count).await;
}

/// A request whose body goes on until it is given its end.
fn slow(connection: &mut Connection) -> (oneshot::Sender<Vec<u8>>, JoinHandle<Result<Reply, Failure>>) {
    let (pieces, body) = Body::in_pieces();
    let answer = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    let (end, mut given) = oneshot::channel::<Vec<u8>>();
    tokio::spawn(async move {
        loop {
            // White space before a review is part of no value.
            let _ = pieces.send(vec![b' '; 16 << 10].into());
            if let Ok(end) = timeout(Duration::from_millis(500), &mut given).await {
                let _ = pieces.send(end.unwrap_or_default().into());
                return;
            }
        }
    });
    (end, answer)
}

#[tokio::test]
async fn during_the_delay_all_are_served_and_after_it_what_is_in_flight_is_answered() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "3s"]).await;
    let client = site.client(&server);
    let (mut kept, mut idle) = (client.connect().await.unwrap(), client.connect().await.unwrap());
    assert_right(&idle.post(sample("idle")).await.unwrap(), "idle");
    let mut requests = Vec::new();
    for _ in 0..2 {
        let mut connection = client.connect().await.unwrap();
        let (end, answer) = slow(&mut connection);
        requests.push((connection, end, answer));
    }
    in_flight(&server, 2).await;
    server.signal(Signal::TERM);
    eventually("it is no longer ready", async || server.status("/readyz").await == 503).await;
    assert_right(&client.post(sample("new")).await.unwrap(), "new");
    assert_right(&kept.post(sample("kept")).await.unwrap(), "kept");
    let ready = server.get("/readyz").await.text();
    assert!(ready.contains("[-]listener: shutting down\n"), "{ready}");
    assert_eq!(server.status("/livez").await, 200, "whoever is killed now loses what is in flight");
    server.logged("stopping, still accepting", 1).await;

    port_is_closed(&server).await;
    assert_eq!(server.status("/readyz").await, 503);
    idle.closed().await.expect("an idle connection comes to a clean end");
    for (mut connection, end, answer) in requests {
        end.send(sample("slow")).unwrap();
        assert_right(&answer.await.unwrap().unwrap(), "slow");
        connection.closed().await.expect("a connection comes to a clean end after its last answer");
    }
    assert_eq!(server.ended().await, Some(0));
    server.logged("stopped, every request was answered", 1).await;
}

/// Posts one review after another on one connection, and on another when that is said to end. Fails if one is
/// lost. Ends when the port is closed; how many were answered.
async fn keep_asking(client: Client, told: Arc<AtomicBool>) -> u32 {
    let mut answered = 0;
    'connections: loop {
        let mut connection = match client.connect().await {
            Ok(connection) => connection,
            Err(failure) => {
                assert!(told.load(Ordering::Relaxed), "nobody told the server to stop: {failure:?}");
                return answered;
            }
        };
        loop {
            match connection.post(sample("again")).await {
                Ok(reply) => assert_right(&reply, "again"),
                Err(Failure::NotSent) => continue 'connections,
                Err(lost) => panic!("a review was lost: {lost:?}"),
            }
            answered += 1;
        }
    }
}

#[tokio::test]
async fn clients_that_go_on_asking_lose_no_review_until_the_port_is_closed() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "1s"]).await;
    let client = site.client(&server);
    let told = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> =
        (0..8).map(|_| tokio::spawn(keep_asking(client.clone(), Arc::clone(&told)))).collect();
    let mutated =
        "fabric_injector_reviews_total{policy=\"aws-efa\",outcome=\"mutated\",reason=\"\",mode=\"inject\"}";
    eventually("all are asking", async || server.metric(mutated).await >= 50).await;
    told.store(true, Ordering::Relaxed);
    server.signal(Signal::TERM);
    for asking in asking {
        assert!(asking.await.unwrap() > 0);
    }
    port_is_closed(&server).await;
    assert_eq!(server.ended().await, Some(0));
}
