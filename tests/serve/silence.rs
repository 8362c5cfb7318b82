//! Connections that say nothing take nothing from those that do.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::certificates::Site;
use super::client::Client;
use super::reviews::{assert_right, sample};
use super::{eventually, in_time};

const HANDSHAKES: &str = "fabric_injector_tls_handshakes_total";
const TIMEOUTS: &str = "fabric_injector_tls_handshake_failures_total{reason=\"timeout\"}";
const EVICTED: &str = "fabric_injector_connections_closed_total{reason=\"evicted\"}";
/// How many connections say nothing at all.
const SILENT: usize = 1_000;
/// How many stop in the middle of the handshake.
const STOPPED: usize = 200;

/// Raises the limit on open files to what the system allows, which has to be enough for all connections.
fn open_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    assert!(maximum.is_none_or(|most| most >= 3_000), "`ulimit -Hn` has to be 3000 or more, not {maximum:?}");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

async fn silent(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(in_time("a connection", TcpStream::connect(address)).await.unwrap());
    }
    streams
}

/// What a client says first.
fn hello(client: &Client, address: SocketAddr) -> Vec<u8> {
    let mut hello = Vec::new();
    let mut connection = ClientConnection::new(client.tls(), ServerName::from(address.ip())).unwrap();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// Fails unless a client with new connections is served as if it were alone: much sooner than any limit on
/// those who are silent ends.
async fn assert_prompt(client: &Client) {
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        assert_right(&client.post(sample("prompt")).await.unwrap(), "prompt");
        took.push(begun.elapsed());
    }
    took.sort();
    assert!(took[10] < Duration::from_millis(500), "{took:?}");
    assert!(took[19] < Duration::from_millis(2_500), "{took:?}");
}

#[tokio::test]
async fn silent_connections_hold_up_nobody_and_are_closed_after_five_seconds() {
    open_many_files();
    let site = Site::new();
    let server = site.serve_aws(&["--max-connections", "2000"]).await;
    let client = site.client(&server);
    let begun = Instant::now();
    let mut streams = silent(server.address, SILENT).await;
    let hello = hello(&client, server.address);
    for (number, mut stream) in silent(server.address, STOPPED).await.into_iter().enumerate() {
        // Half of a hello, or all of it and nothing after the server's answer.
        let said = if number % 2 == 0 { &hello[..hello.len() / 2] } else { &hello[..] };
        stream.write_all(said).await.unwrap();
        streams.push(stream);
    }
    eventually("all are taken on", async || server.metric(HANDSHAKES).await == 1_200).await;
    assert_prompt(&client).await;
    for mut stream in streams {
        let mut answer = Vec::new();
        let _ = in_time("the server closes", stream.read_to_end(&mut answer)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    eventually("all are counted", async || server.metric(TIMEOUTS).await == 1_200).await;
    eventually("all are gone", async || server.metric("fabric_injector_connections").await == 0).await;
    assert_eq!(server.metric(EVICTED).await, 0);
}

#[tokio::test]
async fn silent_connections_make_room_where_there_is_none() {
    open_many_files();
    let site = Site::new();
    let server = site.serve_aws(&["--max-connections", "50"]).await;
    let client = site.client(&server);
    let mut kept = client.connect().await.unwrap();
    assert_right(&kept.post(sample("before")).await.unwrap(), "before");
    let _silent = silent(server.address, SILENT).await;
    eventually("most had to go", async || server.metric(EVICTED).await == 951).await;
    assert_prompt(&client).await;
    assert_right(&kept.post(sample("after")).await.unwrap(), "after");
    assert!(server.metric("fabric_injector_connections").await <= 50);
}

#[tokio::test]
async fn connections_that_fell_silent_make_room_as_well() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-connections", "5"]).await;
    let client = site.client(&server);
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut connection = client.connect().await.unwrap();
        assert_right(&connection.post(sample("once")).await.unwrap(), "once");
        silent.push(connection);
    }
    assert_right(&client.post(sample("new")).await.unwrap(), "new");
    silent[0].closed().await.unwrap_or_default();
    assert_right(&silent[7].post(sample("last")).await.unwrap(), "last");
    eventually("the others were closed", async || server.metric(EVICTED).await >= 4).await;
}
