//! Faults of the policy for AWS, and what is easy to get wrong on EFA.

use crate::helpers::{on, served, worker};

const EFA: &str = "vpc.amazonaws.com/efa";

/// A ratio that does not fit the hardware left jobs pending or on TCP, without a word about it.
#[test]
fn aws_a_ratio_that_contradicts_the_instance_type_is_reported() {
    let served = served("aws-efa", &[("efaDevicesPerGPU", "1")], on("p5.48xlarge", worker(8)));
    assert_eq!(served.devices("worker", EFA), 8);
    assert_eq!(served.codes(), ["parameter_contradicts"]);
    let message = served.message("parameter_contradicts");
    assert_eq!(
        message,
        "`efaDevicesPerGPU` is set to 1, and the table has 4 for `node.kubernetes.io/instance-type: p5.48xlarge`"
    );
}

/// `FI_EFA_USE_DEVICE_RDMA=1` is wrong on g4dn and g5, and a current plugin sets itself up everywhere.
#[test]
fn aws_no_variable_that_the_plugin_sets_by_itself() {
    for instance_type in ["g4dn.12xlarge", "g5.48xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"] {
        let served = served("aws-efa", &[], on(instance_type, worker(4)));
        let names: Vec<&str> = served.variables("worker", &[""]).into_keys().collect();
        assert_eq!(names, ["FI_EFA_USE_HUGE_PAGE", "NCCL_SOCKET_IFNAME"], "{instance_type}");
    }
}
