//! Which series there are: all from the start, and none that a pod's author can make.

use std::collections::BTreeSet;

use fabric_engine::admission::{OnError, Record};
use fabric_engine::{FINDINGS, Reason, Warning};
use fabric_injector::server::{AppState, Limits};
use fabric_tools::lint::codes;
use hyper::Method;
use serde_json::{Value, json};

use crate::reviews::{UID, container, pod, pod_that_fails, pod_with, pod_with_env, review_of};
use crate::scrape::{ANSWERED, OPERATIONS, rejected, reviews, shed};
use crate::server::{LAB, Server, policies, post, request};

#[test]
fn every_reason_is_there_before_any_request_came() {
    let scrape = Server::lab().scrape();
    let left_alone = Reason::LEFT_ALONE.iter().map(|reason| ("unchanged", *reason));
    let refused = Reason::REFUSED.iter().map(|reason| ("refused", *reason));
    let mut wanted = Vec::new();
    let skipped = Reason::SKIPPED.iter().map(|reason| ("skipped", *reason));
    let failed = Reason::FAULTS.iter().map(|reason| ("failed", *reason));
    for (outcome, reason) in left_alone.chain(skipped).chain(refused).chain(failed) {
        wanted.extend([reviews("", outcome, reason), reviews("lab", outcome, reason)]);
    }
    wanted.extend([reviews("lab", "mutated", ""), reviews("lab", "refused", "seal")]);
    wanted.extend(Record::REASONS.iter().map(|(reason, outcome)| reviews("", outcome.name(), reason)));
    for series in &wanted {
        assert_eq!(scrape.value(series), 0, "{series}");
    }
    // And no others.
    let all: Vec<&str> = scrape.family("reviews_total").collect();
    assert_eq!(all.len(), wanted.len(), "{all:#?}");
}

#[test]
fn every_code_of_a_warning_is_there_before_any_request_came() {
    let scrape = Server::lab().scrape();
    let codes: BTreeSet<&str> = codes().chain(["few_gpus", "seal"]).collect();
    assert!(Warning::CODES.iter().chain(FINDINGS).all(|code| codes.contains(code)));
    for code in &codes {
        assert_eq!(scrape.value(&format!("warnings_total{{code=\"{code}\"}}")), 0);
    }
    assert_eq!(scrape.family("warnings_total").count(), codes.len());
}

#[test]
fn everything_else_is_there_before_any_request_came() {
    let scrape = Server::lab().scrape();
    let codes = [
        "not_json",
        "not_a_review",
        "no_request",
        "content_type",
        "method",
        "path",
        "too_large",
        "body_timeout",
        "body_incomplete",
    ];
    for code in codes {
        assert_eq!(scrape.value(&rejected(code)), 0);
    }
    for why in ["in_flight", "namespace", "memory", "deadline"] {
        assert_eq!(scrape.value(&shed(why)), 0);
    }
    assert_eq!(scrape.family("shed_requests_total").count(), 4);
    for name in [ANSWERED, OPERATIONS, "requests_in_flight", "connections", "tls_handshakes_total"] {
        assert_eq!(scrape.value(name), 0, "{name}");
    }
    for reason in ["timeout", "client_certificate", "protocol", "closed"] {
        assert_eq!(scrape.value(&format!("tls_handshake_failures_total{{reason=\"{reason}\"}}")), 0);
    }
    for what in ["certificate", "policies"] {
        for result in ["success", "failure"] {
            assert_eq!(scrape.value(&format!("reloads_total{{what=\"{what}\",result=\"{result}\"}}")), 0);
        }
        assert_eq!(scrape.value(&format!("last_reload_successful{{what=\"{what}\"}}")), 1);
    }
    assert!(scrape.has("certificate_expiry_timestamp_seconds"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(scrape.value(&format!("build_info{{version=\"{version}\"}}")), 1);
}

#[test]
fn the_policies_in_use_are_there_with_their_digest() {
    let set = policies(&[LAB]);
    let digest = set.policies()[0].digest().to_owned();
    let state = AppState::new(set, OnError::Deny, Limits::default());
    let name = format!("policy_info{{policy=\"lab\",provider=\"lab\",digest=\"{digest}\"}}");
    assert_eq!(Server::new(state).scrape().value(&name), 1);
}

/// A text that stands nowhere but in what a stranger sends.
const MARK: &str = "hostile-text";

/// A value with the mark in every text of it, and in keys of its own.
fn marked(value: &Value, keep: &[&str]) -> Value {
    match value {
        Value::String(text) if keep.contains(&text.as_str()) => value.clone(),
        Value::String(text) => json!(format!("{text}{MARK}\"}} 5\n{MARK}")),
        Value::Array(items) => items.iter().map(|item| marked(item, keep)).collect(),
        Value::Object(map) => {
            let mut map: serde_json::Map<String, Value> =
                map.iter().map(|(key, item)| (key.clone(), marked(item, keep))).collect();
            map.insert(MARK.to_owned(), json!(MARK));
            map.into()
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn no_label_has_text_of_a_pod_in_it() {
    let server = Server::on_error(OnError::Allow);
    let before = server.scrape();
    let keep =
        ["on", "8", "CREATE", "Pod", "AdmissionReview", "admission.k8s.io/v1", "v1", "", "true", "windows"];
    let mut pods = vec![pod(), pod_that_fails(), pod_with("/spec/containers", json!(MARK))];
    pods.push(pod_with_env("LAB_SEAL", MARK));
    pods.push(pod_with_env("NCCL_SOCKET_IFNAME", MARK));
    pods.push(pod_with("/metadata/annotations/lab.example~1no-fabric", json!("true")));
    pods.push(pod_with("/metadata/annotations/lab.example~1fabric", json!(MARK)));
    pods.push(pod_with("/metadata/annotations/kubernetes.io~1config.mirror", json!(MARK)));
    pods.push(pod_with("/spec/os", json!({"name": "windows"})));
    pods.push(pod_with("/spec/containers", json!([container(MARK), container(MARK)])));
    pods.push(pod_with("/spec/nodeSelector", json!({"node.kubernetes.io/instance-type": MARK})));
    let mut answered = 0;
    for pod in pods {
        let original = review_of(&pod);
        for keep_names in [true, false] {
            // Names of variables and labels have to stay for the policy to find them.
            let names = ["LAB_SEAL", "NCCL_SOCKET_IFNAME", UID];
            let keep: Vec<&str> = keep.iter().chain(names.iter().filter(|_| keep_names)).copied().collect();
            let review = marked(&original, &keep);
            let reply = server.post(review.to_string()).await;
            reply.is_some_answer();
            answered += usize::from(reply.text().contains(MARK));
        }
        for key in ["operation", "subResource", "namespace", "name"] {
            let mut review = original.clone();
            review["request"][key] = json!(MARK);
            server.review(&review).await;
        }
        let mut review = original.clone();
        review["apiVersion"] = json!(format!("admission.k8s.io/{MARK}"));
        server.post(review.to_string()).await.is_some_answer();
        review["apiVersion"] = json!(MARK);
        server.post(review.to_string()).await.refusal(400);
    }
    server.send(post(&format!("/{MARK}"), "")).await.refusal(404);
    server
        .send(request(Method::from_bytes(MARK.as_bytes()).unwrap(), "/mutate", None, ""))
        .await
        .refusal(405);
    server.send(request(Method::POST, "/mutate", Some(MARK.as_bytes()), "")).await.refusal(415);
    server.send(post(&format!("/mutate?timeout={MARK}&{MARK}"), MARK)).await.refusal(400);
    // The answers do repeat what they are about.
    assert!(answered > 10, "{answered}");
    let text = server.state.metrics().encode();
    // The name of a namespace is in one family, if it is a name.
    let is_of_namespace = |name: &str| {
        let labels = [MARK, "team", ""].map(|namespace| format!("total{{pod_namespace=\"{namespace}\","));
        labels.iter().any(|label| name.contains(label) && name.matches(MARK).count() < 2)
    };
    let other = text.lines().filter(|line| !is_of_namespace(line)).find(|line| line.contains(MARK));
    assert_eq!(other, None);
    let now = server.scrape();
    assert!(now.value(ANSWERED) - before.value(ANSWERED) > 50);
    let made: Vec<&str> = now.names().difference(&before.names()).copied().collect();
    assert!(made.iter().all(|name| is_of_namespace(name)), "no other request makes a series: {made:?}");
}

#[test]
fn every_family_says_what_it_is() {
    let text = Server::lab().state.metrics().encode();
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    assert!(text.contains("# TYPE fabric_injector_reviews counter"), "{text}");
    assert!(text.contains("# TYPE fabric_injector_requests_in_flight gauge"), "{text}");
    assert!(text.contains("# TYPE fabric_injector_review_duration_seconds histogram"), "{text}");
}
