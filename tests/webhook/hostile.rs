//! Bodies that nobody sends by accident: whatever they are, they get an answer.

use std::fs;

use fabric_engine::admission::{OnError, respond};
use fabric_policy::PodContext as About;
use serde_json::{Value, json};

use crate::answers::{assert_unchanged, assert_unmatched, patched};
use crate::random;
use crate::reviews::{TRIGGER, UID, other_pod, pod, pod_with, review_of, with};
use crate::server::{LAB, Server, engine, policies, post};

/// A review as an API server sent it, for a pod with the trigger of the built-in policies.
fn real() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workloads/admission-review.json");
    fs::read_to_string(file).unwrap().trim_end().to_owned()
}

#[tokio::test]
async fn a_review_that_is_cut_off_anywhere_is_no_json() {
    let server = Server::built_in("aws-efa", &[]);
    let real = real();
    assert_eq!(server.post(real.clone()).await.response(UID)["patchType"], "JSONPatch");
    let cuts = (0..real.len()).step_by(50).chain(real.len() - 60..real.len());
    for cut in cuts {
        let message = server.post(real.as_bytes()[..cut].to_vec()).await.refusal(400);
        assert!(message.contains("not JSON"), "cut at {cut}: {message}");
    }
    // The same for a pod that no policy is for, whose object is not looked into.
    let other = real.replace("enable-multi-node-networking", "other");
    for cut in (0..other.len()).step_by(50) {
        server.post(other.as_bytes()[..cut].to_vec()).await.refusal(400);
    }
}

#[tokio::test]
async fn random_bytes_get_some_answer() {
    let server = Server::lab();
    let mut random = random(7);
    for _ in 0..500 {
        let length = random.usize(0..400);
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        server.post(bytes).await.refusal(400);
        // With what JSON is made of, more of it is read.
        let letters = b"{}[]\",:\\u0123456789eE+-. \ntruefalsn";
        let text: Vec<u8> = (0..length).map(|_| letters[random.usize(..letters.len())]).collect();
        server.post(text).await.is_some_answer();
    }
}

#[tokio::test]
async fn a_review_with_random_damage_gets_some_answer() {
    let server = Server::built_in("aws-efa", &[]);
    let mut random = random(11);
    let real = real().into_bytes();
    let mut answered = 0;
    for _ in 0..1_000 {
        let mut bytes = real.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len() - 40);
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.u8(0..8),
                2 => drop(bytes.drain(at..at + random.usize(1..40))),
                _ => {
                    let piece = bytes[at..at + random.usize(1..40)].to_vec();
                    let to = random.usize(..bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        let reply = server.post(bytes).await;
        reply.is_some_answer();
        answered += usize::from(reply.status == 200);
    }
    // Else it would be the reader of JSON alone that is tried here.
    assert!((50..950).contains(&answered), "{answered}");
}

#[tokio::test]
async fn nesting_of_any_depth_gets_some_answer() {
    let server = Server::lab();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [100, 127, 128, 129, 50_000] {
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            server.post(nested.clone()).await.refusal(400);
            server.post(open.repeat(depth)).await.refusal(400);
            for pod in [pod(), other_pod()] {
                let review = review_of(&pod).to_string();
                for place in ["\"spec\":", "\"request\":", "\"dryRun\":", "\"options\":", "\"uid\":"] {
                    let deep = review.replacen(place, &format!("\"deep\":{nested},{place}"), 1);
                    server.post(deep).await.is_some_answer();
                    let deep = review.replacen(place, &format!("{place}{nested},\"x\":"), 1);
                    server.post(deep).await.is_some_answer();
                }
            }
        }
    }
}

#[tokio::test]
async fn nesting_as_deep_as_any_real_pod_s_is_no_hindrance() {
    let server = Server::lab();
    let nested: Value = serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap();
    let deep = pod_with("/spec/deep", nested);
    let response = server.review(&review_of(&deep)).await;
    assert_eq!(patched(&deep, &response)["spec"]["deep"], deep["spec"]["deep"]);
}

#[tokio::test]
async fn of_equal_keys_of_a_pod_the_last_one_counts_as_for_the_api_server() {
    let server = Server::lab();
    let on = format!("{{\"{TRIGGER}\":\"on\"}}");
    let review = review_of(&pod()).to_string();
    assert!(review.contains(&on));
    let twice = |first: &str, second: &str| {
        review.replace(
            &format!("\"annotations\":{on}"),
            &format!("\"annotations\":{first},\"annotations\":{second}"),
        )
    };
    let response = server.post(twice("{}", &on)).await.response(UID);
    assert!(response.get("patch").is_some(), "{response}");
    assert_unmatched(&server.post(twice(&on, "{}")).await.response(UID));
    let text = review.replace(&on, &format!("{{\"{TRIGGER}\":\"on\",\"{TRIGGER}\":\"off\"}}"));
    assert_unchanged(&server.post(text).await.response(UID), &["is `off`"]);
}

#[tokio::test]
async fn equal_keys_of_a_request_are_told_of() {
    let server = Server::lab();
    let review = review_of(&pod()).to_string();
    let mut keys = vec!["kind", "apiVersion", "request"];
    keys.extend(["uid", "operation", "namespace", "object", "dryRun"]);
    for key in keys {
        let twice = review.replacen(&format!("\"{key}\":"), &format!("\"{key}\":null,\"{key}\":"), 1);
        let reply = server.post(twice).await;
        let message = reply.refusal(400);
        assert!(message.contains("not an AdmissionReview"), "{key}: {message}");
    }
}

#[tokio::test]
async fn numbers_of_any_size_get_some_answer() {
    let server = Server::lab();
    let long = "9".repeat(100_000);
    let numbers =
        ["1e400", "-1e400", "1e-400", "18446744073709551616", "-9223372036854775809", "1E+9999999999", &long];
    for pod in [pod(), other_pod()] {
        let review = review_of(&pod).to_string();
        for number in numbers {
            for place in ["\"spec\":", "\"request\":", "\"uid\":", "\"limits\":"] {
                let text = review.replacen(place, &format!("\"number\":{number},{place}"), 1);
                server.post(text).await.is_some_answer();
            }
            let text = review.replace("\"dryRun\":false", &format!("\"dryRun\":{number}"));
            server.post(text).await.refusal(400);
            let text = review.replace("\"nvidia.com/gpu\":\"8\"", &format!("\"nvidia.com/gpu\":{number}"));
            server.post(text).await.is_some_answer();
            let text =
                review.replace("\"nvidia.com/gpu\":\"8\"", &format!("\"nvidia.com/gpu\":\"{number}\""));
            server.post(text).await.is_some_answer();
        }
    }
}

#[tokio::test]
async fn counts_of_any_size_are_as_the_engine_takes_them() {
    let server = Server::lab();
    let set = policies(&[LAB]);
    let about = About { namespace: Some("team".to_owned()), ..About::default() };
    for count in
        ["9223372036854775807", "9223372036854775808", "1e18", "-8", "0", "8.5", "8Gi", "1e30", "NaN", ""]
    {
        let pod = pod_with("/spec/containers/0/resources", json!({"limits": {"nvidia.com/gpu": count}}));
        let response = server.review(&review_of(&pod)).await;
        let mutation = engine(&set, pod, &about);
        let wanted = respond(UID, &mutation, OnError::Deny);
        assert_eq!(response, serde_json::to_value(wanted).unwrap(), "{count}");
    }
}

#[tokio::test]
async fn a_great_many_keys_and_entries_get_an_answer() {
    let server = Server::lab();
    let many: serde_json::Map<String, Value> =
        (0..20_000).map(|at| (format!("lab.example/{at}"), json!("on"))).collect();
    let mut crowded = pod();
    crowded["metadata"]["labels"] = many.into();
    crowded["spec"]["tolerations"] = (0..20_000).map(|at| json!({"key": at.to_string()})).collect();
    let response = server.review(&review_of(&crowded)).await;
    assert_eq!(patched(&crowded, &response)["spec"]["tolerations"], crowded["spec"]["tolerations"]);
}

/// What an API server would take minutes for with a square in it: every container is served, and told.
#[tokio::test]
async fn a_pod_of_very_many_containers_is_served_in_linear_time() {
    let many = |count: usize| {
        let containers: Vec<Value> = (0..count)
            .map(|index| json!({"name": format!("c{index}"), "resources": {"limits": {"nvidia.com/gpu": 1}}}))
            .collect();
        with(review_of(&pod()), "/request/object/spec/containers", json!(containers)).to_string()
    };
    let server = Server::lab();
    let mut times = Vec::new();
    for count in [500, 8_000] {
        let began = std::time::Instant::now();
        let reply = server.send(post("/mutate?timeout=30s", many(count))).await;
        assert_eq!(reply.response(UID)["patchType"], "JSONPatch");
        times.push(began.elapsed());
    }
    // Sixteen times as many; a square would take 256 times as long.
    assert!(times[1] < times[0] * 64 + std::time::Duration::from_millis(200), "{times:?}");
}
