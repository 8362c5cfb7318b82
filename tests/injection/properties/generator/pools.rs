//! The names that policies and pods have in common.

use serde_json::{Value, json};

pub(crate) const TRIGGER: &str = "fabric.test/on";
pub(crate) const OPT_OUT: &str = "fabric.test/off";
pub(crate) const GPU: &str = "nvidia.com/gpu";
pub(crate) const OTHER_GPU: &str = "amd.com/gpu";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// A label of nodes that an operator chose.
pub(crate) const POOL: &str = "pool";
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The label by which a pod is the launcher or a worker of an MPIJob.
pub(crate) const JOB_ROLE: &str = "training.kubeflow.org/job-role";
/// A list of objects in an annotation.
pub(crate) const INTERFACES: &str = "objects.test/interfaces";

pub(crate) const NAMESPACES: [&str; 3] = ["default", "team", "no"];
pub(crate) const INSTANCE_TYPES: [&str; 4] = ["small.1", "Big.8", "huge.16", "unheard.of"];
pub(crate) const POOLS: [&str; 3] = ["Fast", "slow", "none"];
pub(crate) const CONTAINERS: [&str; 4] = ["main", "worker", "helper", "first"];
/// Containers that only policies bring.
pub(crate) const SIDECARS: [&str; 2] = ["daemon", "agent"];
/// Variables that policies set, and pods too.
pub(crate) const VARIABLES: [&str; 7] =
    ["A", "B", "NCCL_IB_HCA", "UCX_TLS", "LD_LIBRARY_PATH", "NCCL_DEBUG", "EMPTY"];
/// Variables that only pods set, so that a policy may read them without reading what it wrote.
pub(crate) const OWN_VARIABLES: [&str; 2] = ["MINE", "THEIRS"];
pub(crate) const PATHS: [&str; 6] =
    ["/dev/shm", "/dev/shm/", "/opt/lib", "/data", "/etc//config", "/var/run/x"];
/// The same, as policies write them.
pub(crate) const CLEAN_PATHS: [&str; 6] =
    ["/dev/shm", "/dev/shm", "/opt/lib", "/data", "/etc/config", "/var/run/x"];
pub(crate) const DEVICES: [&str; 3] = ["example.com/nic", "rdma/hca", "vendor.io/dev"];
/// The message of a refusal.
pub(crate) const REFUSAL: &str = "the generated policy refuses it";
/// Labels that policies read; they write others.
pub(crate) const LABELS: [&str; 5] = ["role", "no", "team", "default", "small.1"];
pub(crate) const LABEL_VALUES: [&str; 3] = ["launcher", "no", "yes"];
pub(crate) const WRITTEN_LABELS: [&str; 3] = ["fabric", "example.com/tier", "x"];
/// Annotations that policies read.
pub(crate) const ANNOTATIONS: [&str; 2] = ["read.me/a", "read.me/b"];
pub(crate) const WRITTEN_ANNOTATIONS: [&str; 4] =
    ["net.test/interfaces", "note", "devices.test/container.main", "net.test/mtu_1"];
pub(crate) const IMAGES: [&str; 4] = [
    "registry.test/train:1",
    "registry.test/train",
    "train:latest",
    "registry.test:5000/x@sha256:0000000000000000000000000000000000000000000000000000000000000000",
];

/// The volumes that policies and pods may have: each name with its definition in either of two flavours.
pub(crate) fn volume(name: &str, other: bool) -> Value {
    match (name, other) {
        ("shm", false) => json!({"name": "shm", "emptyDir": {"medium": "Memory"}}),
        ("shm", true) => json!({"name": "shm", "persistentVolumeClaim": {"claimName": "c"}}),
        ("lib", false) => json!({"name": "lib", "hostPath": {"path": "/opt/lib"}}),
        ("lib", true) => json!({"name": "lib", "hostPath": {"path": "/opt/other", "type": "Directory"}}),
        ("config", false) => json!({"name": "config", "configMap": {"name": "topology"}}),
        ("config", true) => {
            json!({"name": "config", "configMap": {"name": "topology", "items": [{"key": "a", "path": "b"}]}})
        }
        ("secret", false) => json!({"name": "secret", "secret": {"secretName": "s", "optional": true}}),
        ("secret", true) => json!({"name": "secret", "emptyDir": {}}),
        ("info", false) => json!({"name": "info", "downwardAPI":
            {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        ("info", true) => json!({"name": "info", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "m"}}]}}),
        (name, _) => json!({"name": name, "emptyDir": {}}),
    }
}

pub(crate) const VOLUMES: [&str; 6] = ["shm", "lib", "config", "secret", "info", "scratch"];
