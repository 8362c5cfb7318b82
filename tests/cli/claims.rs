//! What a claim brings, by the objects in the input of each command.

use std::path::Path;

use insta::assert_snapshot;

use super::{TRIGGER, folder, run, run_in};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: worker, annotations: {@: \"true\"}}\nspec:\n  \
    nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n  \
    resourceClaims: [{name: x, resourceClaimTemplateName: run}]\n  containers:\n  - name: main\n    \
    image: registry.example/train:1\n    resources: {claims: [{name: x}]}\n";

/// A template of eight GPUs, in a List.
const TEMPLATE: &str = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: resource.k8s.io/v1beta2\n  \
    kind: ResourceClaimTemplate\n  metadata: {name: run}\n  spec: {spec: {devices: {requests: [{name: gpu, \
    exactly: {deviceClassName: gpu.nvidia.com, count: 8}}]}}}\n";

fn pod() -> String {
    POD.replace('@', TRIGGER)
}

/// Each command, on these files or on standard input, with the text by which it tells that the claim has GPUs.
fn knows(folder: &Path, files: &[&str], stdin: &str) -> [bool; 3] {
    let named: Vec<&str> = files.iter().flat_map(|file| ["-f", file]).collect();
    let says = |command: &[&str], text: &str| {
        run_in(folder, &[command, &named].concat(), stdin).text_lossy().contains(text)
    };
    [
        says(&["mutate", "--policy", "aws-efa"], "vpc.amazonaws.com/efa: \"32\""),
        says(&["lint", "--policy", "aws-efa", "-o", "json"], "vpc.amazonaws.com/efa"),
        says(&["policy", "explain", "aws-efa"], "main, 8 GPUs"),
    ]
}

#[test]
fn a_template_is_found_wherever_it_stands() {
    let folder = folder(&[("a.yaml", &pod()), ("b.yaml", TEMPLATE)]);
    for (files, stdin) in [
        (&["a.yaml", "b.yaml"][..], String::new()),
        (&["b.yaml", "a.yaml"], String::new()),
        (&["."], String::new()),
        (&["-"], format!("{}---\n{TEMPLATE}", pod())),
        (&["-"], format!("{TEMPLATE}---\n{}", pod())),
        (&["b.yaml", "-"], pod()),
    ] {
        let [mutated, linted, explained] = knows(folder.path(), files, &stdin);
        assert!(mutated && linted, "{files:?} {mutated} {linted}");
        // It explains a pod before the input ends.
        assert!(explained || stdin.starts_with(&pod()) && files == ["-"], "{files:?}");
    }
    assert_eq!(knows(folder.path(), &["a.yaml"], ""), [false; 3]);
}

#[test]
fn a_template_of_another_namespace_is_another_one() {
    let elsewhere = TEMPLATE.replace("{name: run}", "{name: run, namespace: ml}");
    let stream = format!("{}---\n{elsewhere}", pod());
    let devices = |arguments: &[&str]| {
        let run = run(&[&["mutate", "--policy", "aws-efa"], arguments].concat(), &stream);
        run.text_lossy().contains("vpc.amazonaws.com/efa")
    };
    assert!(!devices(&[]) && devices(&["-n", "ml"]));
}

#[test]
fn a_name_that_decides_is_reported() {
    let named = pod().replace("template: run", "").replace("TemplateName: run", "TemplateName: 8gpu");
    assert_snapshot!(run(&["mutate", "--policy", "aws-efa"], named).said(), @"
    stdin: document 1: Pod/worker: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 32, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/claims fabric-injector.io/injected
      warning: no device class is known of the claim `x`: the name of such a claim decides what it brings (claim_by_name)
    ");
}

#[test]
fn a_claim_of_which_nothing_is_known_is_named() {
    let run = |command: &str| run(&[command, "--policy", "aws-efa", "-n", "ml"], pod());
    assert_snapshot!(run("mutate").said(), @"
    stdin: document 1: Pod/worker: skipped: no container requests GPUs, unless the claim `x` brings some: its ResourceClaimTemplate `run` must be in the namespace `ml`, or in the input of a command (no_gpu_container)
      + pod: annotation fabric-injector.io/skipped
    ");
    assert_snapshot!(run("lint").recorded(), @"
    exit status: 0
    ----- stdout -----
    stdin:1: warning: Pod/worker: left alone: no container requests GPUs, unless the claim `x` brings some: its ResourceClaimTemplate `run` must be in the namespace `ml`, or in the input of a command (no_gpu_container)
    ----- stderr -----
    0 errors and 1 warning
    ");
}
