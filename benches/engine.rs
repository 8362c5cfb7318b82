//! The cost of injecting a pod, next to a bare `serde_json` parse of the same bytes.
//!
//! `cargo bench --bench engine`. Each `inject` row is parse, mutate and patch together, from bytes to bytes; its
//! ratio to the `parse` row of the same size is the figure to look at.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::hint::black_box;

use divan::Bencher;
use fabric_engine::Outcome;
use fabric_engine::policy_set::PolicySet;
use fabric_engine::policy_set::mutate;
use fabric_injector::builtin;
use fabric_policy::{Definition, PodContext, PolicyFile, definitions};
use serde_json::{Value, json};

/// The allocator of the binary, for parse and serve alike.
#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

fn main() {
    divan::main();
}

const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

/// Policies of four clouds, each with an instance type that it is made for.
const POLICIES: [(&str, &str); 4] = [
    ("aws-efa", "p5.48xlarge"),
    ("azure-infiniband", "Standard_ND96isr_H100_v5"),
    ("gcp-tcpxo", "a3-megagpu-8g"),
    ("oci-sriov", "BM.GPU.H100.8"),
];

/// A pod as a training operator makes it, with so many GPU containers.
fn pod(containers: usize, annotation: &str, instance_type: &str) -> Vec<u8> {
    let gpus = if containers == 1 { 8 } else { 1 };
    let container = |index: usize| {
        json!({
            "name": format!("worker-{index}"),
            "image": "registry.example.com/training:v2.0",
            "command": ["torchrun", "--nnodes=4", "--nproc_per_node=8", "--rdzv_backend=c10d", "train.py"],
            "env": [
                {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1",
                    "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}},
                {"name": "NCCL_DEBUG", "value": "INFO"},
                {"name": "MASTER_ADDR", "value": "llm-finetune-0.finetune-workers"},
                {"name": "MASTER_PORT", "value": "29400"}],
            "ports": [{"name": "rdzv", "containerPort": 29400, "protocol": "TCP"}],
            "resources": {"limits": {"memory": "512Gi", "nvidia.com/gpu": gpus.to_string()},
                "requests": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": gpus.to_string()}},
            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"},
                {"name": "dataset", "mountPath": "/data"},
                {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent"
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "llm-finetune-0-",
            "namespace": "training",
            "labels": {"app": "llm-finetune", "batch.kubernetes.io/job-name": "llm-finetune",
                "batch.kubernetes.io/job-completion-index": "0"},
            "annotations": {annotation: "true", "batch.kubernetes.io/job-completion-index": "0"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "llm-finetune",
                "uid": "0f9b1f0e-5c6d-4f0e-9f0a-6f1d2c3b4a59", "controller": true, "blockOwnerDeletion": true}]
        },
        "spec": {
            "containers": (0..containers).map(container).collect::<Vec<Value>>(),
            "nodeSelector": {"node.kubernetes.io/instance-type": instance_type},
            "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "training-checkpoints"}},
                {"name": "dataset", "persistentVolumeClaim": {"claimName": "training-dataset"}},
                {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority"
        }
    })
    .to_string()
    .into_bytes()
}

fn definition(name: &str) -> Definition {
    builtin::find(name).expect("a built-in policy").definition().expect("a good policy")
}

/// The policy and so many others that are for other pods.
fn policies(name: &str, count: usize) -> PolicySet {
    let own = (definition(name), BTreeMap::new());
    let text = builtin::find(name).expect("a built-in policy").text;
    let other = |index: usize| {
        let text = text
            .replace(&format!("metadata: {{name: {name}}}"), &format!("metadata: {{name: other-{index}}}"));
        let text = text.replace("nmp.nvidia.com/", &format!("nmp-{index}.example.com/"));
        let text = text.replace("nhx.nvidia.com/", &format!("nhx-{index}.example.com/"));
        let file = PolicyFile::read("other.yaml", &text).expect("a good policy");
        let parts = builtin::files();
        (definitions(&[file], parts).expect("a good policy").remove(0), BTreeMap::new())
    };
    PolicySet::new(std::iter::once(own).chain((1..count).map(other)).collect())
        .expect("policies that go together")
}

/// From the bytes of a pod to the bytes of its patch.
fn inject(policies: &PolicySet, bytes: &[u8]) -> Vec<u8> {
    let pod: Value = serde_json::from_slice(bytes).expect("JSON");
    match mutate(policies, pod, &PodContext::default()).outcome {
        Outcome::Mutated(mutated) => mutated.patch_as_json(),
        _ => Vec::new(),
    }
}

/// The floor: parsing the pod and dropping it, which injecting it includes.
#[divan::bench(args = [1, 10, 100])]
fn parse(bencher: Bencher<'_, '_>, containers: usize) {
    let bytes = pod(containers, TRIGGER, POLICIES[0].1);
    bencher.bench(|| drop(black_box(serde_json::from_slice::<Value>(black_box(&bytes)).expect("JSON"))));
}

#[divan::bench(args = [1, 10, 100], consts = [0, 1, 2, 3])]
fn inject_containers<const POLICY: usize>(bencher: Bencher<'_, '_>, containers: usize) {
    let policies = policies(POLICIES[POLICY].0, 1);
    let bytes = pod(containers, TRIGGER, POLICIES[POLICY].1);
    assert!(!inject(&policies, &bytes).is_empty(), "the pod is injected");
    bencher.bench(|| inject(&policies, black_box(&bytes)));
}

#[divan::bench(args = [1, 10, 30])]
fn inject_among_policies(bencher: Bencher<'_, '_>, count: usize) {
    let policies = policies("aws-efa", count);
    let bytes = pod(1, TRIGGER, POLICIES[0].1);
    bencher.bench(|| inject(&policies, black_box(&bytes)));
}

#[divan::bench(args = [1, 10, 30])]
fn pass_among_policies(bencher: Bencher<'_, '_>, count: usize) {
    let policies = policies("aws-efa", count);
    let bytes = pod(1, "example.com/other", POLICIES[0].1);
    bencher.bench(|| inject(&policies, black_box(&bytes)));
}

/// The cost of `mutate` alone, without parsing and without writing the patch.
#[divan::bench(consts = [0, 1, 2, 3])]
fn mutate_only<const POLICY: usize>(bencher: Bencher<'_, '_>) {
    let policies = policies(POLICIES[POLICY].0, 1);
    let pod: Value = serde_json::from_slice(&pod(1, TRIGGER, POLICIES[POLICY].1)).expect("JSON");
    bencher.with_inputs(|| pod.clone()).bench_values(|pod| mutate(&policies, pod, &PodContext::default()));
}
