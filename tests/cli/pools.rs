//! `fabric-injector nodes`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Run, assert_file_snapshot, run};

fn node(name: &str, provider_id: &str, labels: &Value, capacity: &Value, ready: &str) -> Value {
    json!({
        "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn aws(name: &str, kind: &str, capacity: &Value) -> Value {
    let labels = json!({"node.kubernetes.io/instance-type": kind});
    node(name, &format!("aws:///us-east-1a/{name}"), &labels, capacity, "True")
}

fn gpus(efa: u8) -> Value {
    json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa.to_string(), "cpu": "192"})
}

fn nodes(items: &[Value]) -> Run {
    run(&["nodes", "-f", "-"], json!({"kind": "List", "items": items}).to_string())
}

#[test]
fn a_pool_has_its_devices_its_policy_and_the_parameters_of_its_pods() {
    let cpu = aws("c", "m5.large", &json!({"cpu": "2"}));
    let run = nodes(&[aws("a", "p5.48xlarge", &gpus(32)), aws("b", "p5.48xlarge", &gpus(32)), cpu]).exits(0);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stdout -----
    MACHINE      READY  GPUS              DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  2/2    8 nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)
    ");
}

/// Found by the fuzzer of nodes: the sum of their devices overflowed.
#[test]
fn more_devices_than_any_node_has_are_still_counted() {
    let capacity = json!({"nvidia.com/gpu": "8", "rdma/fabric0": i64::MAX, "rdma/fabric1": i64::MAX});
    let run = nodes(&[node("a", "digitalocean://1", &json!({}), &capacity, "True")]);
    assert!(run.recorded().contains("8 nvidia.com/gpu"), "{}", run.recorded());
}

/// The networks of Google's nodes: those that are missing have no resource.
#[test]
fn networks_that_are_assumed_are_told() {
    let google = |networks: usize, name: &str| {
        let names = (0..networks).map(|at| format!("networking.gke.io.networks/{name}{at}"));
        let of_gpus = [("nvidia.com/gpu".to_owned(), json!("8"))].into_iter();
        let capacity: Value = of_gpus.chain(names.map(|name| (name, json!("1")))).collect();
        node("a", "gce://a", &json!({"node.kubernetes.io/instance-type": "a3-megagpu-8g"}), &capacity, "True")
    };
    nodes(&[google(8, "gpu-nic")]).exits(0);
    let told = [0, 7, 10].map(|networks| nodes(&[google(networks, "net")]).exits(1).recorded());
    assert_file_snapshot!(told.join("\n"));
}

#[test]
fn each_fault_of_a_pool_is_named() {
    let answers = [
        vec![aws("a", "p5.48xlarge", &gpus(32)), aws("b", "p5.48xlarge", &gpus(0))],
        vec![aws("a", "p5.48xlarge", &gpus(32)), aws("b", "p5.48xlarge", &gpus(31))],
        vec![aws("a", "p5.48xlarge", &gpus(16))],
        vec![aws("a", "p6-b200.48xlarge", &gpus(10))],
        vec![aws("a", "p5.48xlarge", &gpus(0))],
        vec![aws("a", "p99.48xlarge", &gpus(0))],
    ]
    .map(|items| nodes(&items).recorded());
    assert_file_snapshot!(answers.join("\n"));
}

#[test]
fn nodes_that_deviate_from_their_pool_are_named_and_lower_nobody() {
    let mut items: Vec<Value> = ["a", "b", "c"].map(|name| aws(name, "p5.48xlarge", &gpus(32))).into();
    items.extend(["d", "e"].map(|name| aws(name, "p5.48xlarge", &gpus(4))));
    assert_snapshot!(nodes(&items).recorded(), @"
    exit status: 1
    ----- stdout -----
    MACHINE      READY  GPUS              DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  5/5    8 nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)

    warning: p5.48xlarge: 2 of 5 Ready nodes have another number of `vpc.amazonaws.com/efa` than 32, on which pods count: `d`, `e` (counts_differ)
    ");
}

#[test]
fn devices_that_no_pod_can_get_are_named() {
    let mut unhealthy = aws("a", "p5.48xlarge", &gpus(32));
    unhealthy["status"]["allocatable"] = gpus(3);
    assert_snapshot!(nodes(&[unhealthy, aws("b", "p5.48xlarge", &gpus(32))]).recorded(), @"
    exit status: 1
    ----- stdout -----
    MACHINE      READY  GPUS              DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  2/2    8 nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)

    warning: p5.48xlarge: 1 of 2 Ready nodes have unhealthy devices, so that pods get fewer of `vpc.amazonaws.com/efa`, on one of them 3: see the log of the device plugin there (devices_unhealthy)
    ");
    let labels = json!({"node.kubernetes.io/instance-type": "p5.48xlarge"});
    let not_ready = node("c", "aws:///us-east-1a/c", &labels, &gpus(32), "False");
    assert_snapshot!(nodes(&[not_ready]).recorded(), @"
    exit status: 1
    ----- stdout -----
    MACHINE      READY  GPUS              DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  0/1    8 nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)

    warning: p5.48xlarge: no node is Ready: see `kubectl describe node` (no_node_ready)
    ");
}

#[test]
fn a_device_that_is_gone_is_told_from_one_that_never_was() {
    let never = aws("c", "p5.48xlarge", &json!({"nvidia.com/gpu": "8"}));
    let run = nodes(&[aws("a", "p5.48xlarge", &gpus(32)), aws("b", "p5.48xlarge", &gpus(0)), never]);
    assert_snapshot!(run.recorded(), @"
    exit status: 1
    ----- stdout -----
    MACHINE      READY  GPUS              DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  3/3    8 nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)

    warning: p5.48xlarge: 1 of 3 Ready nodes no longer offer `vpc.amazonaws.com/efa`; see whether the device plugin runs there: `b` (plugin_missing)

    warning: p5.48xlarge: 1 of 3 Ready nodes never offered `vpc.amazonaws.com/efa`; the device plugin has not run there, or they were created without such devices: `c` (plugin_missing)
    ");
}

#[test]
fn gpus_of_resource_slices_are_those_of_a_pool() {
    let gpu = json!({"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}});
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a-gpu"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "devices": vec![gpu; 8],
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}},
    });
    let dra = aws("a", "p5.48xlarge", &json!({"vpc.amazonaws.com/efa": "32"}));
    assert_snapshot!(nodes(&[dra.clone(), slice.clone()]).recorded(), @"
    exit status: 0
    ----- stdout -----
    MACHINE      READY  GPUS                  DEVICES                   POLICY   PARAMETERS
    p5.48xlarge  1/1    8 gpu.nvidia.com/gpu  32 vpc.amazonaws.com/efa  aws-efa  efaDevicesPerGPU=4 (nodes)
    ");
    assert_snapshot!(nodes(std::slice::from_ref(&dra)).recorded(), @"
    exit status: 0
    ----- stderr -----
    1 node, and no GPU that a policy knows
    ");
    assert_snapshot!(nodes(&[dra, slice, json!({"kind": "Pod"})]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: `items[2]` is not a node, but of the kind `Pod`
    hint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`
    ");
}

#[test]
fn the_json_has_the_pools_and_their_problems() {
    let items = json!({"kind": "List", "items": [aws("a", "p5.48xlarge", &gpus(16))]}).to_string();
    let run = run(&["nodes", "-f", "-", "-o", "json"], &items).exits(1);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let pool = &report["pools"][0];
    assert_eq!((&report["version"], &report["nodes"]), (&json!(1), &json!(1)));
    assert_eq!(pool["devices"], json!({"vpc.amazonaws.com/efa": 16}));
    assert_eq!(pool["policy"], "aws-efa");
    assert_eq!(pool["problems"][0]["code"], "nodes_offer_less");
    let parameter = &pool["parameters"][0];
    assert_eq!((&parameter["name"], &parameter["source"]), (&json!("efaDevicesPerGPU"), &json!("nodes")));
}

#[test]
fn a_cluster_without_gpus_and_a_broken_file_are_told() {
    assert_snapshot!(nodes(&[aws("c", "m5.large", &json!({"cpu": "2"}))]).recorded(), @"
    exit status: 0
    ----- stderr -----
    1 node, and no GPU that a policy knows
    ");
    assert_snapshot!(super::run(&["nodes", "-f", "-"], "kind: Pod\n").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: it is neither a list of nodes nor a node
    hint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`
    ");
}

#[test]
fn without_a_policy_the_nodes_choose_it() {
    let nodes = json!({"kind": "List", "items": [aws("a", "p5.48xlarge", &gpus(32))]}).to_string();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: train\n  annotations: {nmp.nvidia.com/enable-multi-node-networking: \
               \"true\"}\nspec:\n  containers:\n    - {name: train, image: train, resources: {limits: {nvidia.com/gpu: 8}}}\n";
    let folder = super::folder(&[("pod.yaml", pod)]);
    let run = super::run_in(folder.path(), &["mutate", "-f", "pod.yaml", "--nodes", "-"], &nodes).exits(0);
    let annotations = &run.documents()[0]["metadata"]["annotations"];
    let stamp = annotations["fabric-injector.io/injected"].as_str().unwrap();
    assert!(stamp.starts_with("aws-efa@"), "{stamp}");
    super::run_in(folder.path(), &["mutate", "-f", "pod.yaml"], "").exits(2).says(&["no policy is named"]);
}
