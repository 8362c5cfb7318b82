//! What is counted of each answer: these series rise, and no others.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fabric_engine::admission::{OnError, Record};
use fabric_engine::{Outcome, Reason, Warning};
use fabric_injector::policy_sources::PolicySources;
use fabric_injector::server::{AppState, Limits, MAX_BODY};
use fabric_policy::PodContext as About;
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::answers::patched;
use crate::bodies::{Body, body, pieces};
use crate::reviews::{
    TRIGGER, UID, large_pod, other_pod, pod, pod_that_fails, pod_that_never_settles, pod_with, pod_with_env,
    review_of, review_with, unmatched_pod, with,
};
use crate::scrape::{ANSWERED, OPERATIONS, Scrape, rejected, reviews};
use crate::server::{LAB, Server, engine, lab_with, policies, policies_by_nodes, post, request};

#[tokio::test]
async fn a_pod_that_is_served_counts_its_operations_and_warnings() {
    let lab = policies(&[LAB]);
    let about = About { namespace: Some("team".to_owned()), ..About::default() };
    let mut busy = pod_with_env("NCCL_SOCKET_IFNAME", "ens5");
    busy["spec"].as_object_mut().unwrap().remove("nodeSelector");
    busy["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(1);
    for pod in [pod(), large_pod(), busy] {
        let server = Server::lab();
        let before = server.scrape();
        server.review(&review_of(&pod)).await;
        let now = server.scrape();
        let mutation = engine(&lab, pod, &about);
        let Outcome::Mutated(mutated) = &mutation.outcome else { panic!("{mutation:?}") };
        let operations = i64::try_from(mutated.patch().0.len()).unwrap();
        assert!(operations > 3);
        let series = |warning: &Warning| format!("warnings_total{{code=\"{}\"}}", warning.code());
        let codes: Vec<String> = mutation.warnings.iter().map(series).collect();
        assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), codes.len(), "each once");
        let mutated = reviews("lab", "mutated", "");
        let mut wanted = vec![(mutated.as_str(), 1), (ANSWERED, 1), (OPERATIONS, operations)];
        wanted.extend(codes.iter().map(|series| (series.as_str(), 1)));
        now.rose(&before, &wanted);
    }
}

#[tokio::test]
async fn warnings_are_counted_as_often_as_they_are_given() {
    let server = Server::lab();
    let before = server.scrape();
    let mut pod = pod_with_env("NCCL_SOCKET_IFNAME", "ens5");
    let second = with(pod["spec"]["containers"][0].clone(), "/name", json!("second"));
    pod["spec"]["containers"].as_array_mut().unwrap().push(second);
    server.review(&review_of(&pod)).await;
    server.review(&review_of(&pod)).await;
    let name = "warnings_total{code=\"kept_env\"}";
    assert_eq!(server.scrape().value(name) - before.value(name), 4);
}

const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod for each reason not to serve one, with policy and outcome.
fn unserved(served: Value) -> Vec<(Value, &'static str, &'static str, &'static str)> {
    let annotation = |key: &str, value: &str| {
        pod_with(&format!("/metadata/annotations/{}", key.replace('/', "~1")), json!(value))
    };
    // Nothing more has room.
    let own = pod()["metadata"]["annotations"].as_object().unwrap().clone();
    let room =
        own.iter().fold(256 << 10, |room, (key, value)| room - key.len() - value.as_str().unwrap().len());
    vec![
        (other_pod(), "", "unchanged", "no_policy_matches"),
        (annotation(TRIGGER, "off"), "", "unchanged", "trigger_value"),
        (annotation("lab.example/no-fabric", "true"), "", "unchanged", "opted_out"),
        (annotation(MIRROR, "abc"), "", "unchanged", "mirror_pod"),
        (pod_with("/spec/os", json!({"name": "windows"})), "", "unchanged", "windows_pod"),
        (pod_with("/spec/containers/0/resources", json!({})), "lab", "unchanged", "no_gpu_container"),
        (served, "lab", "unchanged", "nothing_to_add"),
        (annotation("big", &"x".repeat(room - "big".len())), "lab", "unchanged", "annotation_limit"),
        (pod_with("/spec/containers", json!("main")), "lab", "unchanged", "malformed_pod"),
        (pod_with_env("LAB_SEAL", "open"), "lab", "refused", "seal"),
        (
            pod_with(
                "/spec/resourceClaims",
                json!([{"name": "lab-nic", "resourceClaimTemplateName": "other"}]),
            ),
            "lab",
            "refused",
            "conflict",
        ),
        (annotation("fabric-injector.io/provider", "other"), "", "refused", "other_provider"),
        (pod_that_fails(), "lab", "failed", "evaluation_failed"),
        (pod_that_never_settles(), "lab", "failed", "not_idempotent"),
    ]
}

#[tokio::test]
async fn every_reason_not_to_serve_a_pod_is_counted_as_what_it_is() {
    let server = Server::lab();
    let done = patched(&pod(), &server.review(&review_of(&pod())).await);
    let elsewhere = [
        "match_failed",
        "several_policies_match",
        "pod_limit",
        "nodes_unknown",
        "several_providers",
        "setting_undecided",
        "cost",
    ];
    let mut reasons = BTreeSet::from(elsewhere);
    // Those that need nothing, and those that the API server refuses.
    let in_order = [
        "no_policy_matches",
        "opted_out",
        "mirror_pod",
        "windows_pod",
        "no_gpu_container",
        "nothing_to_add",
        "malformed_pod",
    ];
    for (pod, policy, outcome, reason) in unserved(done) {
        let before = server.scrape();
        let mut review = review_of(&pod);
        if reason == "mirror_pod" {
            review["request"]["userInfo"] = json!({"username": "system:node:a", "groups": ["system:nodes"]});
        }
        server.review(&review).await;
        let now = server.scrape();
        now.rose(&before, &[(&reviews(policy, outcome, reason), 1), (ANSWERED, 1)]);
        // A pod with another value than `off` requests the fabric.
        let is_missed = !in_order.contains(&reason) && reason != "trigger_value";
        let count = |scrape: &Scrape| scrape.without_fabric("team").get(reason).copied().unwrap_or_default();
        assert_eq!(count(&now) - count(&before), i64::from(is_missed), "{reason}");
        reasons.insert(reason);
    }
    server
        .review(&review_of(&pod_with(
            &format!("/metadata/annotations/{}", TRIGGER.replace('/', "~1")),
            json!("yes"),
        )))
        .await;
    assert_eq!(server.scrape().without_fabric("team")["trigger_value"], 1);
    // The last is that of the policy's check.
    let all = [Reason::LEFT_ALONE, Reason::REFUSED, Reason::FAULTS, &["seal"]].concat();
    assert_eq!(reasons, all.into_iter().collect(), "there is a pod for every reason");
}

/// Anyone can set the annotation.
#[tokio::test]
async fn a_pod_of_another_requester_than_a_kubelet_is_no_mirror_pod() {
    let asked = pod_with(&format!("/metadata/annotations/{}", MIRROR.replace('/', "~1")), json!("abc"));
    let other = json!({"username": "system:node:a", "groups": ["system:authenticated", "system:nodes:a"]});
    for user in [Value::Null, json!({}), json!({"groups": null}), other] {
        let review = with(review_of(&asked), "/request/userInfo", user);
        let done = patched(&asked, &Server::lab().review(&review).await);
        assert!(done["metadata"]["annotations"]["fabric-injector.io/injected"].is_string(), "{review}");
    }
}

#[tokio::test]
async fn a_pod_for_which_no_policy_can_be_chosen_is_counted() {
    let sources = PolicySources { by_nodes: true, ..PolicySources::default() };
    let server = Server::new(AppState::new(sources.load().unwrap(), OnError::Deny, Limits::default()));
    let on = |label: &str, values: &[&str]| {
        let requirement = json!({"key": label, "operator": "In", "values": values});
        let mut pod =
            pod_with("/metadata/annotations", json!({"nmp.nvidia.com/enable-multi-node-networking": "true"}));
        pod["spec"]["nodeSelector"] = Value::Null;
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}});
        pod
    };
    for (pod, outcome, reason) in [
        (on("pool", &["a"]), "failed", "nodes_unknown"),
        (
            on("node.kubernetes.io/instance-type", &["p5.48xlarge", "a3-megagpu-8g"]),
            "refused",
            "several_providers",
        ),
        (on("cloud.google.com/gke-nodepool", &["a"]), "refused", "setting_undecided"),
    ] {
        let before = server.scrape();
        let response = server.review(&review_of(&pod)).await;
        assert_eq!(response["allowed"], false, "{response}");
        server.scrape().rose(&before, &[(&reviews("", outcome, reason), 1), (ANSWERED, 1)]);
    }
}

#[tokio::test]
async fn a_pod_whose_policy_cannot_be_chosen_without_nodes_is_counted_as_failed() {
    let other = lab_with("name: lab\n", "name: other\n").replace("provider: lab", "provider: other");
    for (on_error, allowed) in [(OnError::Deny, false), (OnError::Allow, true)] {
        let policies = policies_by_nodes(&[LAB, &other]);
        let server = Server::new(AppState::new(policies, on_error, Limits::default()));
        let before = server.scrape();
        let response = server.review(&review_of(&pod())).await;
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(allowed), None), "{response}");
        let series = reviews("", "failed", "nodes_unknown");
        server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
    }
}

/// Each container gets 64 KiB, so that the pod would be larger than what an API server accepts.
#[tokio::test]
async fn a_pod_that_would_be_too_large_is_counted() {
    let long = format!("RANK: {}", "x".repeat(64 << 10));
    let server = Server::serving(&[&lab_with("RANK: ${string(rank)}", &long)]);
    let container = pod()["spec"]["containers"][0].clone();
    let containers = (0..60).map(|at| with(container.clone(), "/name", json!(format!("c{at}")))).collect();
    let before = server.scrape();
    server.review(&review_of(&pod_with("/spec/containers", containers))).await;
    server.scrape().rose(&before, &[(&reviews("lab", "unchanged", "pod_limit"), 1), (ANSWERED, 1)]);
}

/// A server with the policy of AWS.
fn aws() -> Server {
    let sources = PolicySources { policies: vec!["aws-efa".to_owned()], ..PolicySources::default() };
    Server::new(AppState::new(sources.load().unwrap(), OnError::Deny, Limits::default()))
}

/// The annotations of a pod that requests the fabric of that policy.
fn annotated() -> Value {
    json!({"nmp.nvidia.com/enable-multi-node-networking": "true"})
}

#[tokio::test]
async fn an_injected_pod_that_uses_tcp_all_the_same_is_counted() {
    let server = aws();
    let mut pod = pod_with_env("NCCL_NET", "Socket");
    pod["metadata"]["annotations"] = annotated();
    let response = server.review(&review_of(&pod)).await;
    assert!(patched(&pod, &response)["metadata"]["annotations"]["fabric-injector.io/injected"].is_string());
    assert_eq!(server.scrape().without_fabric("team"), BTreeMap::from([("socket_network", 1)]));
}

/// The API server calls again for a pod that a later webhook has changed. What the first review has counted is in an
/// annotation of the pod.
#[tokio::test]
async fn a_later_review_counts_what_is_new_and_a_pod_once() {
    let server = aws();
    let mut pod = pod_with_env("NCCL_SOCKET_FAMILY", "AF_INET");
    pod["metadata"]["annotations"] = annotated();
    let mut pod = patched(&pod, &server.review(&review_of(&pod)).await);
    assert_eq!(server.scrape().without_fabric("team"), BTreeMap::new());
    let set = |pod: &mut Value, name: &str, value: &str| {
        let env = pod["spec"]["containers"][0]["env"].as_array_mut().unwrap();
        env.retain(|entry| entry["name"] != name);
        env.push(json!({"name": name, "value": value}));
    };
    set(&mut pod, "NCCL_NET", "Socket");
    let response = server.review(&review_of(&pod)).await;
    assert_eq!(response.get("patch"), None);
    let once = BTreeMap::from([("socket_network", 1)]);
    assert_eq!(server.scrape().without_fabric("team"), once);
    // A pod of which the first review has it, and another way that comes later.
    let mut own = pod_with_env("NCCL_NET", "Socket");
    own["metadata"]["annotations"] = annotated();
    let mut own = patched(&own, &server.review(&review_of(&own)).await);
    let mark = "fabric-injector.io/without-fabric";
    assert_eq!(own["metadata"]["annotations"][mark], "socket_network");
    let twice = BTreeMap::from([("socket_network", 2)]);
    assert_eq!(server.scrape().without_fabric("team"), twice);
    server.review(&review_of(&own)).await;
    assert_eq!(server.scrape().without_fabric("team"), twice);
    set(&mut own, "NCCL_NET_PLUGIN", "none");
    server.review(&review_of(&own)).await;
    let both = BTreeMap::from([("other_net_plugin", 1), ("socket_network", 2)]);
    assert_eq!(server.scrape().without_fabric("team"), both);
}

/// Parts of GPUs, and GPUs of another vendor, are none for the policy.
#[tokio::test]
async fn a_pod_with_parts_of_gpus_is_counted_and_a_launcher_is_not() {
    let server = aws();
    let counted = |limits: Value| {
        let mut pod = pod_with("/spec/containers/0/resources", json!({"limits": limits}));
        pod["metadata"]["annotations"] = annotated();
        review_of(&pod)
    };
    let ways = [
        json!({"nvidia.com/gpu.shared": 8}),
        json!({"nvidia.com/mig-1g.10gb": 1}),
        json!({"nvidia.com/gpu": 0}),
        json!({"cpu": 4}),
    ];
    for (limits, count) in ways.into_iter().zip([1, 2, 2, 2]) {
        server.review(&counted(limits)).await;
        assert_eq!(server.scrape().without_fabric("team")["no_gpu_container"], count);
    }
}

/// Any pod of the cluster can send reviews, and choose the namespace in them.
#[tokio::test]
async fn the_namespaces_in_labels_have_a_limit() {
    let server = Server::lab();
    for number in 0..110 {
        let mut review = review_of(&pod_that_fails());
        review["request"]["namespace"] = json!(format!("team-{number}"));
        server.post(review.to_string()).await;
    }
    let now = server.scrape();
    assert_eq!(now.without_fabric("team-98")["evaluation_failed"], 1);
    assert!(now.without_fabric("team-99").is_empty());
    // One place is that of pods without a namespace.
    assert_eq!(now.without_fabric("")["evaluation_failed"], 11);
}

/// Every outcome of a review, with any policy. Those of the reasons that are not the engine's are counted without one.
#[tokio::test]
async fn every_reason_that_is_not_the_engine_s_is_counted_as_what_it_is() {
    let none = Limits { in_flight: 0, ..Limits::default() };
    let broken = || Server::evaluating(OnError::Deny, Box::new(|_, _, _| panic!("a test panics")));
    let beta = with(review_of(&pod()), "/apiVersion", json!("admission.k8s.io/v1beta1"));
    let cases = [
        (Server::lab(), review_with("operation", json!("UPDATE")), "not_a_new_pod", "unchanged"),
        (Server::lab(), beta, "unsupported_version", "refused"),
        (
            Server::lab(),
            review_of(&pod_with("/metadata/labels", json!({"a": "x".repeat(64)}))),
            "too_long",
            "refused",
        ),
        (broken(), review_of(&pod()), "panic", "failed"),
        (Server::limited(OnError::Allow, none), review_of(&large_pod()), "overload", "failed"),
        (Server::lab(), review_of(&unmatched_pod()), "other_policies_registered", "failed"),
    ];
    for (server, review, reason, outcome) in &cases {
        let series = reviews("", outcome, reason);
        let before = server.scrape();
        server.post(review.to_string()).await;
        let now = server.scrape();
        assert_eq!(now.value(&series) - before.value(&series), 1, "{series}");
        assert_eq!(now.without_fabric("team").contains_key(reason), *reason != "not_a_new_pod", "{series}");
    }
    let tried: BTreeSet<&str> = cases.iter().map(|(_, _, reason, _)| *reason).collect();
    let of_pods = Record::REASONS.iter().filter(|(_, outcome)| !outcome.name().ends_with("advised"));
    assert_eq!(tried, of_pods.map(|(reason, _)| *reason).collect());
}

#[tokio::test]
async fn what_is_no_review_is_counted_as_what_it_is() {
    let server = Server::lab();
    let (sender, broken) = body();
    sender.send(Err(std::io::Error::other("gone"))).unwrap();
    let cases: Vec<(Request<Body>, &str)> = vec![
        (post("/mutate", "{"), "not_json"),
        (post("/mutate", "{}"), "not_a_review"),
        (post("/mutate", with(review_of(&pod()), "/request", Value::Null).to_string()), "no_request"),
        (request(Method::POST, "/mutate", None, ""), "content_type"),
        (request(Method::GET, "/mutate", None, ""), "method"),
        (post("/elsewhere", ""), "path"),
        (post("/mutate", pieces([vec![b' '; MAX_BODY].as_slice(), b" "])), "too_large"),
        (post("/mutate", broken), "body_incomplete"),
    ];
    // Of the two that are missing, one takes its time, and is in `time`; the other would be a bug.
    let mut reasons = BTreeSet::from([rejected("body_timeout"), rejected("internal")]);
    for (request, reason) in cases {
        let before = server.scrape();
        server.send(request).await;
        server.scrape().rose(&before, &[(&rejected(reason), 1)]);
        reasons.insert(rejected(reason));
    }
    let scrape = server.scrape();
    let all = scrape.family("rejected_requests_total").map(|name| name.replace("fabric_injector_", ""));
    assert_eq!(all.collect::<BTreeSet<_>>(), reasons, "there is a request for every reason");
}

#[tokio::test]
async fn requests_in_flight_are_counted_while_they_are() {
    let server = Server::lab();
    let mut held = Vec::new();
    for number in 1..=3 {
        let (sender, body) = body();
        let task = {
            let server = server.clone();
            tokio::spawn(async move { server.send(post("/mutate", body)).await })
        };
        while server.scrape().value("requests_in_flight") < number {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.scrape().value("requests_in_flight"), number);
        held.push((sender, task));
    }
    // One is answered, one is turned away, one goes.
    let (sender, task) = held.pop().unwrap();
    sender.send(Ok(Bytes::from(review_of(&pod()).to_string()))).unwrap();
    drop(sender);
    task.await.unwrap().response(UID);
    assert_eq!(server.scrape().value("requests_in_flight"), 2);
    let (sender, task) = held.pop().unwrap();
    drop(sender);
    task.await.unwrap().refusal(400);
    assert_eq!(server.scrape().value("requests_in_flight"), 1);
    let (_sender, task) = held.pop().unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(server.scrape().value("requests_in_flight"), 0);
}

#[tokio::test]
async fn every_review_is_timed() {
    let server = Server::lab();
    for number in 1..=3 {
        server.review(&review_of(&other_pod())).await;
        let scrape = server.scrape();
        assert_eq!(scrape.value("review_duration_seconds_count"), number);
        assert_eq!(scrape.value("review_duration_seconds_bucket{le=\"+Inf\"}"), number);
    }
    let text = server.state.metrics().encode();
    let sum = text.lines().find_map(|line| line.strip_prefix("fabric_injector_review_duration_seconds_sum "));
    let sum: f64 = sum.unwrap().parse().unwrap();
    assert!(sum > 0.0 && sum < 60.0, "{sum}");
}

#[tokio::test]
async fn metrics_of_two_policies_are_told_apart() {
    let other = lab_with("name: lab\n", "name: other\n").replace("lab.example/fabric", "lab.example/other");
    let server = Server::new(AppState::new(policies(&[LAB, &other]), OnError::Deny, Limits::default()));
    let before = server.scrape();
    let pod = pod_with("/metadata/annotations", json!({"lab.example/other": "on"}));
    server.review(&review_of(&pod)).await;
    let risen = |scrape: &Scrape, policy| {
        let name = reviews(policy, "mutated", "");
        scrape.value(&name) - before.value(&name)
    };
    let now = server.scrape();
    assert_eq!((risen(&now, "lab"), risen(&now, "other")), (0, 1));
}
