//! Pods for which no policy can be chosen, in each state of the nodes and in each mode: none of them runs on TCP unawares.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::examination::check;
use super::node_watch::{AWS, AZURE, GOOGLE, INSTANCE_TYPE as TYPE, all_know, all_tell, take_binding};
use super::unread_nodes::replace;
use crate::cluster::{Cluster, SERVERS};
use crate::processes::outcome;
use crate::workloads::{TRIGGER, is_injected, job, pod};
use crate::{eventually, kubelet, nodes};

const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const PROVIDER: &str = "fabric-injector.io/provider";

/// A node: name, provider, machine and resources.
pub(super) type Node = (&'static str, &'static str, &'static str, &'static [(&'static str, u32)]);

pub(super) const P5: Node =
    ("up-aws", AWS, "p5.48xlarge", &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 32)]);
pub(super) const NDV5: Node =
    ("up-azure", AZURE, "Standard_ND96isr_H100_v5", &[("nvidia.com/gpu", 8), ("rdma/ib", 8)]);
const OWN: Node = ("up-own", "", "rack-7", &[("nvidia.com/gpu", 8), ("rdma/ib", 63)]);
pub(super) const MEGA: Node = ("up-mega", GOOGLE, "a3-megagpu-8g", &[("nvidia.com/gpu", 8)]);
pub(super) const ULTRA: Node = ("up-ultra", GOOGLE, "a3-ultragpu-8g", &[("nvidia.com/gpu", 8)]);
const CPU_OF_AWS: Node = ("cpu-aws", AWS, "m7i.large", &[]);
const CPU_OF_AZURE: Node = ("cpu-azure", AZURE, "Standard_D8", &[]);

/// What becomes of a pod with GPUs and of the launcher of a job.
#[derive(Debug, Clone, Copy)]
enum Becomes {
    /// Injected by this policy.
    Injected(&'static str),
    /// Refused with this reason, and a message with this text.
    Refused(&'static str, &'static str),
}
use Becomes::{Injected, Refused};

/// The nodes that are up, and pods by what they select, with what becomes of them.
type State = (&'static str, &'static [Node], &'static [(&'static str, &'static str, Becomes)]);

const STATES: &[State] = &[
    (
        "two clouds up",
        &[P5, NDV5],
        &[
            ("", "", Refused("several_providers", "the pod fits nodes of `aws`, `azure`")),
            (TYPE, "p5.48xlarge", Injected("aws-efa")),
            ("kubernetes.azure.com/agentpool", "gpus", Injected("azure-infiniband")),
            (PROVIDER, "azure", Injected("azure-infiniband")),
            (PROVIDER, "azur", Refused("other_provider", "names `azur`")),
        ],
    ),
    (
        "one at zero",
        &[P5],
        &[
            ("", "", Injected("aws-efa")),
            ("kubernetes.azure.com/agentpool", "gpus", Injected("azure-infiniband")),
            (TYPE, "a3-megagpu-8g", Injected("gcp-tcpxo")),
            (PROVIDER, "azure", Injected("azure-infiniband")),
        ],
    ),
    (
        "both at zero",
        &[CPU_OF_AWS, CPU_OF_AZURE],
        &[
            // The launcher fits the nodes without GPUs.
            ("", "", Refused("several_providers", "select one by a label that only it has")),
            (TYPE, "p5.48xlarge", Injected("aws-efa")),
            (TYPE, "Standard_ND96isr_H100_v5", Injected("azure-infiniband")),
            (PROVIDER, "aws", Injected("aws-efa")),
        ],
    ),
    (
        "on premises next to a cloud",
        &[P5, OWN],
        &[
            ("", "", Refused("several_providers", "the pod fits nodes of `aws`, `onprem`")),
            ("eks.amazonaws.com/nodegroup", "gpus", Injected("aws-efa")),
            (PROVIDER, "onprem", Injected("onprem-rdma")),
        ],
    ),
    (
        "machines of GKE with two fabrics",
        &[MEGA, ULTRA],
        &[
            ("", "", Refused("setting_undecided", "`fabric` depends on the node")),
            ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb", Injected("gcp-gib")),
            (PROVIDER, "gcp-gib", Injected("gcp-gib")),
        ],
    ),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Fail,
    Ignore,
    Audit,
}

impl Mode {
    fn values(self) -> Value {
        let webhook = match self {
            Self::Fail => json!({}),
            Self::Ignore => json!({"failurePolicy": "Ignore"}),
            Self::Audit => json!({"mode": "audit"}),
        };
        json!({"server": {"log": "debug"}, "webhook": webhook})
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Gpus,
    Launcher,
    /// It asks for the fabric, and has neither GPUs nor a part in a job that needs it.
    Plain,
}

/// A pod that asks for the fabric, and selects a label or has an annotation.
pub(super) fn asks(kind: Kind, key: &str, value: &str) -> Value {
    let mut template = json!({
        "metadata": {"annotations": {TRIGGER: "true"}, "labels": {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/train:1"}]},
    });
    match kind {
        Kind::Gpus => {
            template["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": 8}});
        }
        Kind::Launcher => {
            template["metadata"]["labels"] = json!({"training.kubeflow.org/job-role": "launcher"});
        }
        Kind::Plain => {}
    }
    match key {
        "" => {}
        PROVIDER => template["metadata"]["annotations"][PROVIDER] = json!(value),
        label => template["spec"]["nodeSelector"] = json!({label: value}),
    }
    template
}

/// Tries a pod; whether it was injected and by what, and what the client is told.
async fn tried(cluster: &Cluster, template: &Value) -> (u16, String, String) {
    // A dry run is not counted.
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let name = format!("asks-{}", MADE.fetch_add(1, Ordering::Relaxed));
    let reply = cluster.api.post(PODS, &pod("default", &name, template)).await;
    cluster.api.delete_with(&format!("{PODS}/{name}"), &json!({"gracePeriodSeconds": 0})).await;
    let stamp = reply.body["metadata"]["annotations"]["fabric-injector.io/injected"].as_str();
    let policy = stamp.and_then(|stamp| stamp.split('@').next()).unwrap_or_default().to_owned();
    let said = format!("{}\n{}", reply.message(), reply.warnings.join("\n"));
    (reply.status, policy, said)
}

/// Tries a pod with GPUs and a launcher, and sees that they are counted.
async fn becomes(cluster: &Cluster, mode: Mode, (key, value, wanted): (&str, &str, Becomes)) {
    for kind in [Kind::Gpus, Kind::Launcher] {
        let (outcome, reason, text) = match wanted {
            Injected(policy) => ("mutated", "", policy),
            Refused(reason, text) => ("refused", reason, text),
        };
        let counted = async || {
            let audited = if mode == Mode::Audit { "audit" } else { "inject" };
            let policy = if let Injected(policy) = wanted { policy } else { "" };
            let labels =
                format!("policy=\"{policy}\",outcome=\"{outcome}\",reason=\"{reason}\",mode=\"{audited}\"");
            cluster.metric(&format!("fabric_injector_reviews_total{{{labels}}}")).await
        };
        let before = counted().await;
        let (status, policy, said) = tried(cluster, &asks(kind, key, value)).await;
        let is_as_wanted = match (wanted, mode) {
            (Injected(wanted), Mode::Fail | Mode::Ignore) => status == 201 && policy == wanted,
            (Injected(wanted), Mode::Audit) => {
                status == 201
                    && policy.is_empty()
                    && said.contains(&format!("it would be injected by {wanted}@"))
            }
            (Refused(..), Mode::Fail | Mode::Ignore) => {
                status == 403 && said.contains(text) && said.contains(PROVIDER)
            }
            (Refused(..), Mode::Audit) => {
                status == 201 && said.contains("it would be denied") && said.contains(text)
            }
        };
        assert!(is_as_wanted, "{mode:?} {kind:?} {key}={value}: {status} {policy} {said}");
        assert!(counted().await > before, "{mode:?} {kind:?} {key}={value}");
    }
    let (status, policy, said) = tried(cluster, &asks(Kind::Plain, key, value)).await;
    let stays = said.trim().is_empty() || said.contains("left alone: no container requests");
    assert!(status == 201 && policy.is_empty() && stays, "{mode:?} plain {key}={value}: {said}");
}

/// Makes these nodes, and waits until the servers know them.
pub(super) async fn bring_up(cluster: &Cluster, up: &[Node]) {
    for (name, provider_id, machine, devices) in up {
        let spec = json!({"providerID": provider_id});
        nodes::add_of(&cluster.api, name, spec, &[(TYPE, machine)], devices).await;
    }
    nodes::heartbeat(&cluster.api).await;
    all_know(cluster).await;
    // Nodes that have just joined have a taint.
    eventually("pods fit the nodes", async || {
        cluster.api.list("/api/v1/nodes").await.iter().all(|node| node["spec"]["taints"].is_null())
    })
    .await;
    all_know(cluster).await;
    // They tell how many nodes they know, not which taints: changed nodes are in use within a second.
    sleep(Duration::from_secs(2)).await;
}

async fn take_down(cluster: &Cluster, up: &[Node]) {
    for (name, ..) in up {
        cluster.api.delete(&format!("/api/v1/nodes/{name}")).await.ok();
    }
    all_know(cluster).await;
}

/// A Job whose pods are refused says so itself, and `check` tries a pod of each cloud.
async fn its_job_and_check_say_so(cluster: &Cluster) {
    let namespace = cluster.namespace("refused").await;
    cluster.api.create(&job(&namespace, "train", 1, &asks(Kind::Gpus, "", ""))).await.ok();
    let events = format!("/api/v1/namespaces/{namespace}/events");
    eventually("the Job has an event", async || {
        cluster.api.list(&events).await.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FailedCreate"
                && message.contains("nodes of `aws`, `azure`")
                && message.contains(PROVIDER)
        })
    })
    .await;
    cluster.remove(&namespace).await;
    let (_, said) = outcome(&mut cluster.program(&["check"])).await;
    for policy in ["aws-efa@", "azure-infiniband@"] {
        assert!(said.lines().any(|line| line.starts_with("ok    pod") && line.contains(policy)), "{said}");
    }
}

/// What was known stays known when the watch is lost; the binding of the role.
async fn a_lost_watch_changes_nothing(cluster: &Cluster, mode: Mode) -> Value {
    bring_up(cluster, &[P5]).await;
    let binding = take_binding(cluster).await;
    all_tell(cluster, "[!]nodes: the watch failed at ").await;
    becomes(cluster, mode, ("", "", Injected("aws-efa"))).await;
    becomes(cluster, mode, ("kubernetes.azure.com/agentpool", "gpus", Injected("azure-infiniband"))).await;
    binding
}

/// Waits until all servers are new, and have no nodes.
async fn all_lack_a_list(cluster: &Cluster) {
    eventually("all servers are new", async || {
        // Also those that stop: the API server still asks them over its open connections.
        let servers = cluster.api.list(SERVERS).await;
        let mut lacking = 0;
        for server in &servers {
            let address = server["status"]["podIP"].as_str().unwrap_or_default();
            let (_, text) = kubelet::get(address, 8080, "/readyz?verbose").await.unwrap_or_default();
            lacking += usize::from(text.contains("nodes: none in use"));
        }
        lacking == 2 && servers.len() == 2
    })
    .await;
}

/// Replaces the servers by new ones that may not list the nodes.
pub(super) async fn wait_without_a_list(cluster: &Cluster) {
    replace(cluster).await;
    all_lack_a_list(cluster).await;
}

/// Servers that never listed the nodes: refused, or let through and told.
async fn without_a_list(cluster: &Cluster, mode: Mode) {
    let address = replace(cluster).await;
    let is_ready = mode != Mode::Fail;
    eventually("the new server is as the mode wants it", async || {
        let (status, text) = kubelet::get(&address, 8080, "/readyz?verbose").await.unwrap_or_default();
        text.contains("nodes: none in use") && (status == 200) == is_ready
    })
    .await;
    if mode == Mode::Fail {
        // The servers before it serve on.
        return becomes(cluster, mode, ("", "", Injected("aws-efa"))).await;
    }
    all_lack_a_list(cluster).await;
    for kind in [Kind::Gpus, Kind::Launcher] {
        let (status, policy, said) = tried(cluster, &asks(kind, "", "")).await;
        assert!(
            status == 201 && policy.is_empty() && said.contains("NOT injected"),
            "{mode:?} {kind:?} {said}"
        );
        assert!(
            said.contains("the nodes of the cluster, which choose the provider, are not known"),
            "{mode:?} {kind:?} {said}"
        );
    }
    // What the pod decides needs no nodes.
    becomes(cluster, mode, (TYPE, "p5.48xlarge", Injected("aws-efa"))).await;
    becomes(cluster, mode, (PROVIDER, "azure", Injected("azure-infiniband"))).await;
    let failed = "fabric_injector_reviews_total{policy=\"\",outcome=\"failed\",reason=\"nodes_unknown\"";
    assert!(cluster.metric(failed).await >= 2);
    let arguments: &[&str] = if mode == Mode::Audit { &["--audit"] } else { &[] };
    let lines = check(cluster, arguments).await;
    let fails = |(name, status, text): &(String, String, String)| {
        name == "servers" && status == "fail" && text.contains("[!]nodes: none in use, the first list failed")
    };
    assert!(lines.iter().any(fails), "{mode:?}: {lines:#?}");
    its_job_has_an_event(cluster).await;
}

/// The controller of a pod that was let through unserved gets an Event.
async fn its_job_has_an_event(cluster: &Cluster) {
    let namespace = cluster.namespace(&format!("unserved-{}", fastrand::u32(..))).await;
    cluster.api.create(&job(&namespace, "train", 2, &asks(Kind::Gpus, "", ""))).await.ok();
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    eventually("the Job has an event", async || {
        cluster.api.list(&events).await.iter().filter(|event| event["reason"] == "NodesUnknown").count() == 1
    })
    .await;
    let pods = cluster.api.list(&format!("/api/v1/namespaces/{namespace}/pods")).await;
    assert!(pods.iter().all(|pod| !is_injected(pod)));
    cluster.remove(&namespace).await;
}

/// Replaces the servers on nodes that an earlier scenario removed, from which Kubernetes takes them after a minute.
pub(super) async fn leave_nodes_that_are_gone(cluster: &Cluster) {
    let nodes = cluster.api.list("/api/v1/nodes").await;
    let is_gone =
        |server: &&Value| nodes.iter().all(|node| node["metadata"]["name"] != server["spec"]["nodeName"]);
    for server in cluster.servers().await.iter().filter(is_gone) {
        let of = |key: &str| server["metadata"][key].as_str().unwrap_or_default();
        let pod = format!("/api/v1/namespaces/{}/pods/{}", of("namespace"), of("name"));
        cluster.api.delete(&pod).await.ok();
    }
    eventually("the servers run on nodes that exist", async || {
        let servers = cluster.servers().await;
        let status = cluster.api.get(crate::cluster::DEPLOYMENT).await.ok()["status"].clone();
        status["readyReplicas"] == 2 && status["replicas"] == 2 && !servers.iter().any(|one| is_gone(&one))
    })
    .await;
}

pub(super) async fn pods_that_ask_and_cannot_be_served_never_start_unawares(cluster: &Cluster) {
    nodes::remove_gpus(&cluster.api).await;
    for mode in [Mode::Fail, Mode::Ignore, Mode::Audit] {
        cluster.ensure(&mode.values()).await;
        leave_nodes_that_are_gone(cluster).await;
        for (state, up, pods) in STATES {
            bring_up(cluster, up).await;
            for pod in *pods {
                becomes(cluster, mode, *pod).await;
            }
            if mode == Mode::Fail && *state == "two clouds up" {
                its_job_and_check_say_so(cluster).await;
            }
            take_down(cluster, up).await;
        }
        let binding = a_lost_watch_changes_nothing(cluster, mode).await;
        without_a_list(cluster, mode).await;
        cluster.api.create(&binding).await.ok();
        eventually("the servers are replaced", async || {
            let status = cluster.api.get(crate::cluster::DEPLOYMENT).await.ok()["status"].clone();
            status["updatedReplicas"] == 2 && status["readyReplicas"] == 2 && status["replicas"] == 2
        })
        .await;
        take_down(cluster, &[P5]).await;
    }
    cluster.forget().await;
    nodes::restore_gpus(&cluster.api).await;
}
