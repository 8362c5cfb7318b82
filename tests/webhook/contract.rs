//! `POST /mutate` as `admission.k8s.io/v1` has it: what is in an answer, and when.

use fabric_engine::{Outcome, STAMP};
use fabric_policy::PodContext as About;
use serde_json::{Value, json};

use crate::answers::{assert_unchanged, audit, denied, patch, patched, warnings};
use crate::bodies::pieces;
use crate::reviews::{
    TRIGGER, UID, large_pod, other_pod, pod, pod_with, pod_with_env, review_of, review_with,
};
use crate::server::{LAB, Server, engine, lab_with, policies, post, request};

/// The pod that the engine makes of a pod, in the namespace of all reviews.
fn served(pod: Value) -> Value {
    let about = About { namespace: Some("team".to_owned()), ..About::default() };
    match engine(&policies(&[LAB]), pod, &about).outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pod_is_allowed_with_a_patch_that_makes_of_it_what_the_engine_does() {
    let response = Server::lab().review(&review_of(&pod())).await;
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    let pod_now = patched(&pod(), &response);
    assert_eq!(pod_now, served(pod()));
    let container = &pod_now["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["lab.example/nic"], "4");
    assert_eq!(container["resources"]["requests"]["lab.example/nic"], "4");
    assert_eq!(response.get("status"), None);
}

#[tokio::test]
async fn a_large_pod_is_answered_as_a_small_one_is() {
    let response = Server::lab().review(&review_of(&large_pod())).await;
    assert_eq!(patched(&large_pod(), &response), served(large_pod()));
}

#[tokio::test]
async fn a_body_in_many_pieces_is_answered_as_one_in_one_piece_is() {
    let server = Server::lab();
    let body = review_of(&pod()).to_string();
    let whole = server.post(body.clone()).await;
    for length in [1, 7, 4_096, body.len() - 1] {
        assert_eq!(server.post(pieces(body.as_bytes().chunks(length))).await, whole, "pieces of {length}");
    }
    // An empty piece is none.
    assert_eq!(server.post(pieces([b"", body.as_bytes(), b""])).await, whole);
    assert_eq!(patched(&pod(), &whole.response(UID)), served(pod()));
}

#[tokio::test]
async fn an_object_that_does_not_change_has_neither_patch_nor_patch_type() {
    let server = Server::lab();
    let no_gpus = pod_with("/spec/containers/0/resources", json!({}));
    let taken_out = pod_with("/metadata/annotations/lab.example~1no-fabric", json!("true"));
    for unchanged in [other_pod(), no_gpus, taken_out, served(pod())] {
        let reply = server.post(review_of(&unchanged).to_string()).await;
        assert_eq!(reply.response(UID)["allowed"], true);
        assert!(!reply.text().contains("patch"), "{}", reply.text());
    }
}

#[tokio::test]
async fn a_pod_that_was_served_has_nothing_to_gain_from_another_call() {
    let server = Server::lab();
    let first = server.review(&review_of(&pod())).await;
    let second = server.review(&review_of(&patched(&pod(), &first))).await;
    assert_unchanged(&second, &[]);
}

#[tokio::test]
async fn every_answer_has_the_uid_of_its_request() {
    let server = Server::lab();
    for uid in ["1", "a b", "é\"\\\u{1}\u{1f600}", "</script>", &"u".repeat(256)] {
        for pod in [pod(), other_pod(), pod_with_env("LAB_SEAL", "open"), pod_with("/spec", json!([]))] {
            let mut review = review_of(&pod);
            review["request"]["uid"] = json!(uid);
            server.post(review.to_string()).await.response(uid);
        }
    }
}

#[tokio::test]
async fn a_dry_run_is_answered_as_the_real_thing_is() {
    let server = Server::lab();
    for pod in [pod(), other_pod(), pod_with_env("LAB_SEAL", "open"), pod_with("/spec", json!([]))] {
        let mut review = review_of(&pod);
        let real = server.post(review.to_string()).await;
        assert_eq!(real.status, 200);
        for dry_run in [json!(true), Value::Null] {
            review["request"]["dryRun"] = dry_run;
            assert_eq!(server.post(review.to_string()).await, real, "{review}");
        }
        review["request"].as_object_mut().unwrap().remove("dryRun");
        assert_eq!(server.post(review.to_string()).await, real, "{review}");
    }
}

#[tokio::test]
async fn a_dry_run_takes_time_and_counts_no_pod() {
    let server = Server::lab();
    let mut scrapes = vec![server.scrape()];
    for dry_run in [true, false] {
        server.review(&review_with("dryRun", json!(dry_run))).await;
        scrapes.push(server.scrape());
    }
    let rise = |from: usize, name: &str| scrapes[from + 1].value(name) - scrapes[from].value(name);
    assert_eq!([0, 1].map(|at| rise(at, "review_duration_seconds_count")), [1, 1]);
    let operations = [0, 1].map(|at| rise(at, "patch_operations_total"));
    assert!(operations[0] == 0 && operations[1] > 0, "{operations:?}");
}

#[tokio::test]
async fn what_was_added_and_what_was_kept_is_told_to_the_user() {
    let pod = pod_with_env("NCCL_SOCKET_IFNAME", "ens5");
    let response = Server::lab().review(&review_of(&pod)).await;
    let warnings = warnings(&response);
    assert!(warnings.iter().all(|warning| warning.starts_with("fabric-injector: ")), "{warnings:?}");
    // What there is to do comes before what was done.
    assert!(warnings[0].contains("spec.containers[main].env[NCCL_SOCKET_IFNAME]"), "{warnings:?}");
    assert!(warnings[0].contains("stays `ens5`"), "{warnings:?}");
    let added = warnings.iter().find(|warning| warning.contains("added to main: "));
    let added = added.unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(added.contains("lab.example/nic 4") && added.contains("env LAB_RANK"), "{added}");
    let to_pod = warnings.iter().find(|warning| warning.contains("added to pod: "));
    assert!(to_pod.is_some_and(|warning| warning.contains("volume lab-memory")), "{warnings:?}");
    assert_eq!(patched(&pod, &response)["spec"]["containers"][0]["env"][0]["value"], "ens5");
}

#[tokio::test]
async fn a_value_that_was_replaced_is_told_to_the_user() {
    let text =
        lab_with("        LAB_SEAL: sealed\n", "        LAB_SEAL: sealed\n      onConflict: replace\n");
    let server = Server::serving(&[&text]);
    let response = server.review(&review_of(&pod_with_env("LAB_SEAL", "open"))).await;
    assert!(warnings(&response)[0].contains("was `open`"), "{response}");
    assert_eq!(audit(&response)["warnings"], "replaced");
    let replaces = |operation: &json_patch::PatchOperation| {
        matches!(operation, json_patch::PatchOperation::Replace(replace)
            if replace.path == "/spec/containers/0/env/0" && replace.value["value"] == "sealed")
    };
    assert!(patch(&response).0.iter().any(replaces), "{response}");
}

#[tokio::test]
async fn what_the_policy_itself_warns_of_is_told_to_the_user() {
    let few = json!({"limits": {"nvidia.com/gpu": 4}});
    let pod = pod_with("/spec/containers/0/resources", few);
    let response = Server::lab().review(&review_of(&pod)).await;
    let wanted = "fabric-injector: the pod has fewer GPUs than a node";
    assert!(warnings(&response).contains(&wanted), "{response}");
}

#[tokio::test]
async fn a_pod_that_asks_for_the_fabric_and_does_not_get_it_is_told_why() {
    let server = Server::lab();
    let no_gpus = pod_with("/spec/containers/0/resources", json!({}));
    let response = server.review(&review_of(&no_gpus)).await;
    assert_unchanged(
        &response,
        &["left alone: no container requests GPUs, as with `nvidia.com/gpu` or a claim"],
    );
    for value in [json!("true"), json!(true), json!(""), json!(1)] {
        let near = pod_with("/metadata/annotations", json!({TRIGGER: value}));
        let response = server.review(&review_of(&near)).await;
        assert_unchanged(&response, &["`lab.example/fabric` is "]);
    }
}

#[tokio::test]
async fn a_pod_that_asks_for_nothing_is_told_nothing() {
    let server = Server::lab();
    let taken_out = pod_with("/metadata/annotations/lab.example~1no-fabric", json!("true"));
    for silent in [other_pod(), taken_out] {
        let response = server.review(&review_of(&silent)).await;
        assert_eq!(response, json!({"uid": UID, "allowed": true}));
    }
}

#[tokio::test]
async fn the_audit_log_keeps_the_outcome_and_the_codes_of_the_warnings() {
    let server = Server::lab();
    let kept = pod_with_env("NCCL_SOCKET_IFNAME", "ens5");
    let response = server.review(&review_of(&kept)).await;
    let stamp = &patched(&kept, &response)["metadata"]["annotations"][STAMP];
    let outcome = format!("mutated by {}", stamp.as_str().unwrap());
    assert!(outcome.starts_with("mutated by lab@"), "{outcome}");
    assert_eq!(Value::from(audit(&response)), json!({"outcome": outcome, "warnings": "kept_env"}));

    let response = server.review(&review_of(&pod())).await;
    assert_eq!(Value::from(audit(&response)), json!({"outcome": outcome}));

    let no_gpus = pod_with("/spec/containers/0/resources", json!({}));
    let response = server.review(&review_of(&no_gpus)).await;
    assert_eq!(Value::from(audit(&response)), json!({"outcome": "unchanged: no_gpu_container"}));

    let response = server.review(&review_of(&pod_with_env("LAB_SEAL", "open"))).await;
    denied(&response, 403);
    assert_eq!(Value::from(audit(&response)), json!({"outcome": "refused: seal"}));
}

#[tokio::test]
async fn fields_of_a_review_that_nobody_knows_are_no_hindrance() {
    let server = Server::lab();
    let usual = server.post(review_of(&pod()).to_string()).await;
    let mut review = review_with("fieldOfTheFuture", json!({"a": [null, 1.5]}));
    review["anotherOne"] = json!([]);
    review["response"] = Value::Null;
    assert_eq!(server.post(review.to_string()).await, usual);
    assert_eq!(server.post(format!("\r\n\t {review:#} \n")).await, usual);
}

#[tokio::test]
async fn a_media_type_may_have_parameters_and_a_path_a_query() {
    let server = Server::lab();
    let body = review_of(&pod()).to_string();
    let usual = server.post(body.clone()).await;
    for media_type in
        ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON ;a=b"]
    {
        let request = request(hyper::Method::POST, "/mutate", Some(media_type.as_bytes()), body.clone());
        assert_eq!(server.send(request).await, usual, "{media_type}");
    }
    for path in
        ["/mutate?timeout=10s", "/mutate?", "/mutate?timeout=&x=%00", "/mutate?timeout=30s&timeout=1ns"]
    {
        assert_eq!(server.send(post(path, body.clone())).await, usual, "{path}");
    }
    assert_eq!(usual.status, 200);
}
