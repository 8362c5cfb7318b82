//! `diagnose` by the kubeconfig: pods that the control plane made, and logs that a kubelet serves.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::controllers::bound;
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::processes::outcome;
use crate::workloads::{annotated_template, job, template};

/// What a rank writes that uses a network; one rank on each of two nodes.
fn log(host: &str, rank: usize, network: &str, provider: &str) -> String {
    let line = |text: &str| format!("{host}:1:1 [0] NCCL INFO {text}\n");
    [
        "NCCL version 2.27.7+cuda12.9".to_owned(),
        "Bootstrap: Using eth0:10.0.0.1<0>".to_owned(),
        provider.to_owned(),
        format!("Using network {network}"),
        format!("comm 0x5 rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"),
        format!("Channel 00/0 : {rank}[0] -> {}[0] [send] via NET/{network}/0", 1 - rank),
        format!("ncclCommInitRank comm 0x5 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0x7 - Init COMPLETE"),
    ]
    .iter()
    .map(|text| line(text))
    .collect()
}

const EFA: &str = "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)";

async fn diagnose(cluster: &Cluster, namespace: &str, arguments: &[&str]) -> Value {
    let all = [&["diagnose", "-o", "json", "--namespace", namespace], arguments].concat();
    let (passed, said) = outcome(&mut cluster.program(&all)).await;
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(passed, report["verdict"] == "fabric", "{said}");
    report
}

/// The pods of a job, once the API server says that they run.
async fn running(cluster: &Cluster, namespace: &str, count: usize) -> Vec<String> {
    eventually("the pods run", async || {
        let pods = bound(cluster, namespace, count).await;
        pods.iter().all(|pod| pod["status"]["phase"] == "Running")
    })
    .await;
    let pods = bound(cluster, namespace, count).await;
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn the_logs_of_a_job_say_which_network_it_uses(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("diagnosed").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = running(cluster, &namespace, 2).await;
    for (rank, pod) in pods.iter().enumerate() {
        cluster.kubelet.write_log(pod, &log(pod, rank, "Libfabric", EFA));
    }
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    let job = &report["jobs"][0];
    assert_eq!(
        (&report["verdict"], &job["size"], &job["nodes"]),
        (&json!("fabric"), &json!(2), &json!(2)),
        "{report:#}"
    );
    assert!(job["policies"][0].as_str().unwrap().starts_with("aws-efa@"), "{report:#}");
    // The logs go on, and the verdict is there.
    let begun = Instant::now();
    let report = diagnose(cluster, &namespace, &["--selector", "job-name=train", "--follow"]).await;
    assert_eq!(report["verdict"], "fabric");
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    let report = diagnose(cluster, &namespace, &["--pod", &pods[0], "--pod", &pods[1]]).await;
    assert_eq!(report["verdict"], "fabric");
    // One of them has no EFA.
    let without = log(&pods[1], 1, "Socket", "NET/OFI aws-ofi-nccl initialization failed");
    cluster.kubelet.write_log(&pods[1], &without);
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    assert_eq!(
        (&report["verdict"], &report["cause"]["code"]),
        (&json!("mixed"), &json!("no_efa")),
        "{report:#}"
    );
    // What `nccl-test` prints is what the API server accepts.
    let (passed, printed) = outcome(&mut cluster.program(&["nccl-test", "--namespace", &namespace])).await;
    assert!(passed, "{printed}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.yaml");
    std::fs::write(&path, printed).unwrap();
    let arguments = ["apply", "--dry-run=server", "-f", path.to_str().unwrap()];
    let (passed, said) = outcome(&mut cluster.kubectl(&arguments)).await;
    assert!(passed && said.contains("job.batch/nccl-test created"), "{said}");
    let (passed, said) =
        outcome(&mut cluster.program(&["diagnose", "--namespace", &namespace, "--job", "other"])).await;
    assert!(!passed && said.contains("there are no pods of a job `other`"), "{said}");
    cluster.remove(&namespace).await;
}

pub(super) async fn what_the_pods_say_explains_their_logs(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("explained").await;
    cluster.api.create(&job(&namespace, "plain", 2, &template(false, "p5.48xlarge"))).await.ok();
    let pods = running(cluster, &namespace, 2).await;
    for (rank, pod) in pods.iter().enumerate() {
        cluster.kubelet.write_log(pod, &log(pod, rank, "Socket", "NET/IB : No device found."));
    }
    let report = diagnose(cluster, &namespace, &["--job", "plain"]).await;
    assert_eq!(
        (&report["verdict"], &report["cause"]["code"]),
        (&json!("tcp"), &json!("pod_not_injected")),
        "{report:#}"
    );
    // Without NCCL's lines, it cannot be said.
    for pod in &pods {
        cluster.kubelet.write_log(pod, "step 1 | loss 2.0\n");
    }
    let report = diagnose(cluster, &namespace, &["--job", "plain"]).await;
    assert_eq!(
        (&report["verdict"], &report["cause"]["code"]),
        (&json!("unknown"), &json!("no_lines")),
        "{report:#}"
    );
    // The devices are taken.
    let mut greedy = template(false, "p5.48xlarge");
    greedy["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(64);
    cluster.api.create(&job(&namespace, "greedy", 1, &greedy)).await.ok();
    eventually("the pod is pending", async || {
        let report = diagnose(cluster, &namespace, &["--job", "greedy"]).await;
        (&report["verdict"], &report["cause"]["code"]) == (&json!("unknown"), &json!("devices_unavailable"))
    })
    .await;
    cluster.remove(&namespace).await;
}
