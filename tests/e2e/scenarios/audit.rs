//! Audit mode.

use serde_json::{Value, json};

use super::outages::scale;
use super::release::tested;
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::processes::outcome;
use crate::workloads::{annotated_template, is_injected, pod};

const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";

/// A pod that has nothing random in it but what every new object has.
fn asked() -> Value {
    let mut asked = pod("default", "audited", &annotated_template());
    asked["spec"]["automountServiceAccountToken"] = json!(false);
    asked
}

/// The pod without what every new object has of its own.
fn text(mut pod: Value) -> String {
    let metadata = pod["metadata"].as_object_mut().unwrap();
    for key in ["uid", "creationTimestamp", "managedFields"] {
        assert!(metadata.remove(key).is_some(), "{key}");
    }
    pod.to_string()
}

pub(super) async fn pods_are_as_without_the_webhook_and_the_reports_as_with_it(cluster: &Cluster) {
    // The guard of the usual mode goes with the upgrade.
    cluster.ensure(&values()).await;
    let mut values = values();
    values["webhook"] = json!({"mode": "audit"});
    cluster.ensure(&values).await;
    eventually("there is no guard any more", async || {
        let reply = cluster.api.post(PODS, &asked()).await;
        !reply.warnings.iter().any(|warning| warning.contains("did not inject it"))
    })
    .await;
    let series =
        "fabric_injector_reviews_total{policy=\"aws-efa\",outcome=\"mutated\",reason=\"\",mode=\"audit\"}";
    let before = cluster.metric(series).await;
    let audited = cluster.api.post(PODS, &asked()).await;
    let begin = "fabric-injector: audit mode, the pod is unchanged: it would be injected by aws-efa@";
    assert!(audited.warnings[0].starts_with(begin), "{audited:?}");
    assert!(audited.warnings[1].starts_with("fabric-injector: would add to "), "{audited:?}");
    let audited = audited.ok();
    assert!(!is_injected(&audited));
    // A dry run is not counted.
    assert_eq!(cluster.metric(series).await, before);
    let made = PODS.trim_end_matches("?dryRun=All");
    cluster.api.post(made, &asked()).await.ok();
    assert_eq!(cluster.metric(series).await, before + 1);
    cluster.api.delete_with(&format!("{made}/audited"), &json!({"gracePeriodSeconds": 0})).await.ok();

    let (succeeded, said) = outcome(&mut cluster.program(&["check"])).await;
    assert!(!succeeded && said.contains("remedy: use `--audit` to check what it would do"), "{said}");
    let (succeeded, said) = outcome(&mut cluster.program(&["check", "--audit"])).await;
    assert!(succeeded && said.contains("would be injected by aws-efa@"), "{said}");
    tested(cluster).await;

    // Neither a missing server nor a missing webhook makes a difference to the pod.
    scale(cluster, 0).await;
    let without_servers = cluster.api.post(PODS, &asked()).await;
    assert!(without_servers.warnings.is_empty(), "{without_servers:?}");
    cluster.api.delete(WEBHOOK).await.ok();
    cluster.forget().await;
    let without_webhook = cluster.api.post(PODS, &asked()).await;
    assert!(without_webhook.warnings.is_empty(), "{without_webhook:?}");
    let without_webhook = text(without_webhook.ok());
    assert_eq!(text(audited), without_webhook);
    assert_eq!(text(without_servers.ok()), without_webhook);
}
