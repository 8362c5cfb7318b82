//! The other ways to an installation: without Helm, and with a certificate that the operator brings.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fabric_injector::authority::Authority;
use serde_json::json;
use tokio::process::Command;

use super::broken_policies::{issue, make_secret};
use super::{release, values};
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::kubelet::image::REPOSITORY;
use crate::processes::outcome;
use crate::workloads::{annotated_template, is_injected, pod};

const SECRETS: &str = "/api/v1/namespaces/fabric-injector/secrets";
const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";

/// Installs what `kubectl` is given, sees a pod injected, and removes it again.
async fn comes_and_goes(cluster: &Cluster, source: &[&str]) {
    if cluster.is_installed().await {
        cluster.uninstall().await;
    }
    // By the API server, as larger objects have to be; and it tells of fields that it does not know.
    let arguments = [&["apply", "--server-side", "--validate=strict"], source].concat();
    let (succeeded, said) = outcome(&mut cluster.kubectl(&arguments)).await;
    assert!(succeeded, "{said}");
    assert!(!said.contains("Warning"), "{said}");
    eventually("the servers are ready", async || {
        cluster.api.get(DEPLOYMENT).await.ok()["status"]["readyReplicas"] == 2
    })
    .await;
    cluster.serves().await;
    // Servers have written what they write.
    for manager in ["kubectl", "another"] {
        cluster.applies_without_change(manager, source).await;
    }
    let (succeeded, said) = outcome(&mut cluster.kubectl(&[&["delete"], source].concat())).await;
    assert!(succeeded, "{said}");
    release::assert_nothing_is_left(cluster).await;
    cluster.make_release_namespace().await;
}

/// The default, as the chart has it.
pub(super) async fn kubectl_applies_what_manifests_prints(cluster: &Cluster) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    let (succeeded, printed) = outcome(command.args(["manifests", "--image", &image()])).await;
    assert!(succeeded, "{printed}");
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), printed).unwrap();
    comes_and_goes(cluster, &["-f", file.path().to_str().unwrap()]).await;
}

/// The text of the example in docs/install.md that begins with this comment.
fn documented(comment: &str) -> &'static str {
    let page = include_str!("../../../docs/install.md");
    let (_, example) = page.split_once(&format!("```yaml\n{comment}\n")).unwrap();
    example.split_once("```").unwrap().0
}

pub(super) async fn kubectl_applies_the_documented_overlay(cluster: &Cluster) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = documented("# kustomization.yaml of an overlay");
    let example = example.replace("registry.example.com/fabric-injector", REPOSITORY);
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("deploy/manifests");
    fs::create_dir_all(&base).unwrap();
    for file in ["kustomization.yaml", "fabric-injector.yaml"] {
        fs::copy(root.join("deploy/manifests").join(file), base.join(file)).unwrap();
    }
    fs::write(folder.path().join("kustomization.yaml"), example).unwrap();
    comes_and_goes(cluster, &["-k", folder.path().to_str().unwrap()]).await;
}

fn image() -> String {
    format!("{REPOSITORY}:{}", env!("CARGO_PKG_VERSION"))
}

pub(super) async fn kubectl_applies_a_kustomization_of_another_cloud(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    let command = command.args(["manifests", "--policy", "oci-sriov", "--image", &image()]);
    let (succeeded, printed) = outcome(command).await;
    assert!(succeeded, "{printed}");
    fs::write(folder.path().join("fabric-injector.yaml"), printed).unwrap();
    fs::write(folder.path().join("kustomization.yaml"), documented("# kustomization.yaml")).unwrap();
    comes_and_goes(cluster, &["-k", folder.path().to_str().unwrap()]).await;
}

pub(super) async fn a_certificate_of_the_operator_is_served_and_replaced(cluster: &Cluster) {
    // From certificates of the servers' own, which those that are there still must not put back.
    cluster.ensure(&values()).await;
    let authority = Authority::new(SystemTime::now()).unwrap();
    make_secret(cluster, "brought", &authority).await;
    let mut values = values();
    values["tls"] = json!({"secretName": "brought", "caBundle": authority.cert});
    values["nodes"] = json!({"watch": false});
    values["events"] = json!({"enabled": false});
    cluster.ensure(&values).await;
    let configuration = cluster.api.get(WEBHOOK).await.ok();
    let bundle = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
    assert_eq!(*bundle, BASE64_STANDARD.encode(&authority.cert));
    for server in cluster.servers().await {
        let volumes = server["spec"]["volumes"].as_array().unwrap();
        assert!(!volumes.iter().any(|volume| volume["projected"].is_object()), "it needs no token: {server}");
    }

    let reloads = "fabric_injector_reloads_total{what=\"certificate\",result=\"success\"}";
    let before = cluster.metric(reloads).await;
    let brought = format!("{SECRETS}/brought");
    cluster.api.merge(&brought, &json!({"data": issue(&authority)})).await.ok();
    eventually("all servers have the new certificate", async || {
        let asked = pod("default", "asked", &annotated_template());
        let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
        assert!(is_injected(&reply.body), "{reply:?}");
        cluster.metric(reloads).await == before + 2
    })
    .await;
    cluster.uninstall().await;
    cluster.api.delete(&brought).await.ok();
}
