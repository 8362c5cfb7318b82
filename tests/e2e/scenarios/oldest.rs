//! The oldest release of Kubernetes that the chart takes.

use fabric_yaml as yaml;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::control_plane::Beside;
use crate::eventually;
use crate::helm::chart;
use crate::processes::{Process, outcome};
use crate::workloads::{annotated_template, is_injected, plain_template, pod};

/// Where the server is. Every address of this range is the machine itself.
const SERVER: &str = "198.18.0.2";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The release is the one that the chart names.
async fn assert_version(api: &Beside) {
    let text = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    let oldest = yaml::read_value(&text).unwrap().root.unwrap()["kubeVersion"].as_str().unwrap().to_owned();
    let version = api.api.get("/version").await.ok();
    let minor = format!(">={}.{}.", version["major"].as_str().unwrap(), version["minor"].as_str().unwrap());
    assert!(oldest.starts_with(&minor), "{oldest} {version}");
}

/// No controller finds the server for the Service, and no kubelet starts it.
async fn serve(oldest: &Beside, logs: &std::path::Path) -> Process {
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "fabric-injector", "namespace": "fabric-injector"},
        "subsets": [{
            "addresses": [{"ip": SERVER}],
            "ports": [{"name": "https", "port": 8443}, {"name": "admin", "port": 8080}],
        }],
    });
    let path = "/api/v1/namespaces/fabric-injector/endpoints";
    oldest.api.post(path, &endpoints).await.ok();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().env("KUBECONFIG", &oldest.kubeconfig).args(["serve", "--watch-nodes"]);
    command.args(["--manage-webhook", "fabric-injector", "--manage-secret", "fabric-injector-tls"]);
    command.arg("--listen").arg(format!("{SERVER}:8443")).arg("--admin-listen").arg(format!("{SERVER}:8080"));
    Process::start(&mut command, logs)
}

fn guarded(warnings: &[String]) -> bool {
    warnings.iter().any(|warning| warning.contains("did not inject it"))
}

pub(super) async fn the_oldest_release_takes_the_manifests_and_injects(cluster: &Cluster) {
    let oldest = cluster.start_oldest().await;
    assert_version(&oldest).await;
    // It drops claims, which are an alpha feature there.
    super::bounds::are_those_of(&oldest.api, |path| !path.starts_with("spec.resourceClaims")).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = oldest.kubeconfig.to_str().unwrap();
    let kustomization = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/manifests");
    // Of an option that is given twice, the second one counts.
    let arguments =
        ["--kubeconfig", kubeconfig, "apply", "--server-side", "--validate=strict", "-k", kustomization];
    let (succeeded, said) = outcome(&mut cluster.kubectl(&arguments)).await;
    assert!(succeeded && !said.contains("Warning"), "{said}");

    // Without a server, a plain pod starts, and an annotated one does not.
    let plain = pod("default", "plain", &plain_template());
    let asked = pod("default", "annotated", &annotated_template());
    oldest.api.post(PODS, &plain).await.ok();
    let reply = oldest.api.post(PODS, &asked).await;
    assert!(reply.status == 500 && reply.message().contains("failed calling webhook"), "{reply:?}");

    let server = serve(&oldest, &folder.path().join("server.log")).await;
    eventually("an annotated pod is injected", async || {
        let reply = oldest.api.post(&format!("{PODS}?dryRun=All"), &asked).await;
        reply.status == 201 && is_injected(&reply.body) && !guarded(&reply.warnings)
    })
    .await;
    let injected: Value = oldest.api.post(PODS, &asked).await.ok();
    let limits = &injected["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits["vpc.amazonaws.com/efa"], "32", "{injected}");

    // Without a webhook, the guard warns.
    drop(server);
    let webhook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
    oldest.api.delete(webhook).await.ok();
    eventually("the guard warns", async || {
        let other = pod("default", "other", &annotated_template());
        let reply = oldest.api.post(&format!("{PODS}?dryRun=All"), &other).await;
        reply.status == 201 && guarded(&reply.warnings)
    })
    .await;
}
