//! Faults that `nodes` finds in the pools of a cluster, and `lint` in workloads for them.

use std::fs;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::processes::outcome;
use crate::workloads::{TRIGGER, annotated_template, job, template};
use crate::{eventually, nodes};

const EFA: &str = "vpc.amazonaws.com/efa";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// A fault of a pool: a machine type, the number of EFA interfaces of each of its nodes, and the code.
const POOLS: &[(&str, &[u32], &str)] = &[
    ("p5en.48xlarge", &[16, 0], "plugin_missing"),
    ("p5e.48xlarge", &[32, 31], "counts_differ"),
    ("p6-b200.48xlarge", &[10], "nodes_offer_more"),
    ("p6-b300.48xlarge", &[0], "no_node_fits"),
    ("p4de.24xlarge", &[4], "devices_unhealthy"),
    ("p99.metal", &[0], "parameter_assumed"),
];

/// Makes the nodes of each pool, and returns their names.
async fn start(cluster: &Cluster) -> Vec<String> {
    let spec = json!({"providerID": "aws:///us-east-1a/i-1"});
    let mut names = Vec::new();
    for (machine, counts, code) in POOLS {
        for (number, count) in counts.iter().enumerate() {
            let name = format!("{}-{number}", code.replace('_', "-"));
            let devices = [("nvidia.com/gpu", 8), (EFA, *count)];
            nodes::add_of(&cluster.api, &name, spec.clone(), &[(INSTANCE_TYPE, machine)], &devices).await;
            if *code == "devices_unhealthy" {
                let status = json!({"status": {"allocatable": {EFA: "1"}}});
                cluster.api.merge(&format!("/api/v1/nodes/{name}/status"), &status).await.ok();
            }
            names.push(name);
        }
    }
    nodes::heartbeat(&cluster.api).await;
    names
}

fn leader_worker_set(leader: &Value, worker: &Value) -> Value {
    let templates = json!({"leaderTemplate": leader, "workerTemplate": worker});
    json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"},
        "spec": {"leaderWorkerTemplate": templates}})
}

/// A workload for each fault, and the code.
fn workloads() -> Vec<(Value, &'static str)> {
    let on = |machine: &str, gpus: u32| {
        let mut template = annotated_template();
        template["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: machine});
        template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus.into();
        template
    };
    let train = |template: &Value| job("default", "train", 2, template);
    let mut misplaced = train(&template(false, "p5.48xlarge"));
    misplaced["metadata"]["annotations"] = json!({TRIGGER: "true"});
    let mut of_the_host = on("BM.GPU.H100.8", 8);
    of_the_host["spec"]["hostNetwork"] = true.into();
    let p5en = on("p5en.48xlarge", 8);
    vec![
        (misplaced, "trigger_on_workload"),
        (leader_worker_set(&p5en, &template(false, "p5en.48xlarge")), "peer_without_trigger"),
        (leader_worker_set(&p5en, &on("p5e.48xlarge", 8)), "different_nodes"),
        (train(&on("a3-megagpu-8g", 4)), "fewer_gpus_than_node"),
        (train(&of_the_host), "host_network"),
        (train(&on("p6-b300.48xlarge", 8)), "no_node_fits"),
    ]
}

/// The policy of the cloud whose machine a workload is for.
fn policy(workload: &Value) -> &'static str {
    let text = workload.to_string();
    match () {
        () if text.contains("BM.GPU") => "oci-sriov",
        () if text.contains("a3-megagpu") => "gcp-tcpxo",
        () => "aws-efa",
    }
}

pub(super) async fn nodes_and_lint_name_each_fault(cluster: &Cluster) {
    let names = start(cluster).await;
    eventually("`nodes` names the fault of each pool", async || {
        let (succeeded, said) = outcome(&mut cluster.program(&["nodes"])).await;
        assert!(!succeeded, "{said}");
        let is_named = |machine: &str, code: &str| {
            let mut lines = said.lines().filter(|line| line.starts_with(&format!("warning: {machine}: ")));
            lines.any(|line| line.ends_with(&format!("({code})")))
        };
        POOLS.iter().all(|(machine, _, code)| is_named(machine, code))
    })
    .await;

    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (workload, code) in workloads() {
        fs::write(file.path(), workload.to_string()).unwrap();
        let fail_on = format!("warning={code}");
        let arguments = ["--cluster", "--policy", policy(&workload), "--fail-on", &fail_on, "-f", path];
        // A node fits no pod until the controller has removed the taint of a new one.
        eventually(&format!("`lint` reports {code}"), async || {
            let (succeeded, said) =
                outcome(&mut cluster.program(&[&["lint"][..], &arguments].concat())).await;
            !succeeded && said.contains(&format!("({code})"))
        })
        .await;
    }
    for name in names {
        cluster.api.delete(&format!("/api/v1/nodes/{name}")).await.ok();
    }
}
