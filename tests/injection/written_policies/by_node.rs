//! Pools by label, and two fabrics behind one annotation.

use serde_json::{Value, json};

use super::{on, policies, refused, served};
use crate::helpers::{NETWORKS, Served, worker};

const EFA: &str = "vpc.amazonaws.com/efa";
const PRODUCT: &str = "nvidia.com/gpu.product";

/// The EFA interfaces and the warnings of a pod.
fn interfaces(served: &Served) -> (i64, Vec<&str>) {
    (served.devices("worker", EFA), served.codes())
}

#[test]
fn the_label_of_the_operator_and_the_product_with_the_gpus_give_the_ratio() {
    let policies = policies(&["pools"], &[]);
    let case = |pod: Value, devices: i64| {
        let served = served(&policies, pod);
        assert_eq!(interfaces(&served), (devices, vec![]), "{}", served.pod);
    };
    case(on(json!({"pool": "p4d"})), 4);
    case(on(json!({"pool": "Team-A-P5"})), 32);
    case(on(json!({"pool": "cpu-only"})), 0);
    case(on(json!({PRODUCT: "NVIDIA-H100-80GB-HBM3"})), 32);
    case(on(json!({"pool": "b200", PRODUCT: "NVIDIA-H100-80GB-HBM3"})), 8);
    let mut one = worker(1);
    one["spec"]["nodeSelector"] = json!({PRODUCT: "NVIDIA-H100-80GB-HBM3"});
    case(one, 1);
}

/// A pod whose affinity allows these pools.
fn in_pools(pools: &[&str]) -> Value {
    let mut pod = worker(8);
    let expression = json!({"key": "pool", "operator": "In", "values": pools});
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}});
    pod
}

#[test]
fn of_pools_that_disagree_the_least_counts_and_unknown_ones_have_the_default() {
    let policies = policies(&["pools"], &[]);
    assert_eq!(interfaces(&served(&policies, in_pools(&["p5", "p5e"]))), (32, vec![]));
    let disagree = served(&policies, in_pools(&["p5", "p4d"]));
    assert_eq!(interfaces(&disagree), (4, vec!["nodes_disagree"]));
    let said = disagree.message("nodes_disagree");
    assert!(said.contains("`pool: p4d`") && said.contains("`pool: p5`"), "{said}");
    let unknown = served(&policies, on(json!({"pool": "new"})));
    assert_eq!(interfaces(&unknown), (8, vec!["parameter_assumed"]));
    let said = unknown.message("parameter_assumed");
    assert!(said.contains("`pool: new`") && said.contains(PRODUCT), "{said}");
}

#[test]
fn each_fabric_has_its_devices_networks_and_settings() {
    let policies = policies(&["two-fabrics"], &[]);
    let efa = served(&policies, on(json!({"fabric": "efa"})));
    assert_eq!((efa.devices("worker", EFA), efa.devices("worker", "nvidia.com/roce")), (32, 0));
    assert_eq!((efa.env("worker", "FI_PROVIDER"), efa.annotation(NETWORKS)), (Some("efa"), None));
    let roce = served(&policies, on(json!({"fabric": "roce"})));
    assert_eq!((roce.devices("worker", EFA), roce.devices("worker", "nvidia.com/roce")), (0, 8));
    assert_eq!(roce.annotation(NETWORKS), Some(["roce-net"; 8].join(",").as_str()));
    assert_eq!(roce.env("worker", "NCCL_IB_GID_INDEX"), Some("3"));
    let set = super::policies(&["two-fabrics"], &["nicsPerGPU=2"]);
    assert_eq!(interfaces(&served(&set, on(json!({"fabric": "efa"})))), (16, vec!["parameter_contradicts"]));
}

#[test]
fn a_pod_that_selects_neither_fabric_is_refused() {
    for pod in [on(json!({})), on(json!({"fabric": "ethernet"}))] {
        let (code, said) = refused(&policies(&["two-fabrics"], &[]), pod);
        assert_eq!(code, "fabric_not_selected");
        assert!(said.contains("the value `efa` or `roce`"), "{said}");
    }
}
