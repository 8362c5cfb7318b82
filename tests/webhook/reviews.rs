//! Reviews to send.

use serde_json::{Value, json};

/// The uid of most reviews.
pub(crate) const UID: &str = "6f1c0e3a-92d4-4b7e-a5c8-1d47be20f963";

/// The annotation that triggers the sample policy.
pub(crate) const TRIGGER: &str = "lab.example/fabric";

/// A pod with 8 GPUs for which the sample policy is.
pub(crate) fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "annotations": {TRIGGER: "on"}},
        "spec": {"nodeSelector": {"node.kubernetes.io/instance-type": "lab-half"}, "containers": [container("main")]},
    })
}

/// A container with 8 GPUs.
pub(crate) fn container(name: &str) -> Value {
    let amounts = json!({"nvidia.com/gpu": "8"});
    json!({"name": name, "image": "train:1", "resources": {"limits": amounts, "requests": amounts}})
}

/// The sample pod with something else in it.
pub(crate) fn pod_with(pointer: &str, value: Value) -> Value {
    with(pod(), pointer, value)
}

/// A value with another value put under an existing map or list.
pub(crate) fn with(mut root: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match root.pointer_mut(parent).unwrap_or_else(|| panic!("there is nothing at {parent}")) {
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => panic!("{other} at {parent} has no {key}"),
    }
    root
}

/// The sample pod with a variable of its own.
pub(crate) fn pod_with_env(name: &str, value: &str) -> Value {
    pod_with("/spec/containers/0/env", json!([{"name": name, "value": value}]))
}

/// A pod without GPUs and without the trigger of the policy.
pub(crate) fn other_pod() -> Value {
    let mut pod = with(unmatched_pod(), "/spec/containers/0/resources", json!({"limits": {"cpu": "1"}}));
    pod["spec"]["nodeSelector"] = json!({});
    pod
}

/// The sample pod without the trigger of the policy.
pub(crate) fn unmatched_pod() -> Value {
    pod_with("/metadata/annotations", json!({"other.example/fabric": "on"}))
}

/// A pod of so many bytes, more than are served beside other requests.
pub(crate) fn large_pod() -> Value {
    pod_with("/spec/containers/0/args", json!(["x".repeat(200 << 10)]))
}

/// A pod for which the sample policy has no value.
pub(crate) fn pod_that_fails() -> Value {
    pod_with("/metadata/labels", json!({"rank": "first"}))
}

/// A pod for which the policy has another result each time that it is applied.
pub(crate) fn pod_that_never_settles() -> Value {
    pod_with("/metadata/labels", json!({"settles": "never"}))
}

/// A review of a new pod, as an API server sends it.
pub(crate) fn review_of(pod: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": pod["metadata"]["name"],
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {"username": "dana", "groups": ["system:authenticated"]},
            "object": pod,
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// A review of the sample pod with something else in its request.
pub(crate) fn review_with(key: &str, value: Value) -> Value {
    with(review_of(&pod()), &format!("/request/{key}"), value)
}
