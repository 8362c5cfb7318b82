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
use crate::workloads::{annotated_template, efa_devices, is_injected, pod as pod_of};
use crate::{eventually, kubelet, nodes};

pub(super) const NODES: &str = "/api/v1/nodes";
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
            // A server that has just started is not ready before it has the first list.
            let (status, text) = kubelet::get(&address, 8080, "/readyz?verbose").await.unwrap_or_default();
            if status != 200 || !text.contains(line) {
                return false;
            }
        }
        true
    })
    .await;
}

/// Waits until all servers know the nodes that there are.
pub(super) async fn all_know(cluster: &Cluster) {
    let count = cluster.api.list(NODES).await.len();
    all_tell(cluster, &format!("[+]nodes: {count} in use\n")).await;
    let servers = cluster.servers().await.len() as u64;
    assert_eq!(cluster.metric("fabric_injector_nodes ").await, servers * count as u64);
    assert_eq!(cluster.metric("fabric_injector_node_watch{state=\"watching\"}").await, servers);
}

/// A pod for the nodes of the test, of which no table knows anything.
fn watched() -> Value {
    let mut pod = pod_of("default", "watched", &annotated_template());
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

pub(super) async fn servers_know_the_nodes_and_keep_them_when_they_may_no_longer_read_them(
    cluster: &Cluster,
) {
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

    // What the servers knew stays in use when they may no longer read it.
    let count = cluster.api.list(NODES).await.len();
    let binding = take_binding(cluster).await;
    all_tell(cluster, "[!]nodes: the watch failed at ").await;
    all_tell(cluster, &format!(", the last {count} stay in use\n    nodes is forbidden: ")).await;
    all_tell(cluster, "    hint: grant `list` and `watch` of nodes in a ClusterRole").await;
    assert_eq!(cluster.metric("fabric_injector_nodes ").await, 2 * count as u64);
    assert_eq!(cluster.metric("fabric_injector_node_watch{state=\"stale\"}").await, 2);
    assert!(nodes_decide(cluster).await);
    let (_, said) = outcome(&mut cluster.program(&["check"])).await;
    let told = format!(" reports\n{:22}[!]nodes: the watch failed at ", "");
    assert!(said.contains("fail  servers") && said.contains(&told), "{said}");

    cluster.api.create(&binding).await.ok();
    all_know(cluster).await;
    assert!(nodes_decide(cluster).await);
    cluster.api.delete(&format!("{NODES}/watched-1")).await.ok();
}

/// Takes the permission to read nodes from the servers, and returns the binding.
pub(super) async fn take_binding(cluster: &Cluster) -> Value {
    take_binding_of(cluster, "nodes").await
}

/// Takes the binding of the role with this suffix, and returns it.
pub(super) async fn take_binding_of(cluster: &Cluster, suffix: &str) -> Value {
    let name = format!("fabric-injector-{suffix}");
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
    let mut binding = cluster.api.get(&path).await.ok();
    cluster.api.delete(&path).await.ok();
    binding["metadata"] = json!({"name": name, "labels": binding["metadata"]["labels"],
        "annotations": binding["metadata"]["annotations"]});
    binding
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
    tells("[!]nodes: the watch failed at ").await;
    tells(&format!(", the last {count} stay in use\n    ")).await;
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

/// A dry run of a pod with 8 GPUs that selects these nodes.
pub(super) async fn tried(cluster: &Cluster, selector: Value) -> (Value, Vec<String>) {
    let mut pod = watched();
    pod["spec"]["nodeSelector"] = selector;
    let mut reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &pod).await;
    let warnings = std::mem::take(&mut reply.warnings);
    (reply.body, warnings)
}

/// The policy that injected a pod.
pub(super) fn policy_of(pod: &Value) -> &str {
    let stamp = pod["metadata"]["annotations"]["fabric-injector.io/injected"].as_str().unwrap_or_default();
    stamp.split('@').next().unwrap_or_default()
}

fn limit<'p>(pod: &'p Value, resource: &str) -> &'p str {
    pod["spec"]["containers"][0]["resources"]["limits"][resource].as_str().unwrap_or_default()
}

const EFA: &str = "vpc.amazonaws.com/efa";
pub(super) const AWS: &str = "aws:///us-east-1a/i-1";
pub(super) const AZURE: &str =
    "azure:///subscriptions/a/resourceGroups/b/providers/Microsoft.Compute/virtualMachines/c";
pub(super) const GOOGLE: &str = "gce://project/us-central1-a/node";
pub(super) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Alike nodes, and what pods get that select them.
pub(super) struct Pool {
    pub(super) name: &'static str,
    provider_id: &'static str,
    /// `node.kubernetes.io/instance-type`.
    machine: &'static str,
    /// One resource of the fabric of each node.
    pub(super) offered: (&'static str, u32),
    pub(super) policy: &'static str,
    /// How many of it a pod with 8 GPUs requests.
    requested: &'static str,
}

pub(super) const CLOUDS: &[Pool] = &[
    pool("p4d", AWS, "p4d.24xlarge", (EFA, 4), "aws-efa", "4"),
    pool("p5", AWS, "p5.48xlarge", (EFA, 32), "aws-efa", "32"),
    pool("p5en", AWS, "p5en.48xlarge", (EFA, 16), "aws-efa", "16"),
    pool("p6-b200", AWS, "p6-b200.48xlarge", (EFA, 8), "aws-efa", "8"),
    // A machine that no table knows.
    pool("p9", AWS, "p9.metal", (EFA, 24), "aws-efa", "24"),
    pool("ndv5", AZURE, "Standard_ND96isr_H100_v5", ("rdma/ib", 8), "azure-infiniband", "8"),
    pool("a3-mega", GOOGLE, "a3-megagpu-8g", ("networking.gke.io.networks/vpc1", 1), "gcp-tcpxo", ""),
    pool("a3-ultra", GOOGLE, "a3-ultragpu-8g", ("networking.gke.io.networks/rdma-0", 1), "gcp-gib", ""),
    pool("oracle", "ocid1.instance.oc1.a", "BM.GPU.H100.8", ("nvidia.com/rdma-vf", 16), "oci-sriov", "16"),
    pool("own", "", "rack-7", ("rdma/hca_shared_devices_x", 63), "onprem-rdma", "1"),
];

const fn pool(
    name: &'static str,
    provider_id: &'static str,
    machine: &'static str,
    offered: (&'static str, u32),
    policy: &'static str,
    requested: &'static str,
) -> Pool {
    Pool { name, provider_id, machine, offered, policy, requested }
}

/// Makes a node of a pool, whose device plugin for the fabric has registered if `offered` is given.
pub(super) async fn start(cluster: &Cluster, name: &str, pool: &Pool, offered: Option<(&'static str, u32)>) {
    let mut devices = vec![("nvidia.com/gpu", 8)];
    devices.extend(offered);
    let spec = json!({"providerID": pool.provider_id});
    let labels = [("pool", pool.name), (INSTANCE_TYPE, pool.machine)];
    nodes::add_of(&cluster.api, name, spec, &labels, &devices).await;
}

pub(super) async fn without_a_provider_the_nodes_choose_the_policy(cluster: &Cluster) {
    cluster.ensure(&json!({"server": {"log": "debug"}})).await;
    for pool in CLOUDS {
        start(cluster, &format!("cloud-{}", pool.name), pool, Some(pool.offered)).await;
    }
    nodes::heartbeat(&cluster.api).await;
    all_know(cluster).await;
    for pool in CLOUDS {
        eventually(pool.name, async || {
            let (pod, warnings) = tried(cluster, json!({"pool": pool.name})).await;
            let assumed = warnings.iter().any(|text| text.contains("is assumed"));
            let found = (policy_of(&pod), limit(&pod, pool.offered.0));
            found == (pool.policy, pool.requested) && !assumed
        })
        .await;
    }
    for pool in CLOUDS {
        cluster.api.delete(&format!("{NODES}/cloud-{}", pool.name)).await.ok();
    }
}

pub(super) async fn pools_change_and_pods_get_what_they_offer(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let path = |name: &str| format!("{NODES}/{name}");
    let devices = async |selector: Value| {
        let (pod, warnings) = tried(cluster, selector).await;
        (limit(&pod, EFA).to_owned(), warnings.join("\n"))
    };
    let p5 = pool("changing", AWS, "p5.48xlarge", (EFA, 32), "", "");
    let selector = json!({"pool": "changing", INSTANCE_TYPE: p5.machine});

    // A pool that scales from zero: the table of the machine type.
    let (count, said) = devices(selector.clone()).await;
    assert!(count == "32" && !said.contains("assumed"), "{count} {said}");
    // No device plugin has registered: the same, and the cause.
    start(cluster, "changing-0", &p5, None).await;
    start(cluster, "changing-1", &p5, None).await;
    nodes::heartbeat(&cluster.api).await;
    // A server may know the nodes before it knows their resources.
    eventually("no device plugin has registered", async || {
        let (count, said) = devices(selector.clone()).await;
        count == "32" && said.contains("device plugin")
    })
    .await;
    // The plugin of one node has registered, and offers less than the table says; that of the other one is late.
    nodes::offer(&cluster.api, "changing-0", &[("nvidia.com/gpu", 8), (EFA, 24)]).await;
    eventually("the first node decides", async || {
        let (count, said) = devices(selector.clone()).await;
        count == "24" && !said.contains("device plugin")
    })
    .await;
    // A cordoned node comes back.
    cluster.api.merge(&path("changing-0"), &json!({"spec": {"unschedulable": true}})).await.ok();
    eventually("the control plane taints the node", async || {
        !cluster.api.get(&path("changing-0")).await.ok()["spec"]["taints"].is_null()
    })
    .await;
    assert_eq!(devices(selector.clone()).await.0, "24");
    // Another product in the same pool.
    let other = pool("changing", AWS, "p4d.24xlarge", (EFA, 4), "", "");
    start(cluster, "changing-2", &other, Some(other.offered)).await;
    nodes::heartbeat(&cluster.api).await;
    eventually("pods that fit two products are told", async || {
        let (count, said) = devices(json!({"pool": "changing"})).await;
        count == "4"
            && said.contains(&format!("`{INSTANCE_TYPE}: p4d.24xlarge` with 8 GPUs and 4 of `{EFA}`"))
    })
    .await;
    assert_eq!(devices(json!({"pool": "changing", INSTANCE_TYPE: "p4d.24xlarge"})).await.0, "4");
    for number in 0..3 {
        cluster.api.delete(&path(&format!("changing-{number}"))).await.ok();
    }
}
