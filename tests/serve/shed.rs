//! More requests than there may be.

use std::process::Command;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::certificates::Site;
use super::client::Connection;
use super::messages::{Failure, Reply};
use super::reviews::{assert_right, plain_pod, pod, response, review, sample};
use super::server::{ANY_PORTS, Server};
use super::{eventually, in_time};

/// The requests of the namespace that has the place, and those that are too many.
const SHED: [&str; 2] = ["namespace", "in_flight"];

/// A pod that takes seconds to serve.
fn slow_pod() -> Value {
    let mut pod = pod();
    let container = pod["spec"]["containers"][0].take();
    let containers = (0..5_000).map(|number| {
        let mut container = container.clone();
        container["name"] = format!("c{number}").into();
        container
    });
    pod["spec"]["containers"] = containers.collect();
    pod
}

/// How many were shed for each reason.
async fn shed(server: &Server) -> [usize; 2] {
    let [namespace, in_flight] =
        SHED.map(|reason| format!("fabric_injector_shed_requests_total{{reason=\"{reason}\"}}"));
    [server.metric(&namespace).await, server.metric(&in_flight).await]
}

/// The review of a pod in another namespace that has to wait.
fn elsewhere(uid: &str, mut pod: Value) -> Vec<u8> {
    pod["spec"]["containers"][0]["args"] = json!(["x".repeat(100 << 10)]);
    let mut review: Value = serde_json::from_slice(&review(uid, &pod)).unwrap();
    review["request"]["namespace"] = "elsewhere".into();
    review.to_string().into_bytes()
}

/// What is evaluated for some seconds, and what holds the only place of those that wait.
struct Busy {
    _connections: [Connection; 3],
    answers: [JoinHandle<Result<Reply, Failure>>; 3],
}

impl Busy {
    async fn on(server: &Server, site: &Site) -> Self {
        let client = site.client(server);
        let mut connections = [
            client.connect().await.unwrap(),
            client.connect().await.unwrap(),
            client.connect().await.unwrap(),
        ];
        let slow = review("slow", &slow_pod());
        // The last one tells that the others have the turn and the place.
        let answers = connections.each_mut().map(|connection| {
            tokio::spawn(connection.begin(Method::POST, "/mutate?timeout=30s", slow.clone().into()))
        });
        eventually("the place is held", async || shed(server).await == [1, 0]).await;
        Self { _connections: connections, answers }
    }

    /// Waits for the answers; how many of the pods were served.
    async fn served(self) -> usize {
        let mut served = 0;
        for answer in self.answers {
            let reply = answer.await.unwrap().unwrap();
            served += usize::from(reply.status == 200 && response(&reply, "slow")["patch"].is_string());
        }
        served
    }
}

#[tokio::test]
async fn what_is_too_much_is_told_to_come_again() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-in-flight", "1"]).await;
    let client = site.client(&server);
    let busy = Busy::on(&server, &site).await;
    for _ in 0..2 {
        let reply = client.post(elsewhere("other", pod())).await.unwrap();
        assert_eq!(reply.status, 429, "{}", reply.text());
        assert_eq!(reply.headers["retry-after"], "1");
        let status: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &429.into()), "{status}");
        assert!(status["message"].as_str().unwrap().contains("--max-in-flight"), "{status}");
    }
    assert_eq!(shed(&server).await, [1, 2]);
    assert_right(&client.post(sample("small")).await.unwrap(), "small");
    assert_eq!(busy.served().await, 2);
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}

#[tokio::test]
async fn what_is_too_much_is_let_through_where_the_operator_wants_it() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-in-flight", "1", "--on-error", "allow"]).await;
    let client = site.client(&server);
    let busy = Busy::on(&server, &site).await;
    let unserved = response(&client.post(elsewhere("other", pod())).await.unwrap(), "other");
    assert_eq!(unserved["allowed"], true);
    assert!(unserved["patch"].is_null(), "{unserved}");
    let warning = unserved["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("NOT injected") && warning.contains("(`--max-in-flight`)"), "{warning}");
    let unconcerned = response(&client.post(elsewhere("plain", plain_pod())).await.unwrap(), "plain");
    assert_eq!((&unconcerned["allowed"], &unconcerned["warnings"]), (&true.into(), &Value::Null));
    assert_eq!(shed(&server).await, [1, 2]);
    let lines = server.logged("pod not injected", 2).await;
    let line = lines.iter().find(|line| line["uid"] == "other").expect("the pod is told of");
    assert_eq!(line["reason"], "overload", "{line}");
    assert_eq!(busy.served().await, 2);
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
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
    let message = "fewer connections than `--max-connections`: the limit on open files is too low";
    let warned = server.logged(message, 1).await.remove(0);
    assert_eq!((&warned["files"], &warned["connections"]), (&131.into(), &51.into()));
    let client = site.client(&server);
    let mut open = Vec::new();
    for _ in 0..60 {
        let mut connection = client.connect().await.unwrap();
        assert_right(&connection.post(sample("a")).await.unwrap(), "a");
        open.push(connection);
    }
    eventually("51 are open", async || server.metric("fabric_injector_connections").await == 51).await;
}

/// Probes of the kubelet are answered, each on a connection of its own.
async fn assert_alive(server: &Server) {
    for _ in 0..10 {
        let begun = Instant::now();
        assert_eq!(server.status("/livez").await, 200);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn silent_connections_leave_files_for_probes_and_reviews() {
    let site = Site::new();
    let server = Server::spawn(&mut serve_with_files(&site, "ulimit -n 64")).await;
    let client = site.client(&server);
    let mut silent = Vec::new();
    for address in [server.admin, server.address] {
        for _ in 0..100 {
            silent.push(in_time("a connection", TcpStream::connect(address)).await.unwrap());
        }
        assert_alive(&server).await;
        assert_right(&client.post(sample("a")).await.unwrap(), "a");
    }
    // They leave room for others at once.
    let mut half = Vec::new();
    for _ in 0..100 {
        let mut stream = in_time("a connection", TcpStream::connect(server.admin)).await.unwrap();
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nhost").await;
        half.push(stream);
    }
    assert_alive(&server).await;
    assert_right(&client.post(sample("b")).await.unwrap(), "b");
}
