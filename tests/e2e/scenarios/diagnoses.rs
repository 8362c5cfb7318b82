//! `diagnose` by the kubeconfig: pods that the control plane made, and logs that a kubelet serves.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fabric_engine::{SKIPPED, STAMP};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::controllers::bound;
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::nodes;
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
    diagnose_with_messages(cluster, namespace, arguments).await.0
}

/// The report, and what is on standard error.
async fn diagnose_with_messages(cluster: &Cluster, namespace: &str, arguments: &[&str]) -> (Value, String) {
    let all = [&["diagnose", "-o", "json", "--namespace", namespace], arguments].concat();
    let ended = cluster.program(&all).kill_on_drop(true).output().await.unwrap();
    crate::step();
    let messages = String::from_utf8(ended.stderr).unwrap();
    let report: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    assert_eq!(ended.status.success(), report["verdict"] == "fabric", "{report:#} {messages}");
    (report, messages)
}

/// The verdict, and the code of the cause.
fn found(report: &Value) -> (&str, &str) {
    (report["verdict"].as_str().unwrap(), report["cause"]["code"].as_str().unwrap_or_default())
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
    // Without NCCL's lines, the verdict is open, and the cause that of the pods.
    for pod in &pods {
        cluster.kubelet.write_log(pod, "step 1 | loss 2.0\n");
    }
    let report = diagnose(cluster, &namespace, &["--job", "plain"]).await;
    assert_eq!(
        (&report["verdict"], &report["cause"]["code"]),
        (&json!("unknown"), &json!("pod_not_injected")),
        "{report:#}"
    );
    hints_have_lines_of_their_own(cluster, &namespace).await;
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

/// A user who may read the pods and their logs is told of each other right that is missing.
async fn hints_have_lines_of_their_own(cluster: &Cluster, namespace: &str) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]);
    let version = format!("{group}/v1");
    let metadata = json!({"namespace": namespace, "name": "reader"});
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]});
    for object in [role, binding] {
        cluster.api.create(&object).await.ok();
    }
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), cluster.service_account_kubeconfig(namespace, "default").await)
        .unwrap();
    let mut command = cluster.program(&["diagnose", "--namespace", namespace, "--job", "plain"]);
    let ended = command.env("KUBECONFIG", kubeconfig.path()).output().await.unwrap();
    let messages = String::from_utf8(ended.stderr).unwrap();
    assert!(messages.contains("\nhint: grant ") && !messages.contains("\\n"), "{messages}");
}

/// A container with EFA adapters that a process has open, whose counters a task moves on.
fn with_counters(root: &Path, bytes: u64) -> tokio::task::JoinHandle<()> {
    let counters: Vec<PathBuf> = (0..2)
        .map(|number| {
            let verbs = root.join(format!("sys/class/infiniband_verbs/uverbs{number}"));
            let adapter = root.join(format!("sys/class/infiniband/rdmap{number}s0"));
            let port = adapter.join("ports/1");
            for folder in
                [&verbs, &port.join("hw_counters"), &adapter.join("device"), &root.join("proc/7/fd")]
            {
                std::fs::create_dir_all(folder).unwrap();
            }
            std::fs::write(verbs.join("ibdev"), format!("rdmap{number}s0\n")).unwrap();
            std::fs::write(port.join("link_layer"), "Unspecified\n").unwrap();
            std::fs::write(port.join("hw_counters/rx_bytes"), "17\n").unwrap();
            symlink("../../bus/pci/drivers/efa", adapter.join("device/driver")).unwrap();
            symlink(format!("/dev/infiniband/uverbs{number}"), root.join(format!("proc/7/fd/{number}")))
                .unwrap();
            port.join("hw_counters/tx_bytes")
        })
        .collect();
    tokio::spawn(async move {
        for round in 0_u64.. {
            for counter in &counters {
                let new = counter.with_extension("new");
                std::fs::write(&new, format!("{}\n", round * bytes)).unwrap();
                std::fs::rename(&new, counter).unwrap();
            }
            sleep(Duration::from_millis(100)).await;
        }
    })
}

pub(super) async fn the_counters_of_adapters_prove_the_fabric_without_lines(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("counted").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = running(cluster, &namespace, 2).await;
    for pod in &pods {
        cluster.kubelet.write_log(pod, "step 1 | loss 2.0\n");
    }
    // Nothing is run in the pods of users unless that is asked for.
    let (_, messages) = diagnose_with_messages(cluster, &namespace, &["--job", "train"]).await;
    assert!(
        messages.contains("hint: `--exec` may show it while the job runs") && !messages.contains("`sh`"),
        "{messages}"
    );
    // An image without a shell.
    let (report, messages) = diagnose_with_messages(cluster, &namespace, &["--job", "train", "--exec"]).await;
    assert_eq!(found(&report), ("unknown", "no_lines"));
    assert!(
        messages.contains("the counters of the adapters cannot be read: exec failed: `sh`")
            && messages.contains("nor those of 1 more pod"),
        "{messages}"
    );
    // Two adapters in each of two pods move 10 MB in a tenth of a second.
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut moves: Vec<_> = roots.iter().map(|root| with_counters(root.path(), 10_000_000)).collect();
    for (pod, root) in pods.iter().zip(&roots) {
        cluster.kubelet.set_root(pod, root.path());
    }
    let report = diagnose(cluster, &namespace, &["--job", "train", "--exec"]).await;
    assert_eq!(found(&report), ("fabric", ""), "{report:#}");
    let traffic = &report["jobs"][0]["traffic"];
    assert_eq!(traffic["adapters"], json!(["rdmap0s0:1", "rdmap1s0:1"]));
    let rate = traffic["bytesPerSecond"].as_u64().unwrap();
    assert!((50_000_000..=440_000_000).contains(&rate), "{rate}");
    // One of the pods has lost its network: what is at rest proves nothing.
    moves.remove(1).abort();
    let report = diagnose(cluster, &namespace, &["--job", "train", "--exec"]).await;
    assert_eq!(found(&report), ("unknown", "no_lines"), "{report:#}");
    // TCP that the log names is TCP, whatever moves.
    for (rank, pod) in pods.iter().enumerate() {
        cluster.kubelet.write_log(pod, &log(pod, rank, "Socket", "NET/IB : No device found."));
    }
    let report = diagnose(cluster, &namespace, &["--job", "train", "--exec"]).await;
    assert_eq!(report["verdict"], "tcp", "{report:#}");
    for moved in moves {
        moved.abort();
    }
    cluster.remove(&namespace).await;
}

pub(super) async fn the_files_of_nccl_prove_the_fabric_when_the_log_is_gone(cluster: &Cluster) {
    let mut values = values();
    values["multinodeNetworking"]["aws"]["ncclLog"] = json!(true);
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("in-files").await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = running(cluster, &namespace, 2).await;
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (rank, (pod, root)) in pods.iter().zip(&roots).enumerate() {
        cluster.kubelet.write_log(pod, "step 1 | loss 2.0\n");
        let folder = root.path().join("var/log/nccl");
        std::fs::create_dir_all(&folder).unwrap();
        let text = log(
            pod,
            rank,
            "AWS Libfabric",
            "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)",
        );
        std::fs::write(folder.join(format!("{pod}.1")), text).unwrap();
        cluster.kubelet.set_root(pod, root.path());
    }
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    assert_eq!(report["verdict"], "unknown", "{report:#}");
    let report = diagnose(cluster, &namespace, &["--job", "train", "--exec"]).await;
    assert_eq!(report["verdict"], "fabric", "{report:#}");
    cluster.remove(&namespace).await;
}

pub(super) async fn each_fault_of_the_cluster_is_named(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("faulty").await;
    let (api, kubelet) = (&cluster.api, &cluster.kubelet);
    // The API server refuses the pods.
    let mut refused = annotated_template();
    refused["metadata"]["annotations"]["fabric-injector.io/provider"] = json!("nowhere");
    api.create(&job(&namespace, "refused", 1, &refused)).await.ok();
    eventually("the pods are refused", async || {
        let ended =
            cluster.program(&["diagnose", "--namespace", &namespace, "--job", "refused"]).output().await;
        let said = String::from_utf8(ended.unwrap().stdout).unwrap();
        said.contains("(pods_refused)") && said.contains("`nowhere`")
    })
    .await;
    cluster.remove(&namespace).await;

    let namespace = cluster.namespace("faults-of-nodes").await;
    api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = running(cluster, &namespace, 2).await;
    let tcp = |variable: &str| {
        pods.iter().enumerate().for_each(|(rank, pod)| {
            let lines = log(pod, rank, "Socket", "Initialized NET plugin Socket");
            kubelet.write_log(pod, &format!("{pod}:1:1 [0] NCCL INFO {variable}\n{lines}"));
        });
    };
    // The image gives a variable another value.
    tcp("NCCL_SOCKET_IFNAME set by environment to eth9");
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    assert_eq!(found(&report), ("tcp", "variable_changed"), "{report:#}");
    tcp("NCCL_SOCKET_IFNAME set by environment to ^lo,docker,veth,eni,pod-id-link0");
    let injected = api.list(&format!("/api/v1/namespaces/{namespace}/pods")).await;
    // The plugin of a node is gone.
    let node = injected[0]["spec"]["nodeName"].as_str().unwrap();
    nodes::offer(api, node, &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 0)]).await;
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    assert_eq!(found(&report), ("tcp", "device_gone"), "{report:#}");
    let evidence = report["cause"]["evidence"]["line"].as_str().unwrap();
    assert_eq!(evidence, format!("node {node}, status.allocatable: vpc.amazonaws.com/efa: 0"));
    nodes::offer(api, node, &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 32)]).await;
    let report = diagnose(cluster, &namespace, &["--job", "train"]).await;
    assert_ne!(found(&report).1, "device_gone", "{report:#}");
    cluster.remove(&namespace).await;
    // What another webhook has changed since, another version of the policy, and other pods that no webhook gets.
    let outside = "kube-system";
    let copy = |change: &dyn Fn(&mut Value)| {
        let mut copy = json!({"apiVersion": "v1", "kind": "Pod", "spec": injected[0]["spec"]});
        let annotations = &injected[0]["metadata"]["annotations"];
        copy["metadata"] = json!({"name": "copy", "namespace": outside, "annotations": annotations});
        copy["spec"].as_object_mut().unwrap().remove("nodeName");
        change(&mut copy);
        copy
    };
    let on_tcp = log("copy", 0, "Socket", "Initialized NET plugin Socket");
    let closed = "copy:1:1 [0] socket.cc:1 NCCL WARN socketPollConnect: connect to 10.0.0.2<4000> returned Connection refused\n";
    let faults = [
        (copy(&|_| {}), &on_tcp[..], ("tcp", "")),
        (
            copy(&|pod| {
                let env = pod["spec"]["containers"][0]["env"].as_array_mut().unwrap();
                env.retain(|variable| variable["name"] != "FI_EFA_USE_HUGE_PAGE");
            }),
            &on_tcp,
            ("tcp", "injection_changed"),
        ),
        (
            copy(&|pod| pod["metadata"]["annotations"][STAMP] = json!("aws-efa@000000000000")),
            &on_tcp,
            ("tcp", "other_policy"),
        ),
        (
            copy(&|pod| {
                pod["metadata"]["annotations"] = json!({SKIPPED: "for a reason; aws-efa@000000000000"});
            }),
            &on_tcp,
            ("tcp", "pod_skipped"),
        ),
        (
            copy(&|pod| {
                let containers = pod["spec"]["containers"].as_array_mut().unwrap();
                containers.push(json!({"name": "istio-proxy", "image": "registry.example/proxy:1"}));
            }),
            closed,
            ("crash", "mesh_sidecar"),
        ),
    ];
    for (pod, text, expected) in faults {
        api.create(&pod).await.ok();
        kubelet.write_log("copy", text);
        let path = format!("/api/v1/namespaces/{outside}/pods/copy");
        eventually("the pod runs", async || api.get(&path).await.ok()["status"]["phase"] == "Running").await;
        let report = diagnose(cluster, outside, &["--pod", "copy"]).await;
        assert_eq!(found(&report), expected, "{report:#}");
        api.delete(&path).await.ok();
        eventually("the pod is gone", async || api.get(&path).await.status == 404).await;
    }
}
