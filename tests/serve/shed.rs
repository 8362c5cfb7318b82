//! More requests than there may be.

use hyper::Method;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::certificates::Site;
use super::client::Connection;
use super::eventually;
use super::messages::{Failure, Reply};
use super::reviews::{assert_right, plain_pod, pod, response, review, sample};
use super::server::Server;

const SHED: &str = "fabric_injector_shed_requests_total{reason=\"in_flight\"}";

/// A pod that takes seconds to serve.
fn slow_pod() -> Value {
    let mut pod = pod();
    let container = pod["spec"]["containers"][0].take();
    let containers = (0..4000).map(|number| {
        let mut container = container.clone();
        container["name"] = format!("c{number}").into();
        container
    });
    pod["spec"]["containers"] = containers.collect();
    pod
}

/// What holds the only place of a server for some seconds.
struct Busy {
    connection: Connection,
    answers: [JoinHandle<Result<Reply, Failure>>; 2],
}

impl Busy {
    async fn on(server: &Server, site: &Site) -> Self {
        let mut connection = site.client(server).connect().await.unwrap();
        let slow = review("slow", &slow_pod());
        // The one that comes second tells that the other has the place.
        let answers =
            [(); 2].map(|()| tokio::spawn(connection.begin(Method::POST, "/mutate", slow.clone().into())));
        eventually("the place is held", async || server.metric(SHED).await == 1).await;
        Self { connection, answers }
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
    let mut busy = Busy::on(&server, &site).await;
    for client in [client.clone(), client.http1()] {
        let reply = client.post(sample("other")).await.unwrap();
        assert_eq!(reply.status, 429, "{}", reply.text());
        assert_eq!(reply.headers["retry-after"], "1");
        let status: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &429.into()), "{status}");
        assert!(status["message"].as_str().unwrap().contains("--max-in-flight"), "{status}");
    }
    // On the connection of the slow one as well.
    assert_eq!(busy.connection.post(sample("same")).await.unwrap().status, 429);
    assert_eq!(server.metric(SHED).await, 4);
    assert_eq!(busy.served().await, 1);
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}

#[tokio::test]
async fn what_is_too_much_is_let_through_where_the_operator_wants_it() {
    let site = Site::new();
    let server = site.serve_aws(&["--max-in-flight", "1", "--on-error", "allow"]).await;
    let client = site.client(&server);
    let busy = Busy::on(&server, &site).await;
    let unserved = response(&client.post(review("other", &pod())).await.unwrap(), "other");
    assert_eq!(unserved["allowed"], true);
    assert!(unserved["patch"].is_null(), "{unserved}");
    let warning = unserved["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("NOT served") && warning.ends_with("(`--max-in-flight`)"), "{warning}");
    let unconcerned = response(&client.post(review("plain", &plain_pod())).await.unwrap(), "plain");
    assert_eq!((&unconcerned["allowed"], &unconcerned["warnings"]), (&true.into(), &Value::Null));
    assert_eq!(server.metric(SHED).await, 3);
    let lines = server.logged("pod not served", 2).await;
    let line = lines.iter().find(|line| line["uid"] == "other").expect("the pod is told of");
    assert_eq!(line["reason"], "overload", "{line}");
    assert_eq!(busy.served().await, 1);
    assert_right(&client.post(sample("next")).await.unwrap(), "next");
}
