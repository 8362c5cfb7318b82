//! More requests than there may be.

use std::process::Command;

use hyper::Method;

use super::certificates::Site;
use super::drain::in_flight;
use super::eventually;
use super::messages::Body;
use super::reviews::{assert_right, halves, plain_pod, response, review, sample};
use super::server::{ANY_PORTS, Server};

const SHED: &str = "fabric_injector_shed_requests_total{reason=\"in_flight\"}";

#[tokio::test]
async fn what_is_too_much_is_told_to_come_again() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-in-flight", "1"]).await;
    let client = site.client(&server);
    let (pieces, body) = Body::in_pieces();
    let mut connection = client.connect().await.unwrap();
    let slow = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    let [first, second] = halves(&sample("slow"));
    pieces.send(first.into()).unwrap();
    in_flight(&server, 1).await;
    for client in [client.clone(), client.http1()] {
        let reply = client.post(sample("other")).await.unwrap();
        assert_eq!(reply.status, 429, "{}", reply.text());
        assert_eq!(reply.headers["retry-after"], "1");
        let status: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &429.into()), "{status}");
        assert!(status["message"].as_str().unwrap().contains("--max-in-flight"), "{status}");
    }
    // On the connection of the slow one as well.
    assert_eq!(connection.post(sample("same")).await.unwrap().status, 429);
    assert_eq!(server.metric(SHED).await, 3);
    pieces.send(second.into()).unwrap();
    drop(pieces);
    assert_right(&slow.await.unwrap().unwrap(), "slow");
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}

#[tokio::test]
async fn what_is_too_much_is_let_through_where_the_operator_wants_it() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-in-flight", "1", "--on-error", "allow"]).await;
    let client = site.client(&server);
    let (pieces, body) = Body::in_pieces();
    let mut connection = client.connect().await.unwrap();
    let slow = tokio::spawn(connection.begin(Method::POST, "/mutate", body));
    let [first, second] = halves(&sample("slow"));
    pieces.send(first.into()).unwrap();
    in_flight(&server, 1).await;
    let unserved = response(&client.post(review("other", &super::reviews::pod())).await.unwrap(), "other");
    assert_eq!(unserved["allowed"], true);
    assert!(unserved["patch"].is_null(), "{unserved}");
    let warning = unserved["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("NOT served") && warning.ends_with("(`--max-in-flight`)"), "{warning}");
    let unconcerned = response(&client.post(review("plain", &plain_pod())).await.unwrap(), "plain");
    assert_eq!((&unconcerned["allowed"], &unconcerned["warnings"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(server.metric(SHED).await, 2);
    let line = server.logged("pod not served", 1).await.remove(0);
    assert_eq!((&line["uid"], &line["reason"]), (&"other".into(), &"overload".into()), "{line}");
    pieces.send(second.into()).unwrap();
    drop(pieces);
    assert_right(&slow.await.unwrap().unwrap(), "slow");
}

/// `serve` in a shell that first limits how many files may be open.
fn serve_with_files(site: &Site, limit: &str) -> Command {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_fabric-injector");
    command.args(["-c", &format!("{limit} && exec \"$0\" serve \"$@\""), program]).args(ANY_PORTS);
    command.args(["--policy", "aws-efa", "--tls-dir", &site.path("")]);
    command
}

#[tokio::test]
async fn open_files_are_as_many_as_there_may_be() {
    let site = Site::new();
    let server = Server::spawn(&mut serve_with_files(&site, "ulimit -Sn 100 && ulimit -Hn 2000")).await;
    assert_eq!(server.metric("process_max_fds").await, 2000);
    assert!(!server.log_text().contains("too few files"));
}

#[tokio::test]
async fn connections_are_fewer_if_too_few_files_may_be_open() {
    let site = Site::new();
    let server = Server::spawn(&mut serve_with_files(&site, "ulimit -n 131")).await;
    let message = "fewer connections than `--max-connections`: too few files may be open";
    let warned = server.logged(message, 1).await.remove(0);
    assert_eq!((&warned["files"], &warned["connections"]), (&131.into(), &3.into()));
    let client = site.client(&server);
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut connection = client.connect().await.unwrap();
        assert_right(&connection.post(sample("a")).await.unwrap(), "a");
        open.push(connection);
    }
    eventually("three are open", async || server.metric("fabric_injector_connections").await == 3).await;
}
