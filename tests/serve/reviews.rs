//! Reviews as an API server posts them, and what their answers say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::messages::Reply;

/// The trigger's annotation.
const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

/// A pod with 8 GPUs that every built-in policy serves.
pub(crate) fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "annotations": {TRIGGER: "true"}},
        "spec": {"containers": [{
            "name": "main",
            "image": "registry.example/train:1",
            "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}},
        }]},
    })
}

/// A pod that no policy is for.
pub(crate) fn plain_pod() -> Value {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({});
    // Pods with GPUs that no policy matches fail for a minute.
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    pod
}

/// The review of a pod that is to be created.
pub(crate) fn review(uid: &str, pod: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "team-a",
            "object": pod,
        },
    });
    review.to_string().into_bytes()
}

/// The review of the pod that every policy serves.
pub(crate) fn sample(uid: &str) -> Vec<u8> {
    review(uid, &pod())
}

/// The two halves of a body.
pub(crate) fn halves(body: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = body.split_at(body.len() / 2);
    [first.to_vec(), second.to_vec()]
}

/// The response in an answer, which has to be one to a review with this uid.
#[track_caller]
pub(crate) fn response(reply: &Reply, uid: &str) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.headers["content-type"], "application/json");
    let mut review: Value = serde_json::from_slice(&reply.body).expect("the answer is JSON");
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&"admission.k8s.io/v1".into(), &"AdmissionReview".into())
    );
    let response = review["response"].take();
    assert_eq!(response["uid"], uid);
    response
}

/// The sample pod as the answer would have it.
#[track_caller]
pub(crate) fn served(reply: &Reply, uid: &str) -> Value {
    let response = response(reply, uid);
    assert_eq!(response["allowed"], true, "{response}");
    let mut pod = pod();
    if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).expect("the patch is base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("the patch is a JSON Patch");
        json_patch::patch(&mut pod, &patch).expect("the patch fits");
    }
    pod
}

/// Fails unless the answer is what `aws-efa` makes of the sample pod.
#[track_caller]
pub(crate) fn assert_right(reply: &Reply, uid: &str) {
    let pod = served(reply, uid);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"], "8", "{pod}");
}

/// A variable of the first container of the sample pod as the answer would have it; null if there is none.
#[track_caller]
pub(crate) fn variable(reply: &Reply, uid: &str, name: &str) -> Value {
    let pod = served(reply, uid);
    let variables = pod["spec"]["containers"][0]["env"].as_array();
    let found = variables.and_then(|variables| variables.iter().find(|variable| variable["name"] == name));
    found.map_or(Value::Null, |variable| variable["value"].clone())
}
