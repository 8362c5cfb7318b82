//! The instructions of `mutate` for one pod, for each built-in policy, next to those of `instructions.json`.
//!
//! `cargo bench --bench instructions` fails if a policy needs more than that, beyond what chance adds, with the toolchain
//! with which the file was written; with another one, it prints. `-- --update` writes the file. Needs valgrind, whose tool
//! callgrind counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for developers"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use fabric_injector::builtin;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fabric-injector");
const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.json");
/// The pods of two runs, whose difference has nothing of the start of the program.
const PODS: [u64; 2] = [50, 250];
/// The hash maps of the standard library begin with another number in each run, and `memcpy` differs between processors.
const CHANCE: f64 = 1.05;

/// The content of `instructions.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Baseline {
    toolchain: String,
    /// By policy.
    instructions: BTreeMap<String, u64>,
}

/// The machines for which a policy has another result than without one.
const MACHINES: [(&str, &str); 6] = [
    ("aws-efa", "p5.48xlarge"),
    ("azure-infiniband", "Standard_ND96isr_H100_v5"),
    ("gcp-gib", "a3-ultragpu-8g"),
    ("gcp-tcpx", "a3-highgpu-8g"),
    ("gcp-tcpxo", "a3-megagpu-8g"),
    ("oci-sriov", "BM.GPU.H100.8"),
];

/// A worker of a training job.
fn pod(policy: &str) -> Value {
    let machine = MACHINES.iter().find(|(name, _)| *name == policy).map_or("", |(_, machine)| machine);
    let env = |at: usize| json!({"name": format!("SETTING_{at}"), "value": format!("value-{at}")});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "namespace": "training",
            "labels": {"app": "train", "batch.kubernetes.io/job-name": "train"},
            "annotations": {"nmp.nvidia.com/enable-multi-node-networking": "true"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "0f9b", "controller": true}],
        },
        "spec": {
            "containers": [{
                "name": "worker",
                "image": "registry.example.com/train:v2",
                "command": ["torchrun", "--nnodes=4", "--nproc_per_node=8", "train.py"],
                "env": (0..12).map(env).collect::<Vec<_>>(),
                "resources": {"limits": {"memory": "512Gi", "nvidia.com/gpu": "8"},
                    "requests": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "nodeSelector": {"node.kubernetes.io/instance-type": machine},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "restartPolicy": "Never",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    })
}

/// The instructions of a run of the program.
fn run(policy: &str, folder: &Path, pods: u64) -> u64 {
    let file = folder.join("pods.json");
    std::fs::write(&file, format!("{}\n", pod(policy)).repeat(usize::try_from(pods).unwrap())).unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, "mutate", "-q", "-o", "patch"])
        .args(["--policy", policy, "-f"])
        .arg(&file)
        .output()
        .expect("valgrind, which counts");
    let text = String::from_utf8_lossy(&output.stderr);
    let patches = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!(patches > 0, "{policy}: the pods are injected: {text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    collected.1.trim().parse().expect("a number")
}

fn toolchain() -> String {
    let output = Command::new("rustc").arg("-V").output().expect("the compiler");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let count = |name: &str| {
        let [few, many] = PODS.map(|pods| run(name, folder.path(), pods));
        (name.to_owned(), (many - few) / (PODS[1] - PODS[0]))
    };
    let seen: BTreeMap<String, u64> = builtin::POLICIES.iter().map(|policy| count(policy.name)).collect();
    let now = Baseline { toolchain: toolchain(), instructions: seen };
    if std::env::args().any(|argument| argument == "--update") {
        std::fs::write(BASELINE, serde_json::to_string_pretty(&now).unwrap() + "\n").unwrap();
    }
    let known: Baseline = serde_json::from_str(&std::fs::read_to_string(BASELINE).unwrap()).unwrap();
    println!("instructions for a pod, with {} (known: {})", now.toolchain, known.toolchain);
    let mut worse = false;
    for (name, count) in &now.instructions {
        let before = known.instructions.get(name).copied().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let ratio = *count as f64 / before as f64;
        println!("{name:<24} {count:>12} {before:>12} {ratio:>8.3}");
        worse |= ratio > CHANCE;
    }
    if worse && now.toolchain == known.toolchain {
        println!("a pod takes more instructions than before; `-- --update` accepts that");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
