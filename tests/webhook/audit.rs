//! Audit mode: every pod is allowed unchanged, and the response says what would be.

use fabric_engine::STAMP;
use fabric_engine::admission::{Evaluate, Mode, OnError};
use fabric_injector::server::{AppState, Limits};
use serde_json::{Value, json};

use crate::answers::{assert_unchanged, audit, denied, patched, warnings};
use crate::reviews::{
    UID, large_pod, other_pod, pod, pod_that_fails, pod_with, pod_with_env, review_of, review_with, with,
};
use crate::scrape::{ANSWERED, reviews_in};
use crate::server::{LAB, Server, policies};

fn auditing_with(limits: Limits) -> Server {
    Server::new(AppState::new(policies(&[LAB]), OnError::Deny, limits).in_mode(Mode::Audit))
}

fn auditing() -> Server {
    auditing_with(Limits::default())
}

/// The texts of the warnings without the name of the program, and the outcome in the audit log.
async fn told(server: &Server, pod: &Value) -> (Vec<String>, String) {
    let response = server.review(&review_of(pod)).await;
    assert_eq!(
        (&response["allowed"], response.get("patch"), response.get("status")),
        (&json!(true), None, None)
    );
    let warnings = warnings(&response).into_iter();
    let texts = warnings.map(|text| text.trim_start_matches("fabric-injector: ").to_owned());
    (texts.collect(), audit(&response)["outcome"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_pod_that_would_be_injected_is_unchanged_and_the_warnings_say_by_what() {
    let (server, injecting) = (auditing(), Server::lab());
    for pod in [pod(), large_pod()] {
        let injected = injecting.review(&review_of(&pod)).await;
        let stamp = patched(&pod, &injected)["metadata"]["annotations"][STAMP].as_str().unwrap().to_owned();
        let before = server.scrape();
        let (texts, outcome) = told(&server, &pod).await;
        assert_eq!(texts[0], format!("audit mode, the pod is unchanged: it would be injected by {stamp}"));
        let as_if =
            |text: &&str| text.trim_start_matches("fabric-injector: ").replacen("added", "would add", 1);
        assert_eq!(texts[1..], warnings(&injected).iter().map(as_if).collect::<Vec<_>>());
        assert!(texts.iter().any(|text| text.starts_with("would add to ")), "{texts:?}");
        assert_eq!(outcome, format!("audit: mutated by {stamp}"));
        // Operations of patches are not counted: there is none.
        let series = reviews_in("audit", "lab", "mutated", "");
        server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
    }
    assert!(!server.scrape().has(&reviews_in("inject", "lab", "mutated", "")));
}

#[tokio::test]
async fn a_pod_that_would_be_denied_is_allowed_and_told_why() {
    let server = auditing();
    let asked = pod_with_env("LAB_SEAL", "open");
    let response = Server::lab().review(&review_of(&asked)).await;
    let denied = denied(&response, 403);
    let before = server.scrape();
    let (texts, outcome) = told(&server, &asked).await;
    let why = denied.trim_start_matches("fabric-injector: ");
    assert_eq!(texts[0], format!("audit mode, the pod is unchanged: it would be denied: {why}"));
    assert_eq!(outcome, "audit: refused: seal");
    let series = reviews_in("audit", "lab", "refused", "seal");
    server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
}

#[tokio::test]
async fn a_fault_denies_no_pod() {
    let panicking: Box<Evaluate> = Box::new(|_, _, _| panic!("the evaluator of a test panics"));
    let broken = AppState::new(policies(&[LAB]), OnError::Deny, Limits::default()).in_mode(Mode::Audit);
    for (server, asked, outcome) in [
        (auditing(), pod_that_fails(), "audit: failed: evaluation_failed"),
        (Server::new(broken.with_evaluate(panicking)), pod(), "audit: failed: panic"),
        (auditing_with(Limits { in_flight: 0, ..Limits::default() }), large_pod(), "audit: failed: overload"),
    ] {
        let (texts, seen) = told(&server, &asked).await;
        assert!(texts[0].starts_with("NOT injected, the pod has no fast network: "), "{texts:?}");
        assert_eq!(seen, outcome);
    }
    let beta = with(review_of(&pod()), "/apiVersion", json!("admission.k8s.io/v1beta1"));
    let response = auditing().post(beta.to_string()).await.response_in("admission.k8s.io/v1beta1", UID);
    assert_unchanged(
        &response,
        &["it would be denied: AdmissionReview `admission.k8s.io/v1beta1` is not supported"],
    );
}

#[tokio::test]
async fn a_pod_that_would_be_left_alone_is_not_marked_either() {
    let when = LAB.replacen("  match:\n", "  match:\n    when: totalGpus > 8\n", 1);
    let server =
        Server::new(AppState::new(policies(&[&when]), OnError::Deny, Limits::default()).in_mode(Mode::Audit));
    let (texts, outcome) = told(&server, &pod()).await;
    assert!(texts[0].starts_with("left alone: "), "{texts:?}");
    assert_eq!(outcome, "audit: skipped: condition_false");
}

#[tokio::test]
async fn what_is_no_affair_of_a_policy_is_answered_as_ever() {
    let (server, injecting) = (auditing(), Server::lab());
    let wrong_value = pod_with("/metadata/annotations", json!({"lab.example/fabric": "off"}));
    for review in
        [review_of(&other_pod()), review_of(&wrong_value), review_with("operation", json!("UPDATE"))]
    {
        assert_eq!(server.review(&review).await, injecting.review(&review).await);
    }
}
