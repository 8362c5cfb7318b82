//! What a kubelet says of a pod.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::api::Api;

/// What is known of the one container of a pod that is real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) started: bool,
    pub(super) ready: bool,
    pub(super) restarts: u32,
    /// The exit status of a container that is not started again.
    pub(super) ended: Option<i32>,
}

/// Writes a status. The pod may be gone; another of the same name is none of ours.
pub(super) async fn patch(api: &Api, pod: &Value, status: &Value) -> bool {
    let change = json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status});
    let path = format!("{}/status", super::path(pod));
    let content_type = "application/strategic-merge-patch+json";
    let reply = api.try_send(hyper::Method::PATCH, &path, content_type, Some(&change)).await;
    reply.is_ok_and(|reply| reply.status == 200)
}

/// The status of a pod that is said to run.
pub(super) fn running(pod: &Value, address: &str) -> Value {
    status(pod, address, &Observed { started: true, ready: true, ..Observed::default() })
}

/// The status of a pod.
pub(super) fn status(pod: &Value, address: &str, observed: &Observed) -> Value {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let condition = |name: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({"type": name, "status": status, "lastTransitionTime": now})
    };
    let phase = match observed.ended {
        None => "Running",
        Some(0) => "Succeeded",
        Some(_) => "Failed",
    };
    let state = match observed.ended {
        None => json!({"running": {"startedAt": now}}),
        Some(code) => json!({"running": null, "terminated": {"exitCode": code, "finishedAt": now}}),
    };
    let containers = |key: &str| -> Vec<Value> {
        let containers = pod["spec"][key].as_array().into_iter().flatten();
        containers
            .map(|container| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": container["image"],
                    "containerID": "test://0", "started": observed.started, "ready": observed.ready,
                    "restartCount": observed.restarts, "state": state,
                })
            })
            .collect()
    };
    json!({
        "phase": phase, "podIP": address, "podIPs": [{"ip": address}], "startTime": now,
        "conditions": [
            condition("Initialized", true), condition("PodReadyToStartContainers", true),
            condition("ContainersReady", observed.ready), condition("Ready", observed.ready),
        ],
        "containerStatuses": containers("containers"),
        "initContainerStatuses": containers("initContainers"),
    })
}
