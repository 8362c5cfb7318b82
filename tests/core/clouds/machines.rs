//! What each policy knows of the machines of its cloud, and what the clouds with `NVLink` between nodes share.

use serde_json::json;

use crate::helpers::{on, served, with, worker};

/// An instance type, the GPUs of a pod on it, and the devices that the pod gets.
const AWS: &[(&str, u32, i64)] = &[
    ("p3dn.24xlarge", 8, 1),
    ("p4d.24xlarge", 8, 4),
    ("p4de.24xlarge", 8, 4),
    ("p5.4xlarge", 1, 1),
    ("p5.48xlarge", 8, 32),
    ("p5e.48xlarge", 8, 32),
    ("p5en.48xlarge", 8, 16),
    ("p6-b200.48xlarge", 8, 8),
    ("p6-b300.48xlarge", 8, 16),
    ("p6e-gb200.36xlarge", 4, 4),
    ("g4dn.8xlarge", 1, 1),
    ("g4dn.12xlarge", 4, 1),
    ("g4dn.metal", 8, 1),
    ("g5.12xlarge", 4, 1),
    ("g5.24xlarge", 4, 1),
    ("g5.48xlarge", 8, 1),
    ("g6.48xlarge", 8, 1),
    ("gr6.8xlarge", 1, 1),
    ("g6e.12xlarge", 4, 1),
    ("g6e.24xlarge", 4, 2),
    ("g6e.48xlarge", 8, 4),
    ("g7.12xlarge", 2, 1),
    ("g7.48xlarge", 8, 2),
    ("g7e.24xlarge", 4, 2),
    ("g7e.48xlarge", 8, 4),
];

const AZURE: &[(&str, u32, i64)] = &[
    ("Standard_ND40rs_v2", 8, 1),
    ("Standard_ND96asr_v4", 8, 8),
    ("Standard_ND96amsr_A100_v4", 8, 8),
    ("Standard_ND96isr_H100_v5", 8, 8),
    ("Standard_ND96isr_H200_v5", 8, 8),
    ("Standard_ND128isr_NDR_GB200_v6", 4, 4),
    ("Standard_ND128isr_GB300_v6", 4, 4),
];

/// One ratio held for the whole cluster: 8 EFA devices on a p5.48xlarge, which has 32.
#[test]
fn the_devices_follow_the_instance_type() {
    for (policy, resource, sizes) in
        [("aws-efa", "vpc.amazonaws.com/efa", AWS), ("azure-infiniband", "rdma/hca_shared_devices_a", AZURE)]
    {
        for &(size, gpus, devices) in sizes {
            let served = served(policy, &[], on(size, worker(gpus)));
            assert_eq!(served.devices("worker", resource), devices, "{size}");
            let known = |code: &&str| *code != "no_compute_domain";
            assert_eq!(served.codes().into_iter().filter(known).count(), 0, "{size}");
        }
    }
}

/// Sizes without a fabric got the default ratio, and their pods stayed pending.
#[test]
fn sizes_without_a_fabric_get_no_device() {
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
                "g4dn.xlarge",
                "g5.4xlarge",
                "g6.2xlarge",
                "g6e.4xlarge",
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
                "Standard_ND96is_H100_v5",
                "Standard_NC96ads_A100_v4",
                "Standard_NC80adis_H100_v5",
            ],
        ),
        (
            "oci-sriov",
            "nvidia.com/mlnxnics",
            &[
                "VM.GPU.A10.1",
                "VM.GPU.A10.2",
                "BM.GPU.A10.4",
                "BM.GPU.L40S.4",
                "BM.GPU.RTXPRO.8",
                "BM.GPU.GB200.4",
                "BM.GPU.GB200-v3.4",
                "BM.GPU.GB300.4",
            ],
        ),
    ] {
        for size in sizes {
            let served = served(policy, &[], on(size, worker(1)));
            assert_eq!(served.devices("worker", resource), 0, "{size}");
            assert!(served.codes().contains(&"instance_type_without_fabric"), "{size}: {:?}", served.codes());
        }
    }
}

const GRACE: [(&str, &str); 3] = [
    ("aws-efa", "p6e-gb200.36xlarge"),
    ("azure-infiniband", "Standard_ND128isr_GB300_v6"),
    ("oci-sriov", "BM.GPU.GB300.4"),
];

/// NCCL had to use `NVLink` between nodes without a channel, and ended with a system error.
#[test]
fn nvlink_between_nodes_needs_a_claim() {
    for (policy, instance_type) in GRACE {
        let without = served(policy, &[], on(instance_type, worker(4)));
        assert_eq!(without.env("worker", "NCCL_MNNVL_ENABLE"), Some("0"), "{policy}");
        assert_eq!(without.env("worker", "NCCL_NVLS_ENABLE"), Some("0"), "{policy}");
        assert!(without.codes().contains(&"no_compute_domain"), "{policy}");

        let claims = json!([{"name": "c", "resourceClaimTemplateName": "job-1-channel"}]);
        let mut own = on(instance_type, worker(4));
        own["spec"] = with(own["spec"].take(), &json!({"resourceClaims": claims}));
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
