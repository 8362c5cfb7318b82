//! Rails on the premises, `CoreWeave`, and Trainium beside GPUs.

use serde_json::{Value, json};

use super::{policies, refused, serve, served};
use crate::helpers::{INSTANCE_TYPE, NETWORKS, Served, gpu_container, on, pod, with, worker};

const EFA: &str = "vpc.amazonaws.com/efa";

fn rails(count: usize) -> String {
    (0..count).map(|rail| format!("rail-{rail}")).collect::<Vec<_>>().join(",")
}

/// The rails of which the container has a NIC.
fn resources(pod: &Served) -> Vec<i64> {
    (0..8).map(|rail| pod.devices("worker", &format!("nvidia.com/rail_{rail}"))).collect()
}

#[test]
fn a_pod_gets_a_network_and_a_device_of_each_rail() {
    let policies = policies(&["onprem-rails"], &[]);
    let all = served(&policies, worker(8));
    assert_eq!(all.annotation(NETWORKS), Some(rails(8).as_str()));
    assert_eq!(resources(&all), [1; 8]);
    let half = served(&policies, worker(4));
    assert_eq!(half.annotation(NETWORKS), Some(rails(4).as_str()));
    assert_eq!(resources(&half), [1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(half.env("worker", "NCCL_IB_GID_INDEX"), Some("3"));
}

#[test]
fn a_pod_with_nics_under_other_names_keeps_them() {
    let policies = policies(&["onprem-rails"], &[]);
    let mut own = worker(8);
    own["metadata"]["annotations"][NETWORKS] = json!("ops/hostdev-net@net1");
    own["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/hostdev"] = json!("1");
    let own = served(&policies, own);
    assert_eq!(own.annotation(NETWORKS), Some("ops/hostdev-net@net1"));
    assert_eq!((resources(&own), own.codes()), (vec![0; 8], vec!["kept_fabric"]));
    assert_eq!(own.env("worker", "NCCL_IB_GID_INDEX"), Some("3"));
}

#[test]
fn networks_of_the_pod_stay_and_a_rail_among_them_counts() {
    let policies = policies(&["onprem-rails"], &[]);
    for (own, all) in [("storage", "storage,rail-0,rail-1"), ("rail-1@net1", "rail-1@net1,rail-0")] {
        let mut pod = worker(2);
        pod["metadata"]["annotations"][NETWORKS] = json!(own);
        assert_eq!(served(&policies, pod).annotation(NETWORKS), Some(all));
    }
}

#[test]
fn gpus_in_two_containers_are_refused_with_the_reason_of_the_policy() {
    let two = pod(&json!({"containers": [gpu_container("a", 4), gpu_container("b", 4)]}));
    let (code, said) = refused(&policies(&["onprem-rails"], &[]), two);
    assert_eq!(code, "gpus_in_several_containers");
    assert!(said.contains("each rail has one NIC for a pod"), "{said}");
}

/// A worker on nodes with a class of GPUs, as `CoreWeave` labels them.
fn class(name: &str) -> Value {
    super::on(json!({"gpu.nvidia.com/class": name}))
}

#[test]
fn infiniband_is_a_switch_and_ucx_has_the_adapters_of_the_node() {
    let policies = policies(&["coreweave"], &[]);
    for (name, last) in [("H100_NVLINK_80GB", 7), ("A100_NVLINK_80GB", 3)] {
        let pod = served(&policies, class(name));
        assert_eq!(pod.devices("worker", "rdma/ib"), 1);
        let expected: Vec<String> = (0..=last).map(|adapter| format!("ibp{adapter}:1")).collect();
        assert_eq!(pod.env("worker", "UCX_NET_DEVICES"), Some(expected.join(",").as_str()));
        assert!(pod.codes().is_empty(), "{:?}", pod.warnings);
    }
}

#[test]
fn a_node_without_infiniband_and_a_pod_with_its_own_are_told() {
    let policies = policies(&["coreweave"], &[]);
    let mutation = serve(&policies, class("L40S"));
    let codes: Vec<_> = mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect();
    assert_eq!(codes, ["instance_type_without_fabric"]);
    let mut own = class("H200");
    own["spec"]["containers"][0]["resources"]["limits"]["rdma/ib"] = json!("1");
    let own = served(&policies, own);
    assert_eq!(own.env("worker", "NCCL_IB_HCA"), Some("ibp"));
}

/// A container with devices of a resource.
fn container(name: &str, resource: &str, count: u32) -> Value {
    let amounts = json!({resource: count.to_string()});
    with(
        json!({"name": name, "image": "nemo"}),
        &json!({"resources": {"limits": amounts, "requests": amounts}}),
    )
}

#[test]
fn trainium_and_gpus_have_their_own_ratios() {
    let policies = policies(&["trainium"], &[]);
    let neuron = |instance_type: &str, resource: &str, count: u32| {
        let pod = pod(&json!({"containers": [container("worker", resource, count)]}));
        served(&policies, on(instance_type, pod))
    };
    let trn1 = neuron("trn1.32xlarge", "aws.amazon.com/neuron", 16);
    assert_eq!(trn1.devices("worker", EFA), 8);
    assert_eq!(trn1.env("worker", "FI_EFA_USE_DEVICE_RDMA"), Some("1"));
    assert_eq!(trn1.env("worker", "NCCL_SOCKET_IFNAME"), None);
    assert_eq!(neuron("trn1.32xlarge", "aws.amazon.com/neuroncore", 32).devices("worker", EFA), 8);
    assert_eq!(neuron("trn2.48xlarge", "aws.amazon.com/neuron", 16).devices("worker", EFA), 16);
    assert_eq!(neuron("trn2.48xlarge", "aws.amazon.com/neuroncore", 2).devices("worker", EFA), 1);
    let gpus = served(&policies, on("p5.48xlarge", worker(8)));
    assert_eq!(gpus.devices("worker", EFA), 32);
    assert_eq!(gpus.env("worker", "NCCL_SOCKET_IFNAME"), Some("eth0"));
    assert_eq!(gpus.env("worker", "FI_PROVIDER"), None);
}

#[test]
fn each_container_has_the_ratio_of_what_it_requests() {
    let containers = [gpu_container("gpu", 8), container("neuron", "aws.amazon.com/neuron", 3)];
    let policies = policies(&["trainium"], &["efaDevicesPerGPU=0.5"]);
    let both = served(&policies, on("trn1.32xlarge", pod(&json!({"containers": containers}))));
    assert_eq!((both.devices("gpu", EFA), both.devices("neuron", EFA)), (4, 2));
    assert_eq!(both.pod["spec"]["nodeSelector"][INSTANCE_TYPE], "trn1.32xlarge");
}
