//! Faults of the policy and of this program: answered all the same, and as the operator wants it.

use fabric_engine::admission::{Evaluate, OnError};
use fabric_engine::{Mutation, Outcome, Reason};
use fabric_policy::Fault;
use fabric_policy::interpolation::EvaluationError;
use serde_json::{Value, json};

use crate::answers::{assert_unchanged, audit, denied};
use crate::reviews::{UID, large_pod, other_pod, pod, pod_that_fails, review_of};
use crate::scrape::{ANSWERED, Scrape, reviews};
use crate::server::{Server, engine};

/// An evaluator that never has a value.
fn failing() -> Box<Evaluate> {
    Box::new(|_, _, _| {
        let error = EvaluationError {
            expression: "a\n+ b".to_owned(),
            message: "é".repeat(5_000),
            fault: Fault::default(),
        };
        let reason = Reason::EvaluationFailed { place: "rule `x`".to_owned(), error: Box::new(error) };
        Mutation {
            outcome: Outcome::Refused { reason },
            policy: Some("lab".to_owned()),
            warnings: Vec::new(),
        }
    })
}

/// An evaluator that is broken.
fn panicking() -> Box<Evaluate> {
    Box::new(|_, _, _| panic!("the evaluator of a test panics"))
}

/// Fails unless one review more was counted, as one that failed.
#[track_caller]
fn assert_failed(now: &Scrape, before: &Scrape, policy: &str, reason: &str) {
    now.rose(before, &[(&reviews(policy, "failed", reason), 1), (ANSWERED, 1)]);
}

#[tokio::test]
async fn a_pod_for_which_the_policy_has_no_value_is_denied_by_default() {
    assert_eq!(OnError::default(), OnError::Deny);
    let server = Server::on_error(OnError::default());
    let before = server.scrape();
    let response = server.review(&review_of(&pod_that_fails())).await;
    let message = denied(&response, 500);
    assert!(message.contains("int(pod.metadata") && message.contains("cannot be evaluated"), "{message}");
    assert_eq!(response["status"]["reason"], "InternalError");
    assert_eq!(response.get("warnings"), None);
    assert_eq!(Value::from(audit(&response)), json!({"outcome": "failed: evaluation_failed"}));
    assert_failed(&server.scrape(), &before, "lab", "evaluation_failed");
}

#[tokio::test]
async fn a_pod_for_which_the_policy_has_no_value_is_allowed_with_a_warning_if_the_operator_says_so() {
    let server = Server::on_error(OnError::Allow);
    let before = server.scrape();
    let response = server.review(&review_of(&pod_that_fails())).await;
    assert_unchanged(&response, &["fabric-injector: NOT injected, the pod has no fast network: `${int("]);
    assert_eq!(Value::from(audit(&response)), json!({"outcome": "failed: evaluation_failed"}));
    assert_failed(&server.scrape(), &before, "lab", "evaluation_failed");
}

#[tokio::test]
async fn a_fault_is_told_shortly_whatever_it_says() {
    // Length and characters are looked at in every answer.
    let response = Server::evaluating(OnError::Deny, failing()).review(&review_of(&pod())).await;
    assert!(denied(&response, 500).contains("`a + b` of rule `x`"), "{response}");
    let response = Server::evaluating(OnError::Allow, failing()).review(&review_of(&pod())).await;
    assert_unchanged(&response, &["NOT injected"]);
}

#[tokio::test]
async fn a_panic_is_answered_with_the_uid() {
    for pod in [pod(), large_pod()] {
        let server = Server::evaluating(OnError::Deny, panicking());
        let before = server.scrape();
        let response = server.review(&review_of(&pod)).await;
        let message = denied(&response, 500);
        assert!(message.contains("a bug in fabric-injector"), "{message}");
        assert_failed(&server.scrape(), &before, "", "panic");

        let server = Server::evaluating(OnError::Allow, panicking());
        let before = server.scrape();
        let response = server.review(&review_of(&pod)).await;
        assert_unchanged(&response, &["NOT injected, the pod has no fast network"]);
        assert_failed(&server.scrape(), &before, "", "panic");
    }
}

#[tokio::test]
async fn after_a_panic_other_pods_are_served_as_ever() {
    let evaluate: Box<Evaluate> = Box::new(|policies, pod, about| {
        assert!(pod["metadata"]["name"] != "cursed", "the evaluator of a test panics");
        engine(policies, pod, about)
    });
    let server = Server::evaluating(OnError::Deny, evaluate);
    let usual = Server::lab().post(review_of(&pod()).to_string()).await;
    for _ in 0..20 {
        for mut cursed in [pod(), large_pod()] {
            cursed["metadata"]["name"] = json!("cursed");
            denied(&server.review(&review_of(&cursed)).await, 500);
        }
        assert_eq!(server.post(review_of(&pod()).to_string()).await, usual);
    }
    assert!(server.scrape().value("requests_in_flight") == 0);
}

#[tokio::test]
async fn a_pod_that_is_not_for_a_policy_meets_no_fault() {
    let server = Server::evaluating(OnError::Deny, panicking());
    let response = server.review(&review_of(&other_pod())).await;
    assert_eq!(response, json!({"uid": UID, "allowed": true}));
}
