//! Objects that pods name: absent at first, created later, deleted, and unknown without the right to read them.

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::node_watch::{all_know, take_binding};
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::workloads::{annotated_template, is_injected, job, pod};

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const ABSENT: &str = "fabric_injector_absent_objects{resource=\"resourceclaimtemplates\"}";

fn template(namespace: &str) -> Value {
    let devices =
        json!({"requests": [{"name": "nic", "exactly": {"deviceClassName": "efa.networking.k8s.aws"}}]});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "efa", "namespace": namespace}, "spec": {"spec": {"devices": devices}}})
}

/// What is said of objects that a pod names, which is injected in any case.
async fn said(cluster: &Cluster, namespace: &str, template: &Value) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let mut reply = cluster.api.post(&path, &pod(namespace, "tried", template)).await;
    let warnings = std::mem::take(&mut reply.warnings);
    let pod = reply.ok();
    assert!(is_injected(&pod), "{pod}");
    warnings.into_iter().filter(|warning| warning.contains("is not there yet")).collect()
}

pub(super) async fn what_a_pod_names_and_the_cluster_lacks_is_told_until_it_is_there(cluster: &Cluster) {
    let mut values = values();
    values["multinodeNetworking"]["aws"]["efaAttachment"] = json!("claim");
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("named-objects").await;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "efa.networking.k8s.aws"}, "spec": {}});
    cluster.api.post(CLASSES, &class).await.ok();
    let said = async || said(cluster, &namespace, &annotated_template()).await;
    let is_told = async || said().await.iter().any(|text| text.contains("`kubectl apply -f - <<< '{"));
    eventually("the absent template is told with its manifest", is_told).await;

    // A Job and its template, created at once in both orders: whatever its pods were told, nobody hears of it later.
    let (events, both) = (
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
        cluster.namespace("both-at-once").await,
    );
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{both}/resourceclaimtemplates/efa");
    for at in 0..20 {
        let (job, template) = (job(&both, &format!("both-{at}"), 1, &annotated_template()), template(&both));
        let ordered = if at % 2 == 0 { [&job, &template] } else { [&template, &job] };
        for object in ordered {
            cluster.api.create(object).await.ok();
        }
        sleep(Duration::from_secs(1)).await;
        if at < 19 {
            cluster.api.delete(&path).await.ok();
        }
    }
    // The template of this Job does not come.
    cluster.api.create(&job(&namespace, "alone", 2, &annotated_template())).await.ok();
    let ours = async |path: &str| {
        let mut found = cluster.api.list(path).await;
        found.retain(|event| event["reason"] == "NotThereYet");
        found
    };
    for _ in 0..9 {
        sleep(Duration::from_secs(15)).await;
    }
    eventually("the Job has an event", async || !ours(&events).await.is_empty()).await;
    let told = ours(&events).await;
    assert_eq!((told.len(), &told[0]["regarding"]["name"]), (1, &json!("alone")), "{told:?}");
    assert!(cluster.metric(ABSENT).await >= 1);
    let others = ours(&format!("/apis/events.k8s.io/v1/namespaces/{both}/events")).await;
    assert!(others.is_empty(), "{others:?}");

    // It comes, and goes.
    cluster.api.create(&template(&namespace)).await.ok();
    eventually("the template is known", async || said().await.is_empty()).await;
    eventually("the metric falls", async || cluster.metric(ABSENT).await == 0).await;
    let own = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates/efa");
    cluster.api.delete(&own).await.ok();
    eventually("the template is missed", async || !said().await.is_empty()).await;
    // The API of networks is absent, and the class of the templates is there: nothing is said of them.
    let mut with_network = annotated_template();
    with_network["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("ops/rail-0");
    let told = self::said(cluster, &namespace, &with_network).await;
    assert!(told.iter().all(|text| text.contains("ResourceClaimTemplate")), "{told:?}");
    // Without the right to read them, nothing is known.
    let binding = take_binding(cluster).await;
    eventually("nothing is said of what is not watched", async || said().await.is_empty()).await;
    cluster.api.create(&binding).await.ok();
    all_know(cluster).await;
    eventually("it is said again", async || !said().await.is_empty()).await;
    cluster.api.delete(&format!("{CLASSES}/efa.networking.k8s.aws")).await.ok();
    cluster.remove(&both).await;
    cluster.remove(&namespace).await;
}
