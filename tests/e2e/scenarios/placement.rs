//! Where the scheduler puts servers, and what it takes away for them: nothing.

use serde_json::{Value, json};

use super::certificates::Clients;
use super::values;
use crate::cluster::{Cluster, SERVERS};
use crate::helm::{RELEASE, copy_chart};
use crate::workloads::{annotated_template, job, plain_template, pod};
use crate::{eventually, nodes};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// The class of the chart, and the one that its predecessor had.
const NOW: &str = "fabric-injector-nonpreempting-1000000";
const BEFORE: &str = "fabric-injector-1000000";
/// The label of the only node that a scenario uses.
const FULL: (&str, &str) = ("lab.example/full", "true");
/// The label of one node without GPUs and two with them.
const FEW: &str = "lab.example/few";

pub(super) async fn servers_run_on_nodes_without_gpus_if_there_are_any(cluster: &Cluster) {
    // From anew, so that the scheduler chooses; by their load, it would choose others.
    cluster.uninstall().await;
    let namespace = cluster.namespace("busy").await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    for node in ["plain-0", "plain-1"] {
        let mut busy = pod(&namespace, &format!("on-{node}"), &plain_template());
        busy["spec"]["nodeName"] = json!(node);
        busy["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "150", "memory": "1000Gi"}});
        cluster.api.post(&pods, &busy).await.ok();
    }
    label_gpu_nodes(cluster, true).await;
    let mut values = values();
    // An upgrade finds the nodes without GPUs taken by those that it replaces.
    for log in ["debug", "info"] {
        values["server"]["log"] = json!(log);
        cluster.ensure(&values).await;
        assert_eq!(places(cluster).await, ["plain-0", "plain-1"], "{log}");
    }
    // The second one runs on another node rather than next to the first.
    for node in ["plain-0", "p4d-0", "p4d-1"] {
        label(cluster, node, FEW, Some("true")).await;
    }
    values["nodeSelector"] = json!({FEW: "true"});
    cluster.ensure(&values).await;
    let found = places(cluster).await;
    assert!(found[0].starts_with("p4d-") && found[1] == "plain-0", "{found:?}");
    // A cluster that has nothing else runs them, too.
    values["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "p4d.24xlarge"});
    cluster.ensure(&values).await;
    assert_eq!(places(cluster).await, ["p4d-0", "p4d-1"]);
    label_gpu_nodes(cluster, false).await;
    for node in ["plain-0", "p4d-0", "p4d-1"] {
        label(cluster, node, FEW, None).await;
    }
    cluster.remove(&namespace).await;
}

/// The nodes of the servers.
async fn places(cluster: &Cluster) -> Vec<String> {
    let servers = cluster.servers().await.into_iter();
    let mut places: Vec<String> =
        servers.map(|server| server["spec"]["nodeName"].as_str().unwrap().to_owned()).collect();
    places.sort_unstable();
    places
}

/// Labels the nodes of AKS and GKE as those clouds do, or takes the labels away. The others have their machine type alone.
async fn label_gpu_nodes(cluster: &Cluster, labelled: bool) {
    for (prefix, key, value) in [
        ("nd-h100", "kubernetes.azure.com/accelerator", "nvidia"),
        ("a3-mega", "cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb"),
    ] {
        for number in 0..2 {
            label(cluster, &format!("{prefix}-{number}"), key, labelled.then_some(value)).await;
        }
    }
}

/// Sets a label of a node, or removes it.
async fn label(cluster: &Cluster, node: &str, key: &str, value: Option<&str>) {
    let change = json!({"metadata": {"labels": {key: value}}});
    cluster.api.merge(&format!("/api/v1/nodes/{node}"), &change).await.ok();
}

/// The pods of a namespace that run, by their names.
async fn running(cluster: &Cluster, path: &str) -> Vec<String> {
    let pods = cluster.api.list(path).await.into_iter();
    let running = pods
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null());
    running.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// A Job whose pod leaves no place on the node.
fn filling(namespace: &str) -> Value {
    let mut template = plain_template();
    template["spec"]["nodeSelector"] = json!({FULL.0: FULL.1});
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "191990m"}});
    job(namespace, "training", 1, &template)
}

pub(super) async fn a_job_survives_an_installation_that_finds_no_place(cluster: &Cluster) {
    cluster.uninstall().await;
    let namespace = cluster.namespace("full").await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    nodes::add(&cluster.api, "full-0", FULL, &[]).await;
    nodes::heartbeat(&cluster.api).await;
    cluster.api.create(&filling(&namespace)).await.ok();
    eventually("the Job runs", async || running(cluster, &pods).await.len() == 1).await;
    let before = running(cluster, &pods).await;

    let mut values = values();
    values["nodeSelector"] = json!({FULL.0: FULL.1});
    let install = ["upgrade", "--install", RELEASE];
    let (succeeded, said) = cluster.helm.run_with(&install, &values).await;
    assert!(succeeded, "{said}");
    eventually("the scheduler has tried to place both servers", async || {
        let servers = cluster.api.list(SERVERS).await;
        let says =
            |pod: &Value| pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        servers.len() == 2 && servers.iter().all(|pod| says(pod).contains("Insufficient cpu"))
    })
    .await;
    assert_eq!(running(cluster, &pods).await, before, "the Job survives");
    let server = cluster.api.list(SERVERS).await.remove(0);
    assert_eq!(
        (&server["spec"]["preemptionPolicy"], &server["spec"]["priority"]),
        (&json!("Never"), &json!(1_000_000))
    );
    assert!(server["status"]["nominatedNodeName"].is_null(), "{server}");
    // What the page on installing says of a full cluster.
    let asked = pod(&namespace, "asked", &annotated_template());
    eventually("annotated pods are refused", async || {
        let reply = cluster.api.post(&format!("{pods}?dryRun=All"), &asked).await;
        reply.status == 500 && reply.message().contains("no endpoints available")
    })
    .await;

    // The way out: a class that preempts.
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "preempting"}, "value": 5,
    });
    cluster.api.post(CLASSES, &class).await.ok();
    values["priorityClassName"] = json!("preempting");
    cluster.helm.install(&values).await;
    assert!(running(cluster, &pods).await.is_empty(), "the class preempts");
    assert_eq!(cluster.api.get(&format!("{CLASSES}/{NOW}")).await.status, 404);

    cluster.uninstall().await;
    cluster.api.delete(&format!("{CLASSES}/preempting")).await.ok();
    cluster.remove(&namespace).await;
    cluster.api.delete("/api/v1/nodes/full-0").await.ok();
}

pub(super) async fn an_upgrade_from_a_class_that_preempts_injects_every_pod(cluster: &Cluster) {
    // The chart as it was when its class preempted.
    let folder = tempfile::tempdir().unwrap();
    let replaced =
        [("_names.tpl", "-nonpreempting-", "-"), ("priorityclass.yaml", "preemptionPolicy: Never\n", "")];
    copy_chart(folder.path(), &replaced);
    cluster.forget().await;
    cluster.helm.install_from(folder.path(), &values()).await;
    cluster.serves().await;
    let classes = async || {
        let mut found = Vec::new();
        for class in [BEFORE, NOW] {
            found.push(cluster.api.get(&format!("{CLASSES}/{class}")).await.status);
        }
        let mut of_servers: Vec<Value> = Vec::new();
        for server in cluster.servers().await {
            of_servers.push(server["spec"]["preemptionPolicy"].clone());
        }
        of_servers.dedup();
        (found, of_servers)
    };
    assert_eq!(classes().await, (vec![200, 404], vec![json!("PreemptLowerPriority")]));
    // The field cannot be changed, so that the class needs another name.
    let change = json!({"preemptionPolicy": "Never"});
    let reply = cluster.api.merge(&format!("{CLASSES}/{BEFORE}"), &change).await;
    assert!(reply.status == 422 && reply.message().contains("immutable"), "{reply:?}");

    let clients = Clients::start(&cluster.api);
    cluster.ensure(&values()).await;
    assert_eq!(classes().await, (vec![404, 200], vec![json!("Never")]));
    let (succeeded, said) = cluster.helm.run(&["rollback", RELEASE, "--wait", "--timeout", "90s"]).await;
    assert!(succeeded, "{said}");
    cluster.forget().await;
    assert_eq!(classes().await, (vec![200, 404], vec![json!("PreemptLowerPriority")]));
    cluster.ensure(&values()).await;
    clients.stop().await.assert_injected_except(&[]);
}
