//! The faults of the audit of the built-in policies, by their number there. Those of Google Cloud are in `gcp`.

use serde_json::{Value, json};

use crate::helpers::{on, served, worker};

const PRODUCT: &str = "nvidia.com/gpu.product";

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[key] = value;
    pod
}

fn of_product(product: &str, pod: Value) -> Value {
    with(pod, "/spec/nodeSelector", json!({PRODUCT: product}))
}

const GRACE: [(&str, &str); 3] = [
    ("aws-efa", "p6e-gb200.36xlarge"),
    ("azure-infiniband", "Standard_ND128isr_GB300_v6"),
    ("oci-sriov", "BM.GPU.GB300.4"),
];

/// NCCL had to use `NVLink` between nodes without a channel, and ended with a system error.
#[test]
fn audit_1_grace_without_a_claim() {
    for (policy, instance_type) in GRACE {
        let without = served(policy, &[], on(instance_type, worker(4)));
        assert_eq!(without.env("worker", "NCCL_MNNVL_ENABLE"), Some("0"), "{policy}");
        assert_eq!(without.env("worker", "NCCL_NVLS_ENABLE"), Some("0"), "{policy}");
        assert!(without.codes().contains(&"no_compute_domain"), "{policy}");

        let claims = json!([{"name": "c", "resourceClaimTemplateName": "job-1-channel"}]);
        let own = with(on(instance_type, worker(4)), "/spec/resourceClaims", claims);
        let own = served(policy, &[], own);
        assert_eq!(own.env("worker", "NCCL_MNNVL_ENABLE"), Some("1"), "{policy}");
        assert!(!own.codes().contains(&"no_compute_domain"), "{policy}");
        assert_eq!(own.pod["spec"]["resourceClaims"].as_array().unwrap().len(), 1, "{policy}");

        let sets = [("computeDomainTemplate", "${pod.metadata.?labels[?'job'].orValue('x')}-channel")];
        let template = served(policy, &sets, on(instance_type, worker(4)));
        assert_eq!(template.env("worker", "NCCL_MNNVL_ENABLE"), Some("1"), "{policy}");
        assert_eq!(template.pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"], "x-channel");
        let claims = &template.container("worker")["resources"]["claims"];
        assert_eq!(claims[0]["name"], template.pod["spec"]["resourceClaims"][0]["name"], "{policy}");
    }
}

/// Oracle's stack has no virtual functions unless the operator of the cluster asks for them.
#[test]
fn audit_3_oci_attachment_is_a_parameter() {
    let host = served("oci-sriov", &[("rdmaAttachment", "hostNetwork")], on("BM.GPU.H100.8", worker(8)));
    assert_eq!(host.pod["spec"]["hostNetwork"], true);
    assert_eq!(host.devices("worker", "nvidia.com/mlnxnics"), 0);
    assert!(host.env("worker", "NCCL_IB_HCA").unwrap().starts_with("=mlx5_0,"));
}

/// A hostNetwork pod resolved no name of the cluster.
#[test]
fn audit_4_oci_host_network_needs_its_dns_policy() {
    let pod = with(on("BM.GPU.H100.8", worker(8)), "/spec/hostNetwork", json!(true));
    let own = served("oci-sriov", &[], pod.clone());
    assert_eq!(own.pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    let defaulted = served("oci-sriov", &[], with(pod.clone(), "/spec/dnsPolicy", json!("ClusterFirst")));
    assert_eq!(defaulted.pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    let chosen = served("oci-sriov", &[], with(pod, "/spec/dnsPolicy", json!("Default")));
    assert_eq!(chosen.pod["spec"]["dnsPolicy"], "Default");
}

/// Sizes without a fabric got the default ratio, and their pods stayed pending.
#[test]
fn audit_5_sizes_without_a_fabric_get_no_device() {
    for (policy, resource, sizes) in [
        (
            "aws-efa",
            "vpc.amazonaws.com/efa",
            &[
                "g7e.2xlarge",
                "g7e.4xlarge",
                "gr6.4xlarge",
                "p3.16xlarge",
                "g5g.16xlarge",
                "g6f.xlarge",
                "g7.2xlarge",
            ][..],
        ),
        (
            "azure-infiniband",
            "rdma/hca_shared_devices_a",
            &[
                "Standard_NC24ads_A100_v4",
                "Standard_NC40ads_H100_v5",
                "Standard_NC128lds_xl_RTXPRO6000BSE_v6",
                "Standard_NV36ads_A10_v5",
            ],
        ),
        (
            "oci-sriov",
            "nvidia.com/mlnxnics",
            &["VM.GPU.A10.1", "VM.GPU.A10.2", "BM.GPU.A10.4", "BM.GPU.L40S.4"],
        ),
    ] {
        for size in sizes {
            let served = served(policy, &[], on(size, worker(1)));
            assert_eq!(served.devices("worker", resource), 0, "{size}");
            assert!(served.codes().contains(&"instance_type_without_fabric"), "{size}: {:?}", served.codes());
        }
    }
}

/// A pod whose GPUs come by claim was left alone.
#[test]
fn audit_8_gpus_by_claim_are_served() {
    for policy in ["aws-efa", "azure-infiniband", "oci-sriov"] {
        let pod = with(
            worker(8),
            "/spec/resourceClaims",
            json!([{"name": "g", "resourceClaimTemplateName": "gpus"}]),
        );
        let pod = with(pod, "/spec/containers/0/resources", json!({"claims": [{"name": "g"}]}));
        let by_claim = served(policy, &[], pod);
        assert!(by_claim.env("worker", "NCCL_SOCKET_IFNAME").is_some(), "{policy}");
        let pod = with(
            worker(8),
            "/spec/containers/0/resources",
            json!({"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 8}}),
        );
        assert!(served(policy, &[], pod).env("worker", "NCCL_SOCKET_IFNAME").is_some(), "{policy}");
    }
}

/// A pod that selects its nodes by the GPU got the default ratio, and on Azure no topology.
#[test]
fn audit_9_the_gpu_decides_where_it_can() {
    let h100 = |policy: &str, gpus| served(policy, &[], of_product("NVIDIA-H100-80GB-HBM3", worker(gpus)));
    assert_eq!(h100("aws-efa", 8).devices("worker", "vpc.amazonaws.com/efa"), 32);
    assert!(!h100("aws-efa", 8).codes().contains(&"parameter_assumed"));
    // One H100 is a p5.4xlarge or a part of a p5.48xlarge.
    assert!(h100("aws-efa", 1).codes().contains(&"parameter_assumed"));
    assert_eq!(h100("azure-infiniband", 8).env("worker", "NCCL_IGNORE_CPU_AFFINITY"), Some("1"));
    assert!(h100("azure-infiniband", 8).env("worker", "NCCL_TOPO_FILE").is_some());
    assert_eq!(h100("oci-sriov", 8).env("worker", "NCCL_CUMEM_ENABLE"), Some("0"));
    let h200 = served("aws-efa", &[], of_product("NVIDIA-H200", worker(8)));
    assert!(h200.codes().contains(&"parameter_assumed"), "p5e and p5en differ");
    let nvl = served("azure-infiniband", &[], of_product("NVIDIA-H100-NVL", worker(2)));
    assert_eq!(nvl.devices("worker", "rdma/hca_shared_devices_a"), 0);
}

#[test]
fn audit_10_azure_tuning_of_microsoft_for_hopper() {
    let sets = [("tuning", "microsoft")];
    let tuned = served("azure-infiniband", &sets, on("Standard_ND96isr_H100_v5", worker(8)));
    for (name, value) in [
        ("NCCL_IB_QPS_PER_CONNECTION", "4"),
        ("NCCL_MIN_NCHANNELS", "32"),
        ("NCCL_P2P_NET_CHUNKSIZE", "524288"),
        ("NCCL_PXN_DISABLE", "1"),
    ] {
        assert_eq!(tuned.env("worker", name), Some(value));
    }
    let a100 = served("azure-infiniband", &sets, on("Standard_ND96asr_v4", worker(8)));
    assert_eq!(a100.env("worker", "NCCL_PXN_DISABLE"), None);
}

#[test]
fn audit_11_azure_mi300x() {
    let pod = with(worker(8), "/spec/containers/0/resources", json!({"limits": {"amd.com/gpu": 8}}));
    let served = served("azure-infiniband", &[], on("Standard_ND96isr_MI300X_v5", pod));
    assert_eq!(served.env("worker", "NCCL_NET_GDR_LEVEL"), Some("SYS"));
    assert_eq!(served.env("worker", "RCCL_MSCCL_ENABLE"), Some("0"));
    assert!(served.mounted("worker", "/etc/rccl.conf").is_some());
}

/// Microsoft's sources do not agree on these, so that they are part of the tuning and no default.
#[test]
fn audit_12_azure_grace() {
    let pod = on("Standard_ND128isr_GB300_v6", worker(4));
    let tuned = served("azure-infiniband", &[("tuning", "microsoft")], pod.clone());
    assert_eq!(tuned.env("worker", "NCCL_NET_GDR_C2C"), Some("1"));
    assert_eq!(tuned.env("worker", "NCCL_DMABUF_ENABLE"), Some("1"));
    assert_eq!(served("azure-infiniband", &[], pod).env("worker", "NCCL_DMABUF_ENABLE"), None);
}

#[test]
fn audit_13_azure_launcher_gets_what_goes_with_the_topology() {
    let mut launcher = json!({
        "metadata": {"annotations": {"nmp.nvidia.com/enable-multi-node-networking": "true"}},
        "spec": {"containers": [{"name": "launcher", "image": "i"}]},
    });
    launcher["metadata"]["labels"] = json!({"training.kubeflow.org/job-role": "launcher"});
    let served = served("azure-infiniband", &[], launcher);
    assert!(served.env("launcher", "NCCL_TOPO_FILE").is_some());
    assert_eq!(served.env("launcher", "NCCL_IGNORE_CPU_AFFINITY"), Some("1"));
}

/// The values of NVIDIA's chart keep `UCX_TLS=tcp`; a parameter leaves it out for NIXL.
#[test]
fn audit_14_ucx_is_a_parameter() {
    for policy in ["azure-infiniband", "oci-sriov"] {
        let sets = [("ucxTls", ""), ("ucxNetDevices", "")];
        let served = served(policy, &sets, worker(8));
        assert_eq!(served.env("worker", "UCX_TLS"), None, "{policy}");
        assert_eq!(served.env("worker", "UCX_NET_DEVICES"), None, "{policy}");
    }
}

/// Only the policy knows that the network has to be there, and only where the container gets it.
#[test]
fn a_missing_fabric_fails_where_the_operator_wants_it() {
    let sets = [("onMissingFabric", "fail")];
    for (policy, instance_type, network) in [
        ("aws-efa", "p5.48xlarge", "AWS Libfabric"),
        ("azure-infiniband", "Standard_ND96isr_H100_v5", "IB"),
        ("oci-sriov", "BM.GPU.H100.8", "IB"),
    ] {
        let pod = on(instance_type, worker(8));
        assert_eq!(served(policy, &sets, pod.clone()).env("worker", "NCCL_NET"), Some(network), "{policy}");
        assert_eq!(served(policy, &[], pod.clone()).env("worker", "NCCL_NET"), None, "{policy}");
        let mut one = pod;
        one["metadata"]["annotations"]["nmp.nvidia.com/num-nodes"] = json!("1");
        assert_eq!(served(policy, &sets, one).env("worker", "NCCL_NET"), None, "{policy}");
    }
    let pod = on("g5.xlarge", worker(1));
    assert_eq!(served("aws-efa", &sets, pod).env("worker", "NCCL_NET"), None);
    let env = json!([{"name": "NCCL_IB_DISABLE", "value": "1"}]);
    let pod = with(on("BM.GPU.H100.8", worker(8)), "/spec/containers/0/env", env);
    assert_eq!(served("oci-sriov", &sets, pod).env("worker", "NCCL_NET"), None);
}

/// Oracle's own manifest requests its own names, and got NVIDIA's in addition.
#[test]
fn a_pod_that_has_its_fabric_keeps_it() {
    let own = json!({"limits": {"nvidia.com/gpu": 8, "nvidia.com/rdma-vf": 16}});
    let mut pod = with(on("BM.GPU.H100.8", worker(8)), "/spec/containers/0/resources", own);
    let networks = ["rdma-vf"; 16].join(",");
    pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(networks);
    let kept = served("oci-sriov", &[], pod);
    assert_eq!(kept.devices("worker", "nvidia.com/mlnxnics"), 0);
    assert_eq!(kept.annotation("k8s.v1.cni.cncf.io/networks"), Some(networks.as_str()));
    assert!(kept.codes().contains(&"kept_fabric"));
    assert_eq!(kept.env("worker", "NCCL_IB_GID_INDEX"), Some("3"));

    let own = json!({"limits": {"nvidia.com/gpu": 8, "rdma/ib": 8}});
    let pod = with(on("Standard_ND96isr_H100_v5", worker(8)), "/spec/containers/0/resources", own);
    let kept = served("azure-infiniband", &[], pod);
    assert_eq!(kept.devices("worker", "rdma/hca_shared_devices_a"), 0);
    assert!(kept.codes().contains(&"kept_fabric"));
}
