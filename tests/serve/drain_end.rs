//! How a server ends, and with which status.

use std::time::{Duration, Instant};

use hyper::Method;
use rustix::process::Signal;
use tokio::net::TcpStream;

use super::certificates::Site;
use super::client::Connection;
use super::drain::{in_flight, port_is_closed};
use super::eventually;
use super::messages::Body;
use super::reviews::{assert_right, sample};
use super::server::Server;

const HANDSHAKES: &str = "fabric_injector_tls_handshakes_total";

/// A request that never ends: what keeps it going.
struct Endless {
    _connection: Connection,
    _pieces: tokio::sync::mpsc::UnboundedSender<bytes::Bytes>,
}

async fn endless(site: &Site, server: &Server) -> Endless {
    let mut connection = site.client(server).connect().await.unwrap();
    let (pieces, body) = Body::in_pieces();
    tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    pieces.send(b"{".to_vec().into()).unwrap();
    in_flight(server, 1).await;
    Endless { _connection: connection, _pieces: pieces }
}

#[tokio::test]
async fn each_signal_ends_a_server_that_is_idle_at_once() {
    let site = Site::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut server = site.serve_aws(&["--shutdown-delay", "0s"]).await;
        assert_right(&site.client(&server).post(sample("a")).await.unwrap(), "a");
        let told = Instant::now();
        server.signal(signal);
        assert_eq!(server.ended().await, Some(0));
        assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
    }
}

#[tokio::test]
async fn connections_that_ask_for_nothing_do_not_hold_up_the_end() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "0s", "--drain-timeout", "1m"]).await;
    let client = site.client(&server);
    let (mut open, mut silent) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut asked = client.connect().await.unwrap();
        assert_right(&asked.post(sample("a")).await.unwrap(), "a");
        open.push(asked);
        open.push(client.connect().await.unwrap());
        silent.push(client.open().await.unwrap());
    }
    let (_no_handshake, _admin) =
        (TcpStream::connect(server.address).await.unwrap(), TcpStream::connect(server.admin).await.unwrap());
    eventually("all are taken on", async || server.metric(HANDSHAKES).await == 7).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn a_connection_that_was_accepted_is_served_although_the_port_is_closed() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "0s"]).await;
    let client = site.client(&server);
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(TcpStream::connect(server.address).await.unwrap());
    }
    eventually("both are taken on", async || server.metric(HANDSHAKES).await == 2).await;
    server.signal(Signal::TERM);
    port_is_closed(&server).await;
    for stream in streams {
        let mut connection = client.connect_by(stream).await.unwrap();
        assert_right(&connection.post(sample("late")).await.unwrap(), "late");
    }
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off_after_the_drain_timeout() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "0s", "--drain-timeout", "1s"]).await;
    let _endless = endless(&site, &server).await;
    let told = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await, Some(1));
    let took = told.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(6)).contains(&took), "{took:?}");
    server.logged("stopped, connections were cut off", 1).await;
}

#[tokio::test]
async fn a_second_signal_ends_the_delay() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "1m"]).await;
    server.signal(Signal::INT);
    eventually("it is stopping", async || server.status("/readyz").await == 503).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await, Some(1));
}

#[tokio::test]
async fn a_second_signal_ends_the_drain() {
    let site = Site::new();
    let mut server = site.serve_aws(&["--shutdown-delay", "0s", "--drain-timeout", "1m"]).await;
    let _endless = endless(&site, &server).await;
    server.signal(Signal::TERM);
    port_is_closed(&server).await;
    let told = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await, Some(1));
    // The limit on the body of the request would have ended it as well, some seconds later.
    assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
}
