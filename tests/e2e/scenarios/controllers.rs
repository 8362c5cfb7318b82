//! Workloads on their way from a controller to a node.

use serde_json::{Value, json};

use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::workloads::{
    annotated_template, efa_devices, is_injected, job, plain_template, pod, stateful_set, template,
};

/// The pods of a namespace, once there are so many.
pub(super) async fn pods(cluster: &Cluster, namespace: &str, count: usize) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let mut pods = Vec::new();
    eventually("the controller makes its pods", async || {
        pods = cluster.api.list(&path).await;
        pods.len() >= count
    })
    .await;
    assert_eq!(pods.len(), count);
    pods
}

/// The pods of a namespace, once so many are bound to a node.
pub(super) async fn bound(cluster: &Cluster, namespace: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    eventually("the pods are bound", async || {
        found = pods(cluster, namespace, count).await;
        found.iter().all(|pod| pod["spec"]["nodeName"].is_string())
    })
    .await;
    found
}

/// Asserts that two pods were injected and have a node with EFA each.
fn assert_on_nodes_with_efa(pods: &[Value], prefix: &str, devices: &str) {
    for pod in pods {
        assert!(is_injected(pod), "{pod}");
        assert_eq!(efa_devices(pod), devices);
        assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with(prefix), "{pod}");
    }
    assert_ne!(pods[0]["spec"]["nodeName"], pods[1]["spec"]["nodeName"]);
}

pub(super) async fn pods_of_a_job_are_injected_and_bound_to_nodes_with_efa(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("job").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    assert_on_nodes_with_efa(&bound(cluster, &namespace, 2).await, "p5-", "32");
    cluster.remove(&namespace).await;
}

pub(super) async fn pods_get_as_many_devices_as_their_machines_have(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("smaller-machines").await;
    cluster.api.create(&job(&namespace, "train", 2, &template(true, "p4d.24xlarge"))).await.ok();
    assert_on_nodes_with_efa(&bound(cluster, &namespace, 2).await, "p4d-", "4");
    cluster.remove(&namespace).await;
}

pub(super) async fn pods_of_a_stateful_set_are_injected_and_bound_to_nodes_with_efa(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("stateful-set").await;
    cluster.api.create(&stateful_set(&namespace, "workers", 2, &annotated_template())).await.ok();
    assert_on_nodes_with_efa(&bound(cluster, &namespace, 2).await, "p5-", "32");
    cluster.remove(&namespace).await;
}

pub(super) async fn with_a_wrong_ratio_a_job_stays_pending(cluster: &Cluster) {
    let mut values = values();
    values["multinodeNetworking"]["aws"]["efaDevicesPerGPU"] = json!(8);
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("wrong-ratio").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    for first in pods(cluster, &namespace, 2).await {
        let path =
            format!("/api/v1/namespaces/{namespace}/pods/{}", first["metadata"]["name"].as_str().unwrap());
        let mut pod = first;
        eventually("the scheduler says why a pod has no node", async || {
            pod = cluster.api.get(&path).await.ok();
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let said: Vec<_> = conditions.filter_map(|condition| condition["message"].as_str()).collect();
            said.iter().any(|message| message.contains("Insufficient vpc.amazonaws.com/efa"))
        })
        .await;
        assert_eq!(efa_devices(&pod), "64");
        assert_eq!(pod["status"]["phase"], "Pending");
        assert!(pod["spec"]["nodeName"].is_null(), "{pod}");
    }
    cluster.remove(&namespace).await;
}

pub(super) async fn pods_without_the_annotation_never_reach_a_server(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("unannotated").await;
    let reviews = "fabric_injector_reviews_total";
    let before = cluster.metric(reviews).await;
    assert!(before > 0, "the counter counts: {before}");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    for number in 0..20 {
        let template = if number < 2 { template(false, "p5.48xlarge") } else { plain_template() };
        let made = cluster.api.post(&pods, &pod(&namespace, &format!("plain-{number}"), &template)).await;
        assert!(!is_injected(&made.ok()));
    }
    cluster.api.create(&job(&namespace, "plain", 3, &plain_template())).await.ok();
    bound(cluster, &namespace, 23).await;
    // There is no advice on the Job either.
    assert_eq!(cluster.metric(reviews).await, before);
    // One more, to know that it would have been counted; a dry run is not.
    let asked = pod(&namespace, "annotated", &annotated_template());
    for path in [format!("{pods}?dryRun=All"), pods] {
        assert!(is_injected(&cluster.api.post(&path, &asked).await.ok()));
    }
    assert_eq!(cluster.metric(reviews).await, before + 1);
    cluster.remove(&namespace).await;
}

pub(super) async fn pods_of_excluded_namespaces_are_left_alone(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    // Pods in the namespace of the servers are not injected either, and the guard reports them.
    for (namespace, told) in [("kube-system", false), ("fabric-injector", true)] {
        let asked = pod(namespace, "annotated", &annotated_template());
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let reply = cluster.api.post(&path, &asked).await;
        let said = reply.warnings.iter().any(|warning| warning.contains("did not inject it"));
        assert!(!is_injected(&reply.body) && said == told, "{reply:?}");
        reply.ok();
    }
}
