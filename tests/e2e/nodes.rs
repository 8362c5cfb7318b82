//! Nodes as the device plugins of each provider leave them: what can be allocated decides where pods go.

use serde_json::{Value, json};

use super::api::Api;
use super::{eventually, kubelet};

/// A kind of machine.
struct NodeType {
    /// `node.kubernetes.io/instance-type`.
    instance_type: &'static str,
    /// What the names of such nodes begin with.
    prefix: &'static str,
    count: usize,
    /// Extended resources, by name and number.
    devices: &'static [(&'static str, u32)],
}

/// Every kind of which there are nodes. The device names are those of each provider's device plugin with its own
/// defaults.
const NODE_TYPES: &[NodeType] = &[
    NodeType { instance_type: "m7i.2xlarge", prefix: "plain", count: 2, devices: &[] },
    NodeType {
        instance_type: "p5.48xlarge",
        prefix: "p5",
        count: 4,
        devices: &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 32)],
    },
    NodeType {
        instance_type: "p4d.24xlarge",
        prefix: "p4d",
        count: 2,
        devices: &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 4)],
    },
    NodeType {
        instance_type: "Standard_ND96isr_H100_v5",
        prefix: "nd-h100",
        count: 2,
        devices: &[("nvidia.com/gpu", 8), ("rdma/hca_shared_devices_a", 8)],
    },
    NodeType {
        instance_type: "BM.GPU.H100.8",
        prefix: "bm-gpu-h100",
        count: 2,
        devices: &[("nvidia.com/gpu", 8), ("nvidia.com/mlnxnics", 16)],
    },
    NodeType {
        instance_type: "a3-megagpu-8g",
        prefix: "a3-mega",
        count: 2,
        devices: &[("nvidia.com/gpu", 8)],
    },
];

/// Makes all nodes, and waits until pods can go to them.
pub(crate) async fn create(api: &Api) {
    for node_type in NODE_TYPES {
        make(api, node_type).await;
    }
    settle(api).await;
}

/// Removes the nodes that have GPUs, and makes them again.
pub(crate) async fn remove_gpus(api: &Api) {
    for node in api.list("/api/v1/nodes").await {
        if !node["status"]["capacity"]["nvidia.com/gpu"].is_null() {
            let name = node["metadata"]["name"].as_str().unwrap();
            api.delete(&format!("/api/v1/nodes/{name}")).await.ok();
        }
    }
}

pub(crate) async fn restore_gpus(api: &Api) {
    for node_type in NODE_TYPES.iter().filter(|one| !one.devices.is_empty()) {
        make(api, node_type).await;
    }
    settle(api).await;
}

async fn make(api: &Api, node_type: &NodeType) {
    for number in 0..node_type.count {
        let name = format!("{}-{number}", node_type.prefix);
        let label = ("node.kubernetes.io/instance-type", node_type.instance_type);
        add(api, &name, label, node_type.devices).await;
    }
}

async fn settle(api: &Api) {
    heartbeat(api).await;
    eventually("the control plane takes its taints from the nodes", async || {
        api.list("/api/v1/nodes").await.iter().all(|node| node["spec"]["taints"].is_null())
    })
    .await;
}

/// Makes a node with a label and extended resources. It is ready for pods after the next heartbeat.
pub(crate) async fn add(api: &Api, name: &str, label: (&str, &str), devices: &[(&str, u32)]) {
    add_of(api, name, json!({}), &[label], devices).await;
}

/// The same with a `spec` and more labels.
pub(crate) async fn add_of(
    api: &Api,
    name: &str,
    spec: Value,
    own_labels: &[(&str, &str)],
    devices: &[(&str, u32)],
) {
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    });
    for (label, value) in own_labels {
        labels[label] = (*value).into();
    }
    let metadata = json!({"name": name, "labels": labels});
    api.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})).await.ok();
    offer(api, name, devices).await;
}

/// Writes what a node has, as its kubelet does when device plugins register.
pub(crate) async fn offer(api: &Api, name: &str, devices: &[(&str, u32)]) {
    let mut resources = json!({
        "cpu": "192", "memory": "2000Gi", "ephemeral-storage": "1000Gi", "hugepages-2Mi": "20Gi", "pods": "250",
    });
    for (device, count) in devices {
        resources[device] = count.to_string().into();
    }
    let status = json!({"status": {"capacity": resources, "allocatable": resources}});
    api.merge_strategically(&format!("/api/v1/nodes/{name}/status"), &status).await.ok();
}

/// Says of every node that it is ready, which nodes have to do every few seconds.
pub(crate) async fn heartbeat(api: &Api) {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let condition: Value = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the tests say so",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let mut status = kubelet::logs::address();
    status["conditions"] = json!([condition]);
    let status = json!({"status": status});
    let nodes = api.try_send(hyper::Method::GET, "/api/v1/nodes", "application/json", None).await;
    let Ok(nodes) = nodes else { return };
    for node in nodes.body["items"].as_array().into_iter().flatten() {
        let path = format!("/api/v1/nodes/{}/status", node["metadata"]["name"].as_str().unwrap());
        let reply = api
            .try_send(hyper::Method::PATCH, &path, "application/strategic-merge-patch+json", Some(&status))
            .await;
        // It comes again in a few seconds.
        drop(reply);
    }
}
