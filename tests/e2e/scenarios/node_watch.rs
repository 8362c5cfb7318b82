//! The nodes that the servers know, with and without what they need for that.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::values;
use crate::cluster::Cluster;
use crate::control_plane::Beside;
use crate::processes::{Process, outcome};
use crate::workloads::{annotated_template, efa_devices, is_injected, pod};
use crate::{eventually, kubelet, nodes};

const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fabric-injector-nodes";
const NODES: &str = "/api/v1/nodes";
/// Where a server listens that is no pod.
const ADMIN_PORT: u16 = 18_080;

async fn add(cluster: &Cluster, name: &str) {
    let devices = [("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 32)];
    nodes::add(&cluster.api, name, ("pool", "watched"), &devices).await;
    nodes::heartbeat(&cluster.api).await;
}

/// What a server tells of itself.
async fn verbose(address: &str, port: u16) -> String {
    let (status, text) = kubelet::get(address, port, "/readyz?verbose").await.unwrap_or_default();
    assert!(status == 200 || text.is_empty(), "{text}");
    text
}

/// Waits until all servers say this of the nodes, and are ready.
pub(super) async fn all_tell(cluster: &Cluster, line: &str) {
    eventually(line, async || {
        for server in cluster.servers().await {
            let address = server["status"]["podIP"].as_str().unwrap_or_default().to_owned();
            if !verbose(&address, 8080).await.contains(line) {
                return false;
            }
        }
        true
    })
    .await;
}

/// Waits until all servers know the nodes that there are.
async fn all_know(cluster: &Cluster) {
    let count = cluster.api.list(NODES).await.len();
    all_tell(cluster, &format!("[+]nodes: {count} in use\n")).await;
    let servers = cluster.servers().await.len() as u64;
    assert_eq!(cluster.metric("fabric_injector_nodes ").await, servers * count as u64);
    assert_eq!(cluster.metric("fabric_injector_node_watch{state=\"watching\"}").await, servers);
}

/// A pod for the nodes of the test, of which no table knows anything.
fn watched() -> Value {
    let mut pod = pod("default", "watched", &annotated_template());
    pod["spec"]["nodeSelector"] = json!({"pool": "watched"});
    pod
}

/// Whether the devices of the pod are those of its nodes, and not assumed.
async fn nodes_decide(cluster: &Cluster) -> bool {
    let reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &watched()).await;
    let assumed = reply.warnings.iter().any(|warning| warning.contains("is assumed"));
    let reply = reply.ok();
    assert!(is_injected(&reply), "{reply}");
    !assumed && efa_devices(&reply) == "32"
}

/// The same with the nodes that `mutate` reads itself.
async fn nodes_decide_for_mutate(cluster: &Cluster) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), watched().to_string()).unwrap();
    let arguments = ["mutate", "--policy", "aws-efa", "--cluster", "-f", file.path().to_str().unwrap()];
    let (succeeded, said) = outcome(&mut cluster.program(&arguments)).await;
    assert!(succeeded && !said.contains("is assumed"), "{said}");
    assert!(
        said.contains("\"vpc.amazonaws.com/efa\":\"32\"")
            || said.contains("\"vpc.amazonaws.com/efa\": \"32\""),
        "{said}"
    );
}

pub(super) async fn servers_know_the_nodes_as_long_as_they_may_read_them(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    all_know(cluster).await;
    for name in ["watched-0", "watched-1"] {
        add(cluster, name).await;
        all_know(cluster).await;
    }
    eventually("nodes decide", async || nodes_decide(cluster).await).await;
    nodes_decide_for_mutate(cluster).await;
    cluster.api.delete(&format!("{NODES}/watched-0")).await.ok();
    all_know(cluster).await;

    let mut binding = cluster.api.get(BINDING).await.ok();
    cluster.api.delete(BINDING).await.ok();
    all_tell(cluster, "[!]nodes: the permission is missing, none in use\n    nodes is forbidden: ").await;
    all_tell(cluster, "    hint: grant `get`, `list` and `watch` of nodes in a ClusterRole").await;
    assert_eq!(cluster.metric("fabric_injector_nodes ").await, 0);
    assert_eq!(cluster.metric("fabric_injector_node_watch{state=\"forbidden\"}").await, 2);
    assert!(!nodes_decide(cluster).await, "pods are injected by default values");

    binding["metadata"] = json!({"name": "fabric-injector-nodes", "labels": binding["metadata"]["labels"],
        "annotations": binding["metadata"]["annotations"]});
    cluster.api.create(&binding).await.ok();
    all_know(cluster).await;
    assert!(nodes_decide(cluster).await);
    cluster.api.delete(&format!("{NODES}/watched-1")).await.ok();
}

/// A server of the test's own, which watches the nodes of this API server.
fn serve(apiserver: &Beside, log: &Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().env("KUBECONFIG", &apiserver.kubeconfig).args([
        "serve",
        "--policy=aws-efa",
        "--watch-nodes",
    ]);
    command.args(["--listen", "127.0.0.1:18443", "--admin-listen", &format!("127.0.0.1:{ADMIN_PORT}")]);
    Process::start(&mut command, log)
}

async fn tells(line: &str) {
    eventually(line, async || verbose("127.0.0.1", ADMIN_PORT).await.contains(line)).await;
}

pub(super) async fn a_lost_watch_keeps_the_nodes_and_recovers(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let apiserver = cluster.start_second().await;
    let _server = serve(&apiserver, &log);
    let count = cluster.api.list(NODES).await.len();
    tells(&format!("[+]nodes: {count} in use\n")).await;
    drop(apiserver);
    tells(&format!("[!]nodes: the watch failed, the last {count} stay in use for 5m\n    ")).await;
    add(cluster, "watched-2").await;
    let _apiserver = cluster.start_second().await;
    tells(&format!("[+]nodes: {} in use\n", count + 1)).await;
    cluster.api.delete(&format!("{NODES}/watched-2")).await.ok();
    tells(&format!("[+]nodes: {count} in use\n")).await;

    // One line for each state, not for each attempt.
    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let states: Vec<String> = lines.filter_map(|line| Some(line["state"].as_str()?.to_owned())).collect();
    assert_eq!(states, ["starting", "watching", "stale", "watching"], "{log}");
    let targets: BTreeSet<&str> = ["kube_runtime", "kube_client"].into();
    assert!(!targets.iter().any(|target| log.contains(target)), "{log}");
}

/// A dry run of a pod with 8 GPUs for a pool, or for any.
async fn tried(cluster: &Cluster, pool: Option<&str>) -> (Value, Vec<String>) {
    let mut pod = watched();
    pod["spec"]["nodeSelector"] = json!(pool.map(|pool| json!({"pool": pool})));
    let mut reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &pod).await;
    let warnings = std::mem::take(&mut reply.warnings);
    (reply.ok(), warnings)
}

pub(super) async fn without_a_provider_the_nodes_choose_the_policy(cluster: &Cluster) {
    cluster.ensure(&json!({"server": {"log": "debug"}})).await;
    let azure = "azure:///subscriptions/a/resourceGroups/b/providers/Microsoft.Compute/virtualMachines/c";
    let pools = [
        ("lab-aws", Some("aws:///us-east-1a/i-1"), "vpc.amazonaws.com/efa", 32, "aws-efa@", "32"),
        ("lab-azure", Some(azure), "rdma/ib", 8, "azure-infiniband@", "8"),
        ("lab-oracle", Some("ocid1.instance.oc1.a"), "nvidia.com/rdma-vf", 16, "oci-sriov@", "16"),
        ("lab-own", None, "rdma/hca_shared_devices_x", 63, "onprem-rdma@", "1"),
    ];
    for (pool, provider_id, device, count, ..) in pools {
        let devices = [("nvidia.com/gpu", 8), (device, count)];
        nodes::add_of(&cluster.api, pool, provider_id, ("pool", pool), &devices).await;
    }
    nodes::heartbeat(&cluster.api).await;
    all_know(cluster).await;
    for (pool, _, device, _, policy, wanted) in pools {
        eventually(pool, async || {
            let (pod, _) = tried(cluster, Some(pool)).await;
            let stamp =
                pod["metadata"]["annotations"]["fabric-injector.io/injected"].as_str().unwrap_or_default();
            let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
            stamp.starts_with(policy) && limits[device] == wanted
        })
        .await;
    }
    let (pod, warnings) = tried(cluster, None).await;
    assert!(!is_injected(&pod), "{pod}");
    assert!(warnings.iter().any(|warning| warning.contains("nodes of the providers `aws`")), "{warnings:?}");
    // What nodes cannot tell is said, too.
    let (pod, warnings) = tried(cluster, Some("nowhere")).await;
    assert!(!is_injected(&pod) && !warnings.is_empty(), "{pod} {warnings:?}");
    for (pool, ..) in pools {
        cluster.api.delete(&format!("{NODES}/{pool}")).await.ok();
    }
}
