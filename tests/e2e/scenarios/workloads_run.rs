//! Workloads on their way from a controller to a node.

use serde_json::Value;

use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::workloads::{annotated_template, efa_devices, is_served, job};

/// The pods of a namespace, once there are so many.
async fn pods(cluster: &Cluster, namespace: &str, count: usize) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let mut pods = Vec::new();
    eventually("the controller makes its pods", async || {
        pods = cluster.api.list(&path).await;
        pods.len() >= count
    })
    .await;
    pods
}

/// The pods of a namespace, once so many are bound to a node.
async fn bound(cluster: &Cluster, namespace: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    eventually("the pods are bound", async || {
        found = pods(cluster, namespace, count).await;
        found.iter().all(|pod| pod["spec"]["nodeName"].is_string())
    })
    .await;
    found
}

pub(super) async fn pods_of_a_job_are_served_and_bound_to_nodes_with_efa(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("job").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = bound(cluster, &namespace, 2).await;
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        assert!(is_served(pod), "{pod}");
        assert_eq!(efa_devices(pod), "32");
        assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with("p5-"), "{pod}");
    }
    assert_ne!(pods[0]["spec"]["nodeName"], pods[1]["spec"]["nodeName"]);
    cluster.remove(&namespace).await;
}
