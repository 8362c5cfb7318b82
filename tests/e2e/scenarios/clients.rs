//! What whoever makes a pod is told.

use std::fs;

use fabric_engine::STAMP;
use serde_json::Value;

use super::values;
use crate::cluster::Cluster;
use crate::kubelet;
use crate::processes::outcome;
use crate::workloads::{annotated_template, is_injected, plain_template, pod, template};

/// A machine that no policy knows, of which a pod gets a guess and a warning.
const UNKNOWN: &str = "p99.metal";

pub(super) async fn warnings_reach_whoever_makes_the_pod(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let asked = pod("default", "guessed", &template(true, UNKNOWN));
    let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
    assert!(is_injected(&reply.body), "{reply:?}");
    assert!(reply.warnings.iter().any(|warning| warning.contains("efaDevicesPerGPU")), "{reply:?}");

    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), asked.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let (succeeded, said) = outcome(&mut cluster.kubectl(&["create", "--dry-run=server", "-f", path])).await;
    assert!(succeeded && said.contains("Warning: ") && said.contains("efaDevicesPerGPU"), "{said}");
}

pub(super) async fn pods_that_are_injected_as_they_should_be_come_with_what_was_added_alone(
    cluster: &Cluster,
) {
    cluster.ensure(&values()).await;
    for (template, count) in [(annotated_template(), 2), (plain_template(), 0)] {
        let asked = pod("default", "quiet", &template);
        let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
        assert_eq!(reply.warnings.len(), count, "{reply:?}");
        assert!(reply.warnings.iter().all(|warning| warning.starts_with("fabric-injector: added to ")));
        reply.ok();
    }
}

pub(super) async fn the_pods_of_a_policy_are_found_by_its_digest(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("digests").await;
    let server = cluster.servers().await.remove(0);
    let (_, shown) =
        kubelet::get(server["status"]["podIP"].as_str().unwrap(), 8080, "/policies").await.unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let stamp = format!("aws-efa@{}", shown["policies"][0]["digest"].as_str().unwrap());
    for (name, instance_type) in [("p5", "p5.48xlarge"), ("p4d", "p4d.24xlarge")] {
        let asked = pod(&namespace, name, &template(true, instance_type));
        assert_eq!(cluster.api.create(&asked).await.ok()["metadata"]["annotations"][STAMP], stamp);
    }
    // As docs/install.md shows it.
    let columns = "custom-columns=NAMESPACE:.metadata.namespace,POD:.metadata.name,POLICY:.metadata.annotations.fabric-injector\\.io/injected";
    let arguments = ["get", "pods", "--all-namespaces", "--output", columns];
    let (succeeded, said) = outcome(&mut cluster.kubectl(&arguments)).await;
    let found = said.lines().filter(|line| line.starts_with("digests") && line.ends_with(&stamp)).count();
    assert!(succeeded && found == 2, "{said}");
    cluster.remove(&namespace).await;
}
