//! Helm's commands on the release.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::values;
use crate::cluster::Cluster;
use crate::discovery::objects;
use crate::eventually;
use crate::helm::RELEASE;
use crate::kubelet;
use crate::workloads::{annotated_template, efa_devices, pod};

pub(super) async fn its_test_passes(cluster: &Cluster) {
    // The policies of GKE have conditions on the machine.
    let mut gke = values();
    gke["multinodeNetworking"] = json!({"gcp": {"enabled": true}});
    for values in [gke, values()] {
        cluster.ensure(&values).await;
        tested(cluster).await;
    }
}

/// Runs `helm test`.
pub(super) async fn tested(cluster: &Cluster) {
    let (succeeded, said) = cluster.helm.run(&["test", RELEASE, "--timeout", "60s"]).await;
    assert!(succeeded, "{said}");
    assert!(said.contains("Phase:          Succeeded"), "{said}");
}

pub(super) async fn an_upgrade_with_the_same_values_changes_nothing(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let versions = async || {
        let mut versions = BTreeSet::new();
        for name in [
            "mutatingwebhookconfigurations/fabric-injector",
            "validatingwebhookconfigurations/fabric-injector",
            "validatingadmissionpolicies/fabric-injector-guard",
        ] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{name}");
            versions.insert(cluster.api.get(&path).await.ok()["metadata"]["resourceVersion"].to_string());
        }
        versions.extend(cluster.servers().await.iter().map(|pod| pod["metadata"]["uid"].to_string()));
        versions
    };
    let before = versions().await;
    cluster.helm.install(&values()).await;
    assert_eq!(versions().await, before);
}

pub(super) async fn another_field_manager_applies_the_release_without_a_conflict(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let (succeeded, manifest) = cluster.helm.run(&["get", "manifest", RELEASE]).await;
    assert!(succeeded, "{manifest}");
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), manifest).unwrap();
    let source = ["-f", file.path().to_str().unwrap()];
    for _ in 0..2 {
        cluster.applies_without_change("another", &source).await;
    }
    cluster.helm.install(&values()).await;
    cluster.applies_without_change("another", &source).await;
    cluster.forget().await;
    cluster.uninstall().await;
}

pub(super) async fn servers_report_registered_conditions_of_other_policies(cluster: &Cluster) {
    const WEBHOOK: &str =
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
    cluster.ensure(&values()).await;
    let report =
        "[!]conditions: the registered ones differ from those of the policies in use\n    `has-trigger`";
    let all_report = async |wanted: bool| {
        let mut replies = Vec::new();
        for server in cluster.servers().await {
            let address = server["status"]["podIP"].as_str().unwrap();
            replies.push(kubelet::get(address, 8080, "/readyz?verbose").await.unwrap().1);
        }
        assert!(replies.iter().all(|text| text.ends_with("\nready\n")), "{replies:?}");
        replies.len() == 2 && replies.iter().all(|text| text.contains(report) == wanted)
    };
    eventually("nothing is reported", async || all_report(false).await).await;
    let path = "/webhooks/0/matchConditions/0/expression";
    let before = cluster.api.get(WEBHOOK).await.ok().pointer(path).unwrap().clone();
    let change = |value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    cluster.api.patch(WEBHOOK, &change(json!("false"))).await.ok();
    eventually("both servers report it", async || all_report(true).await).await;
    cluster.api.patch(WEBHOOK, &change(before)).await.ok();
    eventually("nothing is reported again", async || all_report(false).await).await;
    cluster.forget().await;
}

pub(super) async fn a_rollback_gives_pods_what_they_got_before(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let asked = pod("default", "asked", &annotated_template());
    let devices = async || {
        let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await.ok();
        efa_devices(&reply).to_owned()
    };
    let before = devices().await;
    let mut other = values();
    other["multinodeNetworking"]["aws"]["efaDevicesPerGPU"] = json!(1);
    cluster.ensure(&other).await;
    assert_ne!(devices().await, before);
    let (succeeded, said) = cluster.helm.run(&["rollback", RELEASE, "--wait", "--timeout", "90s"]).await;
    assert!(succeeded, "{said}");
    cluster.forget().await;
    eventually("pods get what they got before", async || devices().await == before).await;
}

pub(super) async fn uninstalled_it_leaves_nothing(cluster: &Cluster) {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fabric-injector-test";
    cluster.ensure(&values()).await;
    // An interrupted test leaves its roles, and the pod if there was time to make it.
    let has_begun = async || cluster.api.get(ROLE).await.status == 200;
    cluster.helm.interrupt(&["test", RELEASE], has_begun).await;
    assert_eq!(cluster.api.get(ROLE).await.status, 200);
    cluster.uninstall().await;
    cluster.api.delete("/api/v1/namespaces/fabric-injector/pods/fabric-injector-test").await;
    assert_nothing_is_left(cluster).await;
}

/// Asserts that there is nothing but what there was before anything was installed.
pub(super) async fn assert_nothing_is_left(cluster: &Cluster) {
    // What the release owned goes a moment after it.
    let end = Instant::now() + Duration::from_secs(20);
    let mut left = BTreeSet::new();
    eventually("nothing is left of the release", async || {
        let now = objects(&cluster.api, &cluster.namespaces()).await;
        left = now.difference(&cluster.before).cloned().collect();
        left.is_empty() || Instant::now() > end
    })
    .await;
    assert!(left.is_empty(), "{left:?}");
}
