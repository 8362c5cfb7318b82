//! More requests than there is room for: an early answer, and a service that goes on.

use std::sync::mpsc;

use bytes::Bytes;
use fabric_engine::admission::OnError;
use fabric_injector::server::{AppState, Limits};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinHandle, yield_now};

use crate::answers::assert_unchanged;
use crate::bodies::{Sender, body, body_of, pieces};
use crate::reviews::{UID, large_pod, other_pod, pod, pod_with, review_of, with};
use crate::scrape::{ANSWERED, rejected, reviews, shed};
use crate::server::{LAB, Reply, Server, gated, policies, post};

/// Room for one request.
const ONE: Limits = Limits { in_flight: 1, body_bytes: Limits::BODY_BYTES };

/// A review that is larger than its response.
fn long_review() -> String {
    " ".repeat(8 << 10) + &review_of(&pod()).to_string()
}

/// Room for the bytes of one long review, and for no other one beside it.
fn few_bytes() -> Limits {
    Limits { body_bytes: long_review().len() * 3 / 2, ..Limits::default() }
}

/// A request whose body does not end before its sender is dropped.
struct Held {
    sender: Sender,
    task: JoinHandle<Reply>,
}

impl Held {
    /// Sends a review, but not its last letter.
    async fn on(server: &Server) -> Self {
        let text = long_review();
        let (sender, body) = body_of(text.len());
        sender.send(Ok(Bytes::from(text[..text.len() - 1].to_owned()))).unwrap();
        let others = server.scrape().value("requests_in_flight");
        let task = {
            let server = server.clone();
            tokio::spawn(async move { server.send(post("/mutate", body)).await })
        };
        while server.scrape().value("requests_in_flight") == others {
            yield_now().await;
        }
        Self { sender, task }
    }

    /// Sends the rest, and reads the answer.
    async fn end(self) {
        self.sender.send(Ok(Bytes::from_static(b"}"))).unwrap();
        drop(self.sender);
        assert_eq!(self.task.await.unwrap().response(UID)["patchType"], "JSONPatch");
    }
}

/// A pod that is served beside no other one that takes long.
fn largest_pod() -> Value {
    pod_with("/spec/containers/0/args", json!(["x".repeat(4 << 20)]))
}

/// A server that serves one pod, the first, while others hold every place of those that wait.
struct Busy {
    server: Server,
    tasks: Vec<JoinHandle<Reply>>,
    _begins: UnboundedReceiver<()>,
    gate: mpsc::Sender<()>,
}

impl Busy {
    async fn with(places: usize, on_error: OnError) -> Self {
        let (evaluate, mut begins, gate) = gated();
        let limits = Limits { in_flight: places, ..Limits::default() };
        let server = Server::new(AppState::new(policies(&[LAB]), on_error, limits).with_evaluate(evaluate));
        let mut tasks = Vec::new();
        for at in 0..=places {
            // A namespace with several would give way.
            let pod = if at == 0 { largest_pod() } else { large_pod() };
            let review = with(review_of(&pod), "/request/namespace", json!(format!("team-{at}")));
            tasks.push(spawn(&server, &review));
            if at == 0 {
                begins.recv().await.unwrap();
            }
        }
        in_flight(&server, places + 1).await;
        Self { server, tasks, _begins: begins, gate }
    }

    /// Lets the pods be served.
    async fn end(self) {
        drop(self.gate);
        for task in self.tasks {
            assert_eq!(task.await.unwrap().response(UID)["patchType"], "JSONPatch");
        }
        assert_serves(&self.server).await;
    }
}

fn spawn(server: &Server, review: &Value) -> JoinHandle<Reply> {
    let (server, text) = (server.clone(), review.to_string());
    tokio::spawn(async move { server.post(text).await })
}

/// Waits until so many requests have come.
async fn in_flight(server: &Server, requests: usize) {
    while server.scrape().value("requests_in_flight") < i64::try_from(requests).unwrap() {
        yield_now().await;
    }
}

/// Fails unless the server serves a pod, and has nothing else in flight.
async fn assert_serves(server: &Server) {
    assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
    assert!(server.scrape().value("requests_in_flight") == 0);
}

#[tokio::test]
async fn one_request_too_many_is_told_to_come_again() {
    let busy = Busy::with(1, OnError::Deny).await;
    let server = &busy.server;
    for _ in 0..3 {
        let before = server.scrape();
        let reply = server.post(review_of(&large_pod()).to_string()).await;
        assert!(reply.refusal(429).contains("`--max-in-flight`"), "{}", reply.text());
        assert_eq!(reply.header("retry-after"), "1");
        server.scrape().rose(&before, &[(&shed("in_flight"), 1)]);
    }
    // What need not wait is served.
    assert_unchanged(&server.review(&review_of(&other_pod())).await, &[]);
    busy.end().await;
}

/// Reviews that take long, of some namespaces, leave their places to the others.
#[tokio::test]
async fn the_namespace_with_most_that_wait_gives_way() {
    let (evaluate, mut begins, gate) = gated();
    let limits = Limits { in_flight: 8, ..Limits::default() };
    let server = Server::new(AppState::new(policies(&[LAB]), OnError::Deny, limits).with_evaluate(evaluate));
    let of = |namespace: &str, pod: &Value| {
        spawn(&server, &with(review_of(pod), "/request/namespace", json!(namespace)))
    };
    let mut answered = vec![of("first", &largest_pod())];
    begins.recv().await.unwrap();
    let mut held: Vec<_> = (0..8).map(|at| of(["evil", "worse"][at % 2], &large_pod())).collect();
    in_flight(&server, 9).await;
    let before = server.scrape();
    for _ in 0..20 {
        let reply = of("evil", &large_pod()).await.unwrap();
        assert!(reply.refusal(429).contains("too many requests of this namespace"));
    }
    server.scrape().rose(&before, &[(&shed("namespace"), 20)]);
    let last = held.split_off(6);
    answered.extend(["good", "better"].map(|namespace| of(namespace, &large_pod())));
    for last in last {
        last.await.unwrap().refusal(429);
    }
    drop(gate);
    for task in held.into_iter().chain(answered) {
        assert_eq!(task.await.unwrap().response(UID)["patchType"], "JSONPatch");
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn one_request_too_many_is_allowed_with_a_warning_if_the_operator_says_so() {
    let busy = Busy::with(1, OnError::Allow).await;
    let server = &busy.server;
    let (failed, unconcerned) =
        (reviews("", "failed", "overload"), reviews("", "unchanged", "no_policy_matches"));
    let too_many = "NOT injected, the pod has no fast network: overloaded: too many requests at once";
    // A pod that no policy is for loses nothing.
    let mut other = other_pod();
    other["spec"]["containers"][0]["args"] = large_pod()["spec"]["containers"][0]["args"].take();
    for (pod, warnings, series) in
        [(large_pod(), [too_many].as_slice(), failed), (other, [].as_slice(), unconcerned)]
    {
        let before = server.scrape();
        assert_unchanged(&server.review(&review_of(&pod)).await, warnings);
        server.scrape().rose(&before, &[(&shed("in_flight"), 1), (&series, 1), (ANSWERED, 1)]);
    }
    busy.end().await;
}

#[tokio::test]
async fn what_is_no_new_pod_is_allowed_under_overload_too_if_the_operator_says_so() {
    let busy = Busy::with(1, OnError::Allow).await;
    let server = &busy.server;
    let before = server.scrape();
    let review = review_of(&large_pod());
    let response = server.review(&with(review.clone(), "/request/operation", json!("DELETE"))).await;
    assert_eq!(response, json!({"uid": UID, "allowed": true}));
    let series = reviews("", "unchanged", "not_a_new_pod");
    server.scrape().rose(&before, &[(&shed("in_flight"), 1), (&series, 1), (ANSWERED, 1)]);
    let beta = with(review, "/apiVersion", json!("admission.k8s.io/v1beta1"));
    let response = server.post(beta.to_string()).await.response_in("admission.k8s.io/v1beta1", UID);
    assert_eq!(response["allowed"], false);
    busy.end().await;
}

#[tokio::test]
async fn what_is_no_review_is_told_so_under_overload_too() {
    let busy = Busy::with(1, OnError::Allow).await;
    let server = &busy.server;
    for (text, reason) in [("{", "not_json"), ("{}", "not_a_review")] {
        let before = server.scrape();
        server.post(text.to_owned() + &" ".repeat(64 << 10)).await.refusal(400);
        server.scrape().rose(&before, &[(&shed("in_flight"), 1), (&rejected(reason), 1)]);
    }
    server.send(post("/nowhere", "")).await.refusal(404);
    busy.end().await;
}

#[tokio::test]
async fn a_request_whose_sender_is_gone_leaves_its_place() {
    let mut busy = Busy::with(1, OnError::Deny).await;
    let another = review_of(&large_pod());
    busy.server.post(another.to_string()).await.refusal(429);
    let task = busy.tasks.remove(1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    busy.tasks.push(spawn(&busy.server, &another));
    in_flight(&busy.server, 2).await;
    busy.end().await;
}

#[tokio::test]
async fn a_body_whose_sender_is_gone_leaves_its_room() {
    let server = Server::limited(OnError::Deny, few_bytes());
    let held = Held::on(&server).await;
    server.post(long_review()).await.refusal(429);
    held.task.abort();
    assert!(held.task.await.unwrap_err().is_cancelled());
    assert_serves(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_given_up_leaves_its_room() {
    let server = Server::limited(OnError::Deny, few_bytes());
    let held = Held::on(&server).await;
    server.post(long_review()).await.refusal(429);
    held.task.await.unwrap().refusal(408);
    assert_serves(&server).await;
}

#[tokio::test]
async fn bodies_that_do_not_end_hold_no_places() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::limited(on_error, ONE);
        let held = [Held::on(&server).await, Held::on(&server).await, Held::on(&server).await];
        for pod in [pod(), large_pod()] {
            assert_eq!(server.review(&review_of(&pod)).await["patchType"], "JSONPatch");
        }
        for held in held {
            held.end().await;
        }
        assert_serves(&server).await;
    }
}

#[tokio::test]
async fn one_byte_too_many_is_told_to_come_again() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::limited(on_error, few_bytes());
        assert_serves(&server).await;
        let held = Held::on(&server).await;
        for _ in 0..3 {
            let before = server.scrape();
            let reply = server.post(long_review()).await;
            assert!(reply.refusal(429).contains("too many bytes of requests"), "{}", reply.text());
            assert_eq!(reply.header("retry-after"), "1");
            server.scrape().rose(&before, &[(&shed("memory"), 1)]);
        }
        // There is room for a small one still.
        server.post("{}").await.refusal(400);
        held.end().await;
        assert_serves(&server).await;
    }
}

#[tokio::test]
async fn a_body_waits_a_moment_for_room() {
    let server = Server::limited(OnError::Deny, few_bytes());
    let held = Held::on(&server).await;
    let waiting = {
        let server = server.clone();
        tokio::spawn(async move { server.post(long_review()).await })
    };
    while server.scrape().value("requests_in_flight") < 2 {
        yield_now().await;
    }
    held.task.abort();
    assert_eq!(waiting.await.unwrap().response(UID)["patchType"], "JSONPatch");
}

#[tokio::test]
async fn a_body_that_is_turned_away_leaves_its_room_before_it_ends() {
    let server = Server::limited(OnError::Deny, few_bytes());
    let (sender, body) = body();
    for _ in 0..2 {
        sender.send(Ok(Bytes::from(long_review()))).unwrap();
    }
    let task = {
        let server = server.clone();
        tokio::spawn(async move { server.send(post("/mutate", body)).await })
    };
    while server.scrape().value(&shed("memory")) == 0 {
        yield_now().await;
    }
    assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
    drop(sender);
    task.await.unwrap().refusal(429);
}

#[tokio::test]
async fn a_review_that_is_larger_than_all_room_leaves_none_of_it_taken() {
    let review = long_review();
    let server = Server::limited(OnError::Deny, Limits { body_bytes: review.len(), ..Limits::default() });
    let larger = review.clone() + " ";
    for _ in 0..3 {
        server.post(pieces(larger.as_bytes().chunks(100))).await.refusal(429);
        server.post(larger.clone()).await.refusal(429);
        assert_eq!(server.post(review.clone()).await.response(UID)["patchType"], "JSONPatch");
    }
}

#[tokio::test]
async fn a_request_has_its_room_until_it_is_answered() {
    let review = review_of(&large_pod());
    let limits = Limits { body_bytes: review.to_string().len() * 3 / 2, ..Limits::default() };
    let (evaluate, mut begins, gate) = gated();
    let server = Server::new(AppState::new(policies(&[LAB]), OnError::Deny, limits).with_evaluate(evaluate));
    let task = spawn(&server, &review);
    begins.recv().await.unwrap();
    let before = server.scrape();
    server.post(review.to_string()).await.refusal(429);
    server.scrape().rose(&before, &[(&shed("memory"), 1)]);
    assert_eq!(server.scrape().value("requests_in_flight"), 1);
    drop(gate);
    assert_eq!(task.await.unwrap().response(UID)["patchType"], "JSONPatch");
    assert_eq!(server.review(&review).await["patchType"], "JSONPatch");
}

#[tokio::test]
async fn a_room_is_left_however_a_request_ends() {
    let review = long_review();
    let limits = Limits { body_bytes: review.len(), in_flight: 1 };
    let server = Server::limited(OnError::Deny, limits);
    let limits = Limits { body_bytes: 300 << 10, in_flight: 1 };
    let state = AppState::new(policies(&[LAB]), OnError::Deny, limits);
    let faulty = Server::new(state.with_evaluate(Box::new(|_, _, _| panic!("a test panics"))));
    for _ in 0..3 {
        server.post("{").await.refusal(400);
        server.post("x".repeat(review.len())).await.refusal(400);
        let (sender, body) = body();
        sender.send(Ok(Bytes::from(review[1..].to_owned()))).unwrap();
        sender.send(Err(std::io::Error::other("gone"))).unwrap();
        server.send(post("/mutate", body)).await.refusal(400);
        assert_serves(&server).await;
        for pod in [pod(), large_pod()] {
            assert_eq!(faulty.review(&review_of(&pod)).await["allowed"], false);
        }
    }
}

/// The only other thread of this runtime is taken: what needs it waits, and what does not goes on.
#[test]
fn a_large_review_that_is_shed_is_read_on_another_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
    runtime.unwrap().block_on(async {
        let (gate, closed) = mpsc::channel::<()>();
        let taken = tokio::task::spawn_blocking(move || closed.recv());
        let server = Server::limited(OnError::Allow, Limits { in_flight: 0, ..Limits::default() });
        for path in ["/mutate", "/validate-workloads"] {
            let large = server.send(post(path, review_of(&large_pod()).to_string()));
            let small = server.send(post(path, review_of(&other_pod()).to_string()));
            tokio::select! {
                biased;
                _ = large => panic!("{path}: the large review was read on the thread of all requests"),
                reply = small => assert_eq!(reply.response(UID)["allowed"], true),
            }
        }
        drop(gate);
        assert!(taken.await.unwrap().is_err());
        let response = server.review(&review_of(&large_pod())).await;
        assert_unchanged(&response, &["NOT injected, the pod has no fast network"]);
    });
}

#[tokio::test]
async fn as_many_reviews_wait_as_there_are_places() {
    let busy = Busy::with(8, OnError::Deny).await;
    let before = busy.server.scrape();
    busy.server.post(review_of(&large_pod()).to_string()).await.refusal(429);
    busy.server.scrape().rose(&before, &[(&shed("in_flight"), 1)]);
    busy.end().await;
}
