//! Requests that are no reviews: each gets a status that fits and a sentence, and is counted.

use bytes::Bytes;
use fabric_engine::admission::OnError;
use fabric_injector::server::MAX_BODY;
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::answers::assert_unchanged;
use crate::bodies::{Body, body, pieces};
use crate::reviews::{TRIGGER, UID, other_pod, pod, review_of, with};
use crate::scrape::rejected;
use crate::server::{Reply, Server, post, request};

/// Fails unless the request is turned away with this code, counted as this, and told all of this.
async fn turned_away(request: Request<Body>, code: u16, reason: &str, parts: &[&str]) -> Reply {
    let server = Server::lab();
    let before = server.scrape();
    let reply = server.send(request).await;
    let message = reply.refusal(code);
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    server.scrape().rose(&before, &[(&rejected(reason), 1)]);
    reply
}

#[tokio::test]
async fn what_is_not_json_is_told_so() {
    for text in
        ["", " ", "{", "}", "pod", "<review/>", "kind: AdmissionReview", "{'kind': 1}", "\u{feff}{}", "{}{}"]
    {
        turned_away(post("/mutate", text), 400, "not_json", &["not JSON"]).await;
    }
    let review = review_of(&pod()).to_string();
    for text in [format!("{review},"), format!("{{{review}"), review.replace("\"team\"", "team")] {
        turned_away(post("/mutate", text), 400, "not_json", &["not JSON"]).await;
    }
}

#[tokio::test]
async fn what_is_not_utf_8_is_told_so() {
    let review = review_of(&pod()).to_string();
    let (before, after) = review.split_once("team").unwrap();
    for wrong in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"] {
        let body = [before.as_bytes(), wrong, after.as_bytes()].concat();
        turned_away(post("/mutate", body), 400, "not_json", &["not JSON", "utf-8"]).await;
    }
    let utf_16: Vec<u8> = review.encode_utf16().flat_map(u16::to_le_bytes).collect();
    turned_away(post("/mutate", utf_16), 400, "not_json", &["not JSON"]).await;
}

#[tokio::test]
async fn what_is_no_review_is_told_so() {
    let others = [
        (json!({}), "send an AdmissionReview of `admission.k8s.io/v1`"),
        (pod(), "is a `Pod` of `v1`"),
        (with(review_of(&pod()), "/kind", json!("PodReview")), "is a `PodReview` of"),
        (with(review_of(&pod()), "/apiVersion", json!("v1")), "is a `AdmissionReview` of `v1`"),
        (
            with(review_of(&pod()), "/apiVersion", json!("authorization.k8s.io/v1")),
            "`authorization.k8s.io/v1`",
        ),
        (json!(null), "not an AdmissionReview"),
        (json!(5), "not an AdmissionReview"),
        (json!("AdmissionReview"), "not an AdmissionReview"),
        (json!([review_of(&pod())]), "not an AdmissionReview"),
        (with(review_of(&pod()), "/kind", json!(1)), "not an AdmissionReview"),
        (with(review_of(&pod()), "/request", json!("x")), "not an AdmissionReview"),
        (with(review_of(&pod()), "/request/uid", json!(5)), "not an AdmissionReview"),
        (with(review_of(&pod()), "/request/kind", json!("Pod")), "not an AdmissionReview"),
        (with(review_of(&pod()), "/request/operation", Value::Null), "not an AdmissionReview"),
        (with(review_of(&pod()), "/request/dryRun", json!("no")), "not an AdmissionReview"),
    ];
    for (other, part) in others {
        turned_away(post("/mutate", other.to_string()), 400, "not_a_review", &[part]).await;
    }
    let long = with(review_of(&pod()), "/kind", json!("k\n".repeat(10_000)));
    turned_away(post("/mutate", long.to_string()), 400, "not_a_review", &["AdmissionReview"]).await;
}

#[tokio::test]
async fn a_review_without_a_request_is_told_so() {
    let mut review = review_of(&pod());
    review["request"] = Value::Null;
    turned_away(post("/mutate", review.to_string()), 400, "no_request", &["has no `request`"]).await;
    review.as_object_mut().unwrap().remove("request");
    turned_away(post("/mutate", review.to_string()), 400, "no_request", &["has no `request`"]).await;
}

#[tokio::test]
async fn a_request_without_a_uid_is_told_so() {
    for pod in [pod(), other_pod()] {
        let mut review = review_of(&pod);
        review["request"]["uid"] = json!("");
        turned_away(post("/mutate", review.to_string()), 400, "no_request", &["has no `uid`"]).await;
        review["request"].as_object_mut().unwrap().remove("uid");
        turned_away(post("/mutate", review.to_string()), 400, "not_a_review", &["`uid`"]).await;
        review["request"] = json!({});
        turned_away(post("/mutate", review.to_string()), 400, "not_a_review", &["`uid`"]).await;
    }
}

#[tokio::test]
async fn the_answer_to_our_own_faults_does_not_let_strangers_through() {
    let server = Server::on_error(OnError::Allow);
    server.post("{").await.refusal(400);
    server.post(pod().to_string()).await.refusal(400);
}

#[tokio::test]
async fn another_content_type_is_told_so() {
    let review = || review_of(&pod()).to_string();
    let others: [&[u8]; 8] = [
        b"text/plain",
        b"application/yaml",
        b"application/json5",
        b"application/json, text/plain",
        b"application/vnd.kubernetes.protobuf",
        b"application/x-www-form-urlencoded",
        b"",
        b"\xff\xfe",
    ];
    for other in others {
        let request = request(Method::POST, "/mutate", Some(other), review());
        turned_away(request, 415, "content_type", &["send `application/json`"]).await;
    }
    let none = request(Method::POST, "/mutate", None, review());
    turned_away(none, 415, "content_type", &["send `application/json`"]).await;
}

#[tokio::test]
async fn another_method_is_told_which_one_there_is() {
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "BREW"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = request(method, "/mutate", Some(b"application/json"), review_of(&pod()).to_string());
        let reply = turned_away(request, 405, "method", &["with `POST`"]).await;
        assert_eq!(reply.header("allow"), "POST");
    }
    // Has no body, and so no sentence.
    let reply = Server::lab().send(request(Method::HEAD, "/mutate", None, Body::from(""))).await;
    assert_eq!((reply.status, reply.header("allow")), (405, "POST"));
}

#[tokio::test]
async fn another_path_is_told_so() {
    let long = format!("/{}", "x".repeat(5_000));
    for path in ["/", "/mutate/", "//mutate", "/mutate/x", "/Mutate", "/mutat%65", "/validate", &long] {
        turned_away(post(path, review_of(&pod()).to_string()), 404, "path", &["`/mutate`"]).await;
        turned_away(request(Method::GET, path, None, Body::from("")), 404, "path", &["`/mutate`"]).await;
    }
}

#[tokio::test]
async fn what_is_on_the_admin_port_is_not_on_the_webhook_s() {
    for path in ["/metrics", "/livez", "/readyz", "/policies", "/healthz"] {
        turned_away(request(Method::GET, path, None, Body::from("")), 404, "path", &[path]).await;
    }
}

#[tokio::test]
async fn a_length_beyond_the_limit_is_told_so_before_anything_is_read() {
    let request = post("/mutate", Body::Announced(MAX_BODY + 1));
    turned_away(request, 413, "too_large", &["exceeds the limit of 7340032 bytes"]).await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_told_so_although_it_did_not_say_how_long_it_is() {
    let piece = vec![b' '; 1 << 20];
    // Every eighth piece goes beyond the limit, the last of which by a byte.
    for last in [&b" "[..], &piece] {
        let whole = std::iter::repeat_n(piece.as_slice(), 7).chain([last]);
        turned_away(
            post("/mutate", pieces(whole)),
            413,
            "too_large",
            &["exceeds the limit of 7340032 bytes"],
        )
        .await;
    }
    let at_once = vec![b' '; MAX_BODY + 1];
    turned_away(post("/mutate", at_once), 413, "too_large", &["exceeds the limit of 7340032 bytes"]).await;
}

#[tokio::test]
async fn a_body_at_the_limit_is_answered() {
    assert_eq!(MAX_BODY, 7_340_032);
    let server = Server::lab();
    let mut text = review_of(&other_pod()).to_string();
    text.push_str(&" ".repeat(MAX_BODY - text.len()));
    assert_unchanged(&server.post(text.clone()).await.response(UID), &[]);
    assert_unchanged(&server.post(pieces(text.as_bytes().chunks(1 << 20))).await.response(UID), &[]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_told_so() {
    let (sender, body) = body();
    sender.send(Ok(Bytes::from(review_of(&pod()).to_string()))).unwrap();
    sender.send(Err(std::io::Error::other("the line went dead"))).unwrap();
    let parts = ["is incomplete", "the line went dead"];
    turned_away(post("/mutate", body), 400, "body_incomplete", &parts).await;
}

#[tokio::test]
async fn a_sentence_repeats_no_more_of_a_request_than_has_place() {
    let server = Server::lab();
    let long = TRIGGER.repeat(2_000);
    let requests = [
        post(&format!("/{long}"), ""),
        request(Method::POST, "/mutate", Some(long.as_bytes()), ""),
        request(Method::from_bytes("M".repeat(3_000).as_bytes()).unwrap(), "/mutate", None, ""),
        post("/mutate", json!({"apiVersion": long, "kind": long}).to_string()),
        post("/mutate", json!({"request": {"uid": 5, long.as_str(): 1}}).to_string()),
        post("/mutate", json!({"request": long}).to_string()),
        post("/mutate", json!({"request": {"operation": [long]}}).to_string()),
    ];
    for request in requests {
        let reply = server.send(request).await;
        reply.refusal(reply.status);
        assert!((400..500).contains(&reply.status));
    }
}

#[tokio::test]
async fn a_uid_that_no_api_server_makes_is_told_so() {
    let review = with(review_of(&pod()), "/request/uid", json!("u".repeat(257)));
    turned_away(post("/mutate", review.to_string()), 400, "no_request", &["`uid`", "256 bytes"]).await;
}

#[tokio::test]
async fn a_version_of_any_length_is_not_repeated() {
    let version = format!("admission.k8s.io/v1beta1{}", "x".repeat(100_000));
    let review = with(review_of(&pod()), "/apiVersion", json!(version));
    let reply = turned_away(post("/mutate", review.to_string()), 400, "not_a_review", &["send"]).await;
    assert!(reply.text().len() < 1_000);
}

/// By serde's rules, a list of the right things in the right order would do.
#[tokio::test]
async fn a_list_is_no_review() {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let request = json!(["uid", kind, null, "CREATE", null, null, false, pod()]);
    let review = review_of(&pod());
    for wrong in [
        json!(["admission.k8s.io/v1", "AdmissionReview", review["request"]]),
        with(review.clone(), "/request", request),
    ] {
        turned_away(post("/mutate", wrong.to_string()), 400, "not_a_review", &["expected an object"]).await;
    }
}
