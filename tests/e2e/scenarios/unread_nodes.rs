//! Servers that may not read nodes from their start, where the nodes choose the provider of a pod.

use serde_json::{Value, json};

use super::node_watch::{CLOUDS, NODES, all_know, policy_of, start, take_binding, tried};
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::workloads::{annotated_template, is_injected, job};
use crate::{eventually, kubelet, nodes};

/// Replaces the servers, as an upgrade does, and waits for the first new one; its address.
pub(super) async fn replace(cluster: &Cluster) -> String {
    let before: Vec<Value> =
        cluster.servers().await.iter().map(|server| server["metadata"]["name"].clone()).collect();
    let now = humantime::format_rfc3339_micros(std::time::SystemTime::now()).to_string();
    let template = json!({"metadata": {"annotations": {"replaced": now}}});
    cluster.api.merge(DEPLOYMENT, &json!({"spec": {"template": template}})).await.ok();
    let mut address = String::new();
    eventually("there is a new server", async || {
        let servers = cluster.servers().await;
        let new = servers.iter().find(|server| !before.contains(&server["metadata"]["name"]));
        let ip = new.and_then(|server| server["status"]["podIP"].as_str());
        ip.unwrap_or_default().clone_into(&mut address);
        !address.is_empty() && kubelet::get(&address, 8080, "/livez").await.is_ok()
    })
    .await;
    address
}

const UNREAD: &str = "nodes: none in use, the first list failed, and policies of several providers need them\n    nodes is \
                      forbidden: ";

pub(super) async fn an_upgrade_stops_at_the_old_servers_if_the_new_ones_may_not_read_nodes(
    cluster: &Cluster,
) {
    cluster.ensure(&json!({"server": {"log": "debug"}})).await;
    let aws = CLOUDS.iter().find(|pool| pool.policy == "aws-efa").unwrap();
    start(cluster, "old-0", aws, Some(aws.offered)).await;
    nodes::heartbeat(&cluster.api).await;
    all_know(cluster).await;
    let injected = async || policy_of(&tried(cluster, json!({"pool": aws.name})).await.0) == "aws-efa";
    eventually("the nodes choose", injected).await;
    let binding = take_binding(cluster).await;
    let new = replace(cluster).await;
    eventually("the new server says what it lacks", async || {
        let reply = kubelet::get(&new, 8080, "/readyz").await.unwrap_or_default();
        reply.0 == 503 && reply.1.contains(&format!("[-]{UNREAD}"))
    })
    .await;
    // The old ones serve, by what they knew.
    for _ in 0..10 {
        assert!(injected().await);
    }
    let deployment = cluster.api.get(DEPLOYMENT).await.ok();
    assert_eq!(deployment["status"]["readyReplicas"], 2, "{deployment}");
    cluster.api.create(&binding).await.ok();
    eventually("the servers are replaced", async || {
        let status = cluster.api.get(DEPLOYMENT).await.ok()["status"].clone();
        status["updatedReplicas"] == 2 && status["readyReplicas"] == 2 && status["replicas"] == 2
    })
    .await;
    all_know(cluster).await;
    cluster.forget().await;
    cluster.api.delete(&format!("{NODES}/old-0")).await.ok();
}

pub(super) async fn pods_that_no_node_decides_are_let_through_with_an_event_where_failures_are_ignored(
    cluster: &Cluster,
) {
    let ignoring = json!({"server": {"log": "debug"}, "webhook": {"failurePolicy": "Ignore"}, "events": {"enabled": true}});
    cluster.ensure(&ignoring).await;
    let binding = take_binding(cluster).await;
    replace(cluster).await;
    eventually("all servers are new, ready, and say what they lack", async || {
        let servers = cluster.servers().await;
        let mut told = 0;
        for server in &servers {
            let address = server["status"]["podIP"].as_str().unwrap_or_default();
            let (status, text) = kubelet::get(address, 8080, "/readyz?verbose").await.unwrap_or_default();
            told += usize::from(status == 200 && text.contains(&format!("[!]{UNREAD}")));
        }
        told == 2 && servers.len() == 2
    })
    .await;
    let namespace = cluster.namespace("undecided").await;
    // An instance type would tell the provider.
    let mut template = annotated_template();
    template["spec"]["nodeSelector"] = Value::Null;
    cluster.api.create(&job(&namespace, "train", 3, &template)).await.ok();
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let told = async || {
        let mut events = cluster.api.list(&events).await;
        events.retain(|event| event["reason"] == "NodesUnknown");
        events
    };
    eventually("the Job has an event", async || !told().await.is_empty()).await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    eventually("the pods are there", async || cluster.api.list(&pods).await.len() == 3).await;
    assert!(cluster.api.list(&pods).await.iter().all(|pod| !is_injected(pod)));
    let told = told().await;
    let note = told[0]["note"].as_str().unwrap();
    assert!(
        note.starts_with("NOT injected, the pod has no fast network: the nodes of the cluster are not known"),
        "{note}"
    );
    assert!(told.len() == 1 && told[0]["regarding"]["name"] == "train", "{told:?}");
    let failed = "fabric_injector_reviews_total{policy=\"\",outcome=\"failed\",reason=\"nodes_unknown\"";
    assert!(cluster.metric(failed).await >= 3);
    cluster.remove(&namespace).await;
    cluster.api.create(&binding).await.ok();
    all_know(cluster).await;
    cluster.forget().await;
}
