//! Clients that stall take nothing from those at other addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hyper::Method;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::certificates::Site;
use super::client::{Client, Connection};
use super::eventually;
use super::messages::{Body, Failure, Reply};
use super::reviews::{assert_right, sample};
use super::server::Server;

const EVICTED: &str = "fabric_injector_connections_closed_total{reason=\"evicted\"}";
const HOSTILE: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

async fn connect(client: &Client, server: SocketAddr, from: Ipv4Addr) -> Result<Connection, Failure> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    client.connect_by(socket.connect(server).await.map_err(Failure::Connect)?).await
}

/// Sends so many bytes of a body that does not end, from this address.
async fn stall(client: &Client, server: SocketAddr, from: Ipv4Addr, bytes: usize) -> Result<Reply, Failure> {
    let mut connection = connect(client, server, from).await?;
    let (pieces, body) = Body::in_pieces();
    pieces.send(vec![b' '; bytes].into()).unwrap();
    let reply = connection.begin(Method::POST, "/mutate", body).await;
    drop(pieces);
    reply
}

/// From each hostile address, so many clients that stall again and again, each with so many bytes.
fn stalling(server: &Server, client: &Client, count: usize, bytes: usize) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for from in HOSTILE {
        for _ in 0..count {
            let (client, address) = (client.clone(), server.address);
            clients.spawn(async move {
                loop {
                    let _ = stall(&client, address, from, bytes).await;
                    sleep(Duration::from_millis(10)).await;
                }
            });
        }
    }
    clients
}

/// Gets a response every few seconds on a connection from this address, until the server closes it.
async fn idle(client: &Client, server: SocketAddr, from: Ipv4Addr) -> Result<Reply, Failure> {
    let mut connection = connect(client, server, from).await?;
    loop {
        connection.post(sample("idle")).await?;
        sleep(Duration::from_secs(2)).await;
    }
}

/// Fails unless each review is answered for a while, on new connections and on one that is kept.
async fn assert_served(client: &Client) {
    let mut kept = client.connect().await.unwrap();
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        assert_right(&kept.post(sample("kept")).await.unwrap(), "kept");
        assert_right(&client.post(sample("new")).await.unwrap(), "new");
    }
}

/// Fails unless most of some reviews on new connections are answered: on a machine that is busy, a handshake may take as
/// long as that of a client that stalls.
async fn assert_new_ones_served(client: &Client) {
    let mut failed = 0;
    for _ in 0..60 {
        match client.post(sample("new")).await {
            Ok(reply) => assert_right(&reply, "new"),
            Err(_) => failed += 1,
        }
    }
    assert!(failed <= 6, "{failed} of 60 failed");
}

#[tokio::test]
async fn connections_that_stall_make_room_for_those_of_other_addresses() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connections", "200"]).await;
    let client = site.client(&server);
    let _stalling = stalling(&server, &client, 120, 10);
    eventually("there are too many connections", async || server.metric(EVICTED).await > 0).await;
    assert_served(&client).await;
}

#[tokio::test]
async fn connections_that_are_idle_make_room_for_those_of_other_addresses() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connections", "60"]).await;
    let client = site.client(&server);
    let mut hostile = stalling(&server, &client, 5, 10);
    for number in 0..60 {
        let (client, address) = (client.clone(), server.address);
        hostile.spawn(async move {
            loop {
                let _ = idle(&client, address, HOSTILE[number % 2]).await;
                sleep(Duration::from_millis(300)).await;
            }
        });
    }
    eventually("there are too many connections", async || server.metric(EVICTED).await > 0).await;
    assert_new_ones_served(&client).await;
}

#[tokio::test]
async fn bodies_that_stall_make_room_for_those_of_other_addresses() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    // Together more than the server has room for.
    let _stalling = stalling(&server, &client, 4, 6 << 20);
    eventually("there is too little room", async || {
        let refused = server.metric("fabric_injector_shed_requests_total{reason=\"memory\"}").await;
        server.metric(EVICTED).await + refused > 0
    })
    .await;
    assert_served(&client).await;
    eventually("one that stalls makes room", async || server.metric(EVICTED).await > 0).await;
}
