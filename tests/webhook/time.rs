//! An API server waits for so long and no longer: by then it has an answer.
//!
//! Time is paused and goes on when everything waits, so that ten seconds are over at once.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use fabric_engine::Outcome;
use fabric_engine::admission::{Evaluate, OnError};
use fabric_injector::server::{AppState, Limits, MAX_BODY, app};
use hyper::{Method, Request};
use tokio::time::{Instant, sleep};

use crate::answers::assert_unchanged;
use crate::bodies::{Body, body};
use crate::reviews::{UID, large_pod, other_pod, pod, review_of, review_with, with};
use crate::scrape::{ANSWERED, rejected, reviews, shed};
use crate::server::{LAB, Reply, Server, engine, gated, policies, post, request};

/// Runs something on a clock of its own that begins now, and tells how long it took by that. What it took
/// besides by the real clock does not count.
fn timed<T>(run: impl Future<Output = T>) -> (T, Duration) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (started, really_started) = (Instant::now(), std::time::Instant::now());
        let output = tokio::time::timeout(Duration::from_secs(100), run).await.expect("an answer comes");
        (output, started.elapsed().saturating_sub(really_started.elapsed()))
    })
}

/// A body of which nothing comes but this, and which does not end.
fn stalled(first: &str) -> Body {
    let (sender, body) = body();
    sender.send(Ok(Bytes::from(first.to_owned()))).unwrap();
    // For as long as the test goes on.
    std::mem::forget(sender);
    body
}

/// A body that goes on for ever.
fn endless() -> Body {
    let (sender, body) = body();
    tokio::spawn(async move {
        while sender.send(Ok(Bytes::from(vec![b' '; 16 << 10]))).is_ok() {
            sleep(Duration::from_millis(1_900)).await;
        }
    });
    body
}

/// What came back, and in which time.
fn timed_reply(server: &Server, request: Request<Body>) -> (Reply, Duration) {
    timed(server.send(request))
}

#[test]
fn a_body_that_stalls_is_given_up_within_the_time_of_the_api_server() {
    let server = Server::lab();
    let review = review_of(&pod()).to_string();
    let queries =
        [("?timeout=1s", 1), ("?timeout=3s", 3), ("?a&timeout=5s&b=1", 5), ("", 10), ("?timeout=30s", 30)];
    for (query, seconds) in queries {
        for sent in ["", &review[..review.len() / 2], &review] {
            let before = server.scrape();
            let (reply, took) = timed_reply(&server, post(&format!("/mutate{query}"), stalled(sent)));
            assert!(reply.refusal(408).contains("in time"), "{}", reply.text());
            assert!(took < Duration::from_secs(seconds.min(11)), "{query} took {took:?}");
            // Nor is it given up at once.
            assert!(took > Duration::from_secs(seconds.min(11)) / 2, "{query} took {took:?}");
            server.scrape().rose(&before, &[(&rejected("body_timeout"), 1)]);
        }
    }
}

#[test]
fn a_timeout_that_means_nothing_is_that_of_an_api_server_that_was_told_nothing() {
    let server = Server::lab();
    for query in
        ["?timeout=", "?timeout", "?timeout=soon", "?timeout=-1s", "?timeout=99999999999999999999s", "?%&=&"]
    {
        let (reply, took) = timed(async { server.send(post(&format!("/mutate{query}"), endless())).await });
        reply.refusal(408);
        assert!(took > Duration::from_secs(5) && took < Duration::from_secs(10), "{query} took {took:?}");
    }
}

#[test]
fn a_timeout_beyond_what_an_api_server_waits_is_none() {
    let server = Server::lab();
    for query in ["?timeout=1h", "?timeout=10000000000s"] {
        let (reply, took) = timed(async { server.send(post(&format!("/mutate{query}"), endless())).await });
        reply.refusal(408);
        assert!(took < Duration::from_secs(30), "{query} took {took:?}");
    }
}

#[test]
fn a_body_that_trickles_for_ever_is_given_up_as_well() {
    let server = Server::lab();
    let (sender, body) = body();
    let (reply, took) = timed(async {
        let trickle = tokio::spawn(async move {
            while sender.send(Ok(Bytes::from_static(b" "))).is_ok() {
                sleep(Duration::from_millis(100)).await;
            }
        });
        let reply = server.send(post("/mutate?timeout=30s", body)).await;
        trickle.await.unwrap();
        reply
    });
    reply.refusal(408);
    assert!(took < Duration::from_secs(11), "{took:?}");
}

#[test]
fn a_body_that_is_slow_but_goes_on_is_answered() {
    let server = Server::lab();
    let (sender, body) = body();
    let (reply, took) = timed(async {
        let text = review_of(&large_pod()).to_string();
        tokio::spawn(async move {
            for piece in text.as_bytes().chunks(text.len() / 4) {
                sleep(Duration::from_secs(1)).await;
                sender.send(Ok(Bytes::copy_from_slice(piece))).unwrap();
            }
        });
        server.send(post("/mutate?timeout=10s", body)).await
    });
    assert_eq!(reply.response(UID)["patchType"], "JSONPatch");
    assert!(took > Duration::from_secs(3), "{took:?}");
}

#[test]
fn what_will_be_turned_away_is_turned_away_in_time_although_its_body_stalls() {
    let no_room = Limits { body_bytes: 10, ..Limits::default() };
    let usual = Limits::default();
    let path = "/mutate?timeout=3s";
    let long = post(path, Body::Announced(MAX_BODY + 1));
    let requests = [
        ("wrong path", 404, usual, post("/nowhere?timeout=3s", stalled("{"))),
        ("wrong method", 405, usual, request(Method::PUT, path, Some(b"application/json"), stalled("{"))),
        ("wrong type", 415, usual, request(Method::POST, path, Some(b"text/plain"), stalled("{"))),
        ("too long by its length", 413, usual, long),
        ("too long", 413, usual, post(path, stalled(&" ".repeat(MAX_BODY + 1)))),
        ("too many bytes", 429, no_room, post(path, stalled(&" ".repeat(11)))),
    ];
    for (what, status, limits, request) in requests {
        let server = Server::limited(OnError::Deny, limits);
        let (reply, took) = timed_reply(&server, request);
        reply.refusal(status);
        assert_eq!(reply.header("connection"), "close", "{what}");
        assert!(took < Duration::from_secs(1), "{what} took {took:?}");
    }
}

#[test]
fn a_review_for_which_no_time_is_left_is_not_begun() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::evaluating(on_error, Box::new(|_, _, _| panic!("there is no time for that")));
        let before = server.scrape();
        let (reply, _) = timed_reply(&server, post("/mutate?timeout=1ns", review_of(&pod()).to_string()));
        let now = server.scrape();
        if on_error == OnError::Deny {
            assert!(reply.refusal(429).contains("not enough time"), "{}", reply.text());
            assert_eq!(reply.header("retry-after"), "1");
            now.rose(&before, &[(&shed("deadline"), 1)]);
        } else {
            assert_unchanged(&reply.response(UID), &["NOT injected, the pod has no fast network"]);
            let failed = reviews("", "failed", "overload");
            now.rose(&before, &[(&shed("deadline"), 1), (&failed, 1), (ANSWERED, 1)]);
        }
    }
}

#[test]
fn what_is_no_new_pod_is_allowed_although_no_time_is_left() {
    let server = Server::on_error(OnError::Allow);
    let review = review_with("operation", serde_json::json!("UPDATE"));
    let (reply, _) = timed_reply(&server, post("/mutate?timeout=1ns", review.to_string()));
    assert_eq!(reply.response(UID), serde_json::json!({"uid": UID, "allowed": true}));
}

/// Large pods take turns; a turn that does not come in time is not waited for. By the real clock, since
/// what is in front blocks its thread.
#[tokio::test]
async fn a_large_pod_whose_turn_does_not_come_is_answered_in_time() {
    let (evaluate, mut begins, gate) = gated();
    let server = Server::evaluating(OnError::Deny, evaluate);
    let text = review_of(&large_pod()).to_string();
    let turns = 1;
    let in_front: Vec<_> = (0..turns)
        .map(|_| {
            let (server, text) = (server.clone(), text.clone());
            tokio::spawn(async move { server.post(text).await })
        })
        .collect();
    for _ in 0..turns {
        begins.recv().await.unwrap();
    }
    // What is not for any policy needs no turn.
    assert_unchanged(&server.review(&review_of(&other_pod())).await, &[]);
    let before = server.scrape();
    let started = std::time::Instant::now();
    let reply = server.send(post("/mutate?timeout=1s", text.clone())).await;
    let took = started.elapsed();
    drop(gate);
    assert!(reply.refusal(429).contains("not enough time"), "{}", reply.text());
    assert!(took > Duration::from_millis(500) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(server.scrape().value(&shed("deadline")) - before.value(&shed("deadline")), 1);
    for task in in_front {
        assert_eq!(task.await.unwrap().response(UID)["patchType"], "JSONPatch");
    }
    assert_eq!(server.post(text).await.response(UID)["patchType"], "JSONPatch");
    assert!(begins.try_recv().is_ok());
}

/// The engine, which does not end with a pod called `slow` until the last value is dropped.
fn slow_engine() -> (Box<Evaluate>, mpsc::Sender<()>) {
    let (gate, closed) = mpsc::channel();
    let closed = Mutex::new(closed);
    let evaluate: Box<Evaluate> = Box::new(move |policies, pod, about| {
        if pod["metadata"]["name"] == "slow" {
            let _ = closed.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        engine(policies, pod, about)
    });
    (evaluate, gate)
}

/// A review that is not evaluated at once, of a pod with which [`slow_engine`] does not end.
fn slow_review() -> String {
    with(review_of(&large_pod()), "/request/object/metadata/name", "slow".into()).to_string()
}

/// By the real clock, since evaluations do not know of another.
#[tokio::test]
async fn an_evaluation_that_takes_long_is_answered_in_time_and_holds_up_nobody() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let (evaluate, gate) = slow_engine();
        let server = Server::evaluating(on_error, evaluate);
        let slow = slow_review();
        let (before, started) = (server.scrape(), std::time::Instant::now());
        let waiting = {
            let (server, slow) = (server.clone(), slow.clone());
            tokio::spawn(async move { server.send(post("/mutate?timeout=1s", slow)).await })
        };
        tokio::task::yield_now().await;
        let live = request(Method::GET, "/livez", None, "");
        assert_eq!(Reply::from(app::admin(server.state.clone()), live).await.status, 200);
        assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
        assert!(!waiting.is_finished());
        let reply = waiting.await.unwrap();
        let took = started.elapsed();
        assert!(took > Duration::from_millis(500) && took < Duration::from_secs(10), "{took:?}");
        if on_error == OnError::Deny {
            assert!(reply.refusal(429).contains("not enough time"), "{}", reply.text());
        } else {
            assert_unchanged(&reply.response(UID), &["NOT injected, the pod has no fast network"]);
        }
        assert_eq!(server.scrape().value(&shed("deadline")) - before.value(&shed("deadline")), 1);
        drop(gate);
        // It has ended, and leaves its turn to the next one.
        assert_eq!(server.post(slow).await.response(UID)["patchType"], "JSONPatch");
    }
}

/// The real engine asks for the flag before each container, so that this one waits for it in its place.
#[tokio::test]
async fn an_evaluation_that_nobody_waits_for_is_stopped() {
    let (stopped, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let evaluate: Box<Evaluate> = Box::new(move |policies, pod, about| {
        let work = about.work.as_ref().unwrap();
        if pod["metadata"]["name"] == "slow" {
            let begun = std::time::Instant::now();
            while work.ended().is_none() && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let mutation = engine(policies, pod, about);
        let _ = stopped.send(mutation.outcome.clone());
        mutation
    });
    let server = Server::evaluating(OnError::Deny, evaluate);
    let slow = slow_review();
    let reply = server.send(post("/mutate?timeout=1s", slow)).await;
    assert!(reply.refusal(429).contains("not enough time"), "{}", reply.text());
    let Outcome::Refused { reason } = ended.recv().await.unwrap() else { panic!("it went on") };
    assert_eq!(reason.code(), "overload");
    assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
    assert!(matches!(ended.recv().await.unwrap(), Outcome::Mutated(_)));
}

#[tokio::test]
async fn evaluations_that_take_long_have_their_turns_and_their_memory_until_they_end() {
    let (evaluate, gate) = slow_engine();
    let slow = slow_review();
    let limits = Limits { body_bytes: slow.len() * 7 / 2, ..Limits::default() };
    let server = Server::new(AppState::new(policies(&[LAB]), OnError::Deny, limits).with_evaluate(evaluate));
    let in_time = |text: &str| server.send(post("/mutate?timeout=1s", text.to_owned()));
    assert!(in_time(&slow).await.refusal(429).contains("not enough time"));
    let (second, third, fourth) = tokio::join!(in_time(&slow), in_time(&slow), in_time(&slow));
    assert!(second.refusal(429).contains("not enough time"), "the namespace has no other turn");
    assert!(third.refusal(429).contains("not enough time"));
    assert!(fourth.refusal(429).contains("too many bytes"), "the others hold theirs");
    let elsewhere = with(review_of(&large_pod()), "/request/namespace", "elsewhere".into()).to_string();
    assert_eq!(in_time(&elsewhere).await.response(UID)["patchType"], "JSONPatch");
    drop(gate);
    assert_eq!(in_time(&slow).await.response(UID)["patchType"], "JSONPatch");
}

/// Each container looks through all others.
const QUADRATIC: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: quadratic}
spec:
  provider: lab
  description: A policy that takes long
  gpus: {resources: [nvidia.com/gpu]}
  match: {anyAnnotation: {lab.example/fabric: "true"}}
  rules:
    - name: peers
      containers: gpus > 0 && pod.spec.containers.exists(c, c.name + 'x' == container.name)
      env: {PEER: "1"}
"#;

/// What takes too long is refused, and does not keep others waiting.
#[tokio::test]
async fn a_pod_that_takes_too_much_work_is_refused() {
    let server = Server::new(AppState::new(policies(&[QUADRATIC]), OnError::Allow, Limits::default()));
    let of = |count: usize| {
        let container = |at: usize| serde_json::json!({"name": format!("c{at}"), "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        let containers: serde_json::Value = (0..count).map(container).collect();
        let pod = with(pod(), "/spec/containers", containers);
        review_of(&with(pod, "/metadata/annotations", serde_json::json!({"lab.example/fabric": "true"})))
    };
    let before = server.scrape();
    for _ in 0..2 {
        let response = server.review(&of(4_000)).await;
        assert_eq!(response["allowed"], false, "{response}");
        assert!(response["status"]["message"].as_str().unwrap().contains("steps"), "{response}");
    }
    server.scrape().rose(&before, &[(&reviews("quadratic", "refused", "cost"), 2), (ANSWERED, 2)]);
    assert_eq!(server.review(&of(20)).await["allowed"], true);
}
