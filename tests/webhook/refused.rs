//! Pods that must not be created, and pods that are no pods.

use fabric_engine::admission::OnError;
use fabric_injector::server::{AppState, Limits};
use serde_json::{Value, json};

use crate::answers::{assert_unchanged, audit, denied};
use crate::reviews::{TRIGGER, UID, container, other_pod, pod, pod_with, pod_with_env, review_of, with};
use crate::scrape::{ANSWERED, reviews};
use crate::server::{LAB, Server, lab_with, policies};

#[tokio::test]
async fn a_pod_that_contradicts_the_policy_is_forbidden_and_told_what_to_change() {
    // Whose fault it is does not change with the answer to our own faults.
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::on_error(on_error);
        let before = server.scrape();
        let response = server.review(&review_of(&pod_with_env("LAB_SEAL", "open"))).await;
        let message = denied(&response, 403);
        assert_eq!(
            message,
            "fabric-injector: `spec.containers[main].env[LAB_SEAL]`: `LAB_SEAL` is `open`, not `sealed`; remove it"
        );
        assert_eq!(response["status"]["reason"], "Forbidden");
        assert_eq!(response.get("patch"), None);
        let series = reviews("lab", "refused", "seal");
        server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
    }
}

#[tokio::test]
async fn doing_what_the_refusal_says_helps() {
    let server = Server::lab();
    denied(&server.review(&review_of(&pod_with_env("LAB_SEAL", "open"))).await, 403);
    for mended in [pod(), pod_with_env("LAB_SEAL", "sealed")] {
        assert_eq!(server.review(&review_of(&mended)).await["patchType"], "JSONPatch");
    }
}

#[tokio::test]
async fn a_pod_for_which_two_policies_are_is_forbidden_and_told_both() {
    let other = lab_with("name: lab\n", "name: other\n");
    let server = Server::new(AppState::new(policies(&[LAB, &other]), OnError::Allow, Limits::default()));
    let before = server.scrape();
    let response = server.review(&review_of(&pod())).await;
    let message = denied(&response, 403);
    assert!(
        message.contains("`lab`, `other`")
            && message.contains("conditions (`match.when`) exclude each other"),
        "{message}"
    );
    assert_eq!(audit(&response)["outcome"], "refused: several_policies_match");
    let series = reviews("", "refused", "several_policies_match");
    server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
}

#[tokio::test]
async fn a_refusal_is_short_whatever_the_pod_says() {
    let server = Server::lab();
    let long = pod_with_env("LAB_SEAL", &"ü\r\u{0}".repeat(3_000));
    let response = server.review(&review_of(&long)).await;
    // Length and characters are looked at in every answer.
    assert!(
        denied(&response, 403)
            .starts_with("fabric-injector: `spec.containers[main].env[LAB_SEAL]`: `LAB_SEAL` is `ü")
    );
}

/// Pods of which the API server will say itself what is wrong with them, and what is.
fn malformed() -> Vec<(Value, &'static str)> {
    let of_container = |field: &str, value: Value| pod_with(&format!("/spec/containers/0/{field}"), value);
    vec![
        (pod_with("/spec", json!([])), "`spec` must be a map"),
        (pod_with("/spec", json!("containers")), "`spec` must be a map"),
        (pod_with("/spec/containers", json!("main")), "`spec.containers` must be a list"),
        (pod_with("/spec/containers", json!({"name": "main"})), "`spec.containers` must be a list"),
        (pod_with("/spec/containers", json!(["main"])), "`spec.containers[0]` must be a map"),
        (pod_with("/spec/containers", json!([container("a"), null])), "`spec.containers[1]` must be a map"),
        (pod_with("/spec/initContainers", json!(5)), "`spec.initContainers` must be a list"),
        (pod_with("/spec/volumes", json!("lab")), "`spec.volumes` must be a list"),
        (pod_with("/spec/volumes", json!({})), "`spec.volumes` must be a list"),
        (of_container("env", json!("A=b")), "env` must be a list"),
        (of_container("env", json!({"A": "b"})), "env` must be a list"),
        (of_container("volumeMounts", json!("/dev/shm")), "volumeMounts` must be a list"),
        (of_container("securityContext", json!([])), "securityContext` must be a map"),
        (of_container("securityContext", json!({"capabilities": ["IPC_LOCK"]})), "capabilities` must be"),
        (of_container("securityContext", json!({"capabilities": {"add": "ALL"}})), "add` must be a list"),
        (pod_with("/metadata/annotations/x", json!(1)), "`metadata.annotations[x]` must be a string"),
        (
            of_container("resources", json!({"limits": {"nvidia.com/gpu": "many"}})),
            "`spec.containers[main].resources.limits[nvidia.com/gpu]` must be a whole number",
        ),
        (
            of_container("resources", json!({"limits": {"nvidia.com/gpu": [8]}})),
            "`spec.containers[main].resources.limits[nvidia.com/gpu]` must be a whole number",
        ),
        (
            of_container("resources", json!({"requests": "x", "limits": {"nvidia.com/gpu": 8}})),
            "requests` must be a map",
        ),
    ]
}

#[tokio::test]
async fn a_pod_that_is_malformed_inside_is_allowed_as_it_is_with_a_warning() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::on_error(on_error);
        for (pod, what) in malformed() {
            let before = server.scrape();
            let response = server.review(&review_of(&pod)).await;
            assert_eq!(response["warnings"].as_array().map(Vec::len), Some(1), "{pod}: {response}");
            let start = format!("left alone: {}", if what.starts_with('`') { what } else { "`spec" });
            assert_unchanged(&response, &[&start]);
            assert_unchanged(&response, &[what]);
            assert_eq!(audit(&response)["outcome"], "unchanged: malformed_pod");
            let series = reviews("lab", "unchanged", "malformed_pod");
            server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
        }
    }
}

#[tokio::test]
async fn a_pod_without_what_could_trigger_is_allowed_however_malformed() {
    let server = Server::lab();
    let text = format!("{TRIGGER}: on");
    for metadata in
        [json!([TRIGGER]), json!(text), json!({"annotations": text}), json!({"annotations": [text]})]
    {
        let response = server.review(&review_of(&with(other_pod(), "/metadata", metadata))).await;
        assert_eq!(response, json!({"uid": UID, "allowed": true}));
    }
}

/// Every field of the pod in turn, replaced by something of every type.
#[tokio::test]
async fn no_value_of_any_type_at_any_place_of_a_pod_is_a_fault() {
    let server = Server::lab();
    let full = {
        let mut pod = pod_with_env("NCCL_SOCKET_IFNAME", "ens5");
        let main = &mut pod["spec"]["containers"][0];
        main["volumeMounts"] = json!([{"name": "v", "mountPath": "/dev/shm"}]);
        main["securityContext"] = json!({"capabilities": {"add": ["X"]}, "privileged": true});
        pod["spec"]["initContainers"] = json!([container("init")]);
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        pod["spec"]["securityContext"] = json!({"runAsUser": 0});
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}}});
        pod["metadata"]["labels"] = json!({"rank": "3"});
        pod["metadata"]["ownerReferences"] = json!([{"kind": "Job"}]);
        pod
    };
    let mut pointers = Vec::new();
    collect(&full, &mut String::new(), &mut pointers);
    assert!(pointers.len() > 50, "{}", pointers.len());
    let failed = reviews("", "failed", "panic");
    for pointer in pointers {
        for other in
            [json!(null), json!(true), json!(-1.5), json!("x"), json!([]), json!([[]]), json!({"": {}})]
        {
            let mut pod = full.clone();
            *pod.pointer_mut(&pointer).unwrap() = other.clone();
            let mut review = review_of(&pod);
            review["request"]["name"] = json!("trainer");
            let response = server.review(&review).await;
            let outcome = audit(&response).get("outcome").cloned().unwrap_or_default();
            if outcome == "failed: other_policies_registered" {
                assert!(
                    pointer.starts_with("/metadata") || pointer.is_empty(),
                    "{pointer} {other}: {response}"
                );
                continue;
            }
            // A label that is no number is a fault of the policy's, and told as such.
            if outcome == "failed: evaluation_failed" {
                assert!(pointer.starts_with("/metadata/labels"), "{pointer} {other}: {response}");
            } else {
                assert_eq!(response["allowed"], true, "{pointer} {other}: {response}");
            }
        }
    }
    assert_eq!(server.scrape().value(&failed), 0, "nothing panics");
}

fn collect(value: &Value, pointer: &mut String, pointers: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let before = pointer.len();
        pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")));
        pointers.push(pointer.clone());
        collect(child, pointer, pointers);
        pointer.truncate(before);
    }
}
