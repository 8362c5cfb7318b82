//! Faults of the policy for AWS, and what is easy to get wrong on EFA.

use fabric_injector::core::policy::PodContext;
use serde_json::{Value, json};

use crate::helpers::{
    INSTANCE_TYPE, Served, gpu_container, items, on, on_host_network, pod, policy_set, serve_as, served,
    with, worker, worker_with,
};

const EFA: &str = "vpc.amazonaws.com/efa";

/// One ratio held for the whole cluster: 8 EFA devices on a p5.48xlarge, which has 32.
#[test]
fn aws_ratio_follows_the_instance_type() {
    for (instance_type, gpus, devices) in [
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
    ] {
        let served = served("aws-efa", &[], on(instance_type, worker(gpus)));
        assert_eq!(served.devices("worker", EFA), devices, "{instance_type}");
        let known = |code: &&str| *code != "no_compute_domain";
        assert_eq!(served.codes().into_iter().filter(known).count(), 0, "{instance_type}");
    }
}

/// A size without EFA was asked for devices that it does not have, so that the pod stayed pending.
#[test]
fn aws_a_size_without_efa_is_asked_for_none() {
    for instance_type in ["g4dn.xlarge", "g5.4xlarge", "g6.2xlarge", "g6e.4xlarge"] {
        let served = served("aws-efa", &[], on(instance_type, worker(1)));
        assert_eq!(served.devices("worker", EFA), 0, "{instance_type}");
        assert_eq!(served.codes(), ["instance_type_without_fabric"], "{instance_type}");
    }
}

/// One installation could not serve a cluster with several instance types.
#[test]
fn aws_mixed_instance_types_each_get_their_own_ratio() {
    let policies = policy_set("aws-efa", &[]);
    for (instance_type, devices) in [("p5.48xlarge", 32), ("p4d.24xlarge", 4), ("p5en.48xlarge", 16)] {
        let served = Served::of(serve_as(&policies, on(instance_type, worker(8)), &PodContext::default()));
        assert_eq!(served.devices("worker", EFA), devices, "{instance_type}");
    }
    let on_either = |types: Value| {
        let expression = json!({"key": INSTANCE_TYPE, "operator": "In", "values": types});
        let terms = json!([{"matchExpressions": [expression]}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let containers = json!([gpu_container("worker", 8)]);
        served(
            "aws-efa",
            &[],
            pod(&json!({"affinity": {"nodeAffinity": required}, "containers": containers})),
        )
    };
    let agreed = on_either(json!(["p5.48xlarge", "p5e.48xlarge"]));
    assert_eq!(agreed.devices("worker", EFA), 32);
    assert_eq!(agreed.codes(), Vec::<&str>::new());
    let disagreed = on_either(json!(["p5.48xlarge", "p4d.24xlarge"]));
    assert_eq!(disagreed.devices("worker", EFA), 8);
    assert_eq!(disagreed.codes(), ["node_values_disagree", "parameter_assumed"]);
}

/// A ratio that nobody had chosen for the hardware was used without a word.
#[test]
fn aws_an_assumed_ratio_is_reported() {
    let served = served("aws-efa", &[], worker(8));
    assert_eq!(served.devices("worker", EFA), 8);
    assert_eq!(served.codes(), ["parameter_assumed"]);
    assert!(served.message("parameter_assumed").starts_with("`efaDevicesPerGPU` is assumed to be 1"));
}

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

/// A whole number of devices for each GPU cannot say that four GPUs share one.
#[test]
fn aws_a_ratio_below_one_is_rounded_up_for_each_container() {
    let containers = json!([gpu_container("a", 3), gpu_container("b", 5), gpu_container("c", 1)]);
    let served = served("aws-efa", &[("efaDevicesPerGPU", "0.25")], pod(&json!({"containers": containers})));
    assert_eq!(["a", "b", "c"].map(|name| served.devices(name, EFA)), [1, 2, 1]);
}

/// A ratio of zero rendered `"0"` devices.
#[test]
fn aws_a_ratio_of_zero_asks_for_nothing() {
    let served = served("aws-efa", &[("efaDevicesPerGPU", "0")], worker(8));
    let resources = &served.container("worker")["resources"];
    assert_eq!(*resources, gpu_container("worker", 8)["resources"]);
}

/// `SageMaker` `HyperPod` labels its nodes `ml.…`, which no table of instance types has.
#[test]
fn aws_hyperpods_prefix_is_no_other_instance_type() {
    for (instance_type, gpus, devices) in [("ml.g6e.12xlarge", 4, 1), ("ml.p5.48xlarge", 8, 32)] {
        let served = served("aws-efa", &[], on(instance_type, worker(gpus)));
        assert_eq!(served.devices("worker", EFA), devices, "{instance_type}");
        assert_eq!(served.codes(), Vec::<&str>::new());
    }
}

/// A container without a CPU request was given one of `100m`, which nobody had asked for.
#[test]
fn aws_no_cpu_request_is_made_up() {
    let served = served("aws-efa", &[], on("p5.48xlarge", worker(8)));
    let amounts = json!({"nvidia.com/gpu": "8", EFA: "32"});
    assert_eq!(served.container("worker")["resources"], json!({"limits": amounts, "requests": amounts}));
}

/// The library directory had to be on the node already (`type: Directory`), so that no pod started on a stock
/// node.
#[test]
fn aws_library_directory_does_not_keep_a_pod_from_starting() {
    let served = served("aws-efa", &[], on("p5.48xlarge", worker(8)));
    let volume = served.mounted("worker", "/opt/amazon-efa-ofi").unwrap();
    assert_eq!(volume["hostPath"], json!({"path": "/opt/amazon-efa-ofi", "type": "DirectoryOrCreate"}));
    let mount = &served.container("worker")["volumeMounts"][0];
    assert_eq!(*mount, json!({"name": "amazon-efa", "mountPath": "/opt/amazon-efa-ofi", "readOnly": true}));
}

/// The path of the library was fixed, and an image that brings its own could not do without.
#[test]
fn aws_library_directory_is_a_parameter() {
    let elsewhere = served("aws-efa", &[("efaLibraryPath", "/opt/amazon")], worker(8));
    assert_eq!(elsewhere.mounted("worker", "/opt/amazon").unwrap()["hostPath"]["path"], "/opt/amazon");
    let without = served("aws-efa", &[("efaLibraryPath", "")], worker(8));
    let volumes: Vec<&Value> =
        items(&without.pod["spec"]["volumes"]).iter().map(|volume| &volume["name"]).collect();
    assert_eq!(volumes, ["nv-shared-memory", "nccl-settings"]);
}

/// The plugin's directory was never put into the library path, and replacing the path would lose the image's.
#[test]
fn aws_library_path_is_extended_and_not_replaced() {
    let sets = [("ldLibraryPath", "/opt/amazon-efa-ofi/ofi/lib")];
    let pod = || worker_with(8, &json!({"env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/lib"}]}));
    let extended = served("aws-efa", &sets, pod());
    assert_eq!(extended.env("worker", "LD_LIBRARY_PATH"), Some("/opt/amazon-efa-ofi/ofi/lib:/usr/lib"));
    assert_eq!(served("aws-efa", &[], pod()).env("worker", "LD_LIBRARY_PATH"), Some("/usr/lib"));
    assert_eq!(served("aws-efa", &[], worker(8)).env("worker", "LD_LIBRARY_PATH"), None);
}

/// Huge pages were turned off for libfabric, and there was no way to ask for them.
#[test]
fn aws_huge_pages_are_requested_where_the_operator_wants_them() {
    let amounts = json!({"nvidia.com/gpu": 8, "memory": "32000Mi"});
    let pod = || worker_with(8, &json!({"resources": {"limits": amounts, "requests": amounts}}));
    let with_pages = served("aws-efa", &[("hugePages2Mi", "5120Mi")], pod());
    let resources = &with_pages.container("worker")["resources"];
    assert_eq!(resources["limits"]["hugepages-2Mi"], "5120Mi");
    assert_eq!(resources["requests"]["hugepages-2Mi"], "5120Mi");
    assert_eq!(with_pages.env("worker", "FI_EFA_USE_HUGE_PAGE"), None);
    let without = served("aws-efa", &[], pod());
    assert_eq!(without.container("worker")["resources"]["limits"].get("hugepages-2Mi"), None);
    assert_eq!(without.env("worker", "FI_EFA_USE_HUGE_PAGE"), Some("0"));
}

/// The API server refuses a container that asks for huge pages and for neither CPU nor memory.
#[test]
fn aws_huge_pages_alone_are_left_out_and_reported() {
    let served = served("aws-efa", &[("hugePages2Mi", "5120Mi")], on("p5.48xlarge", worker(8)));
    assert_eq!(served.container("worker")["resources"]["limits"].get("hugepages-2Mi"), None);
    assert_eq!(served.codes(), ["huge_pages_alone"]);
}

/// No bootstrap interface was set, so that NCCL could pick EKS Pod Identity's `pod-id-link0` and hang; and a
/// name such as `eth0` does not exist on every host network, so it has to be a list of exclusions.
#[test]
fn aws_bootstrap_interface_is_chosen_by_exclusion() {
    let pods = [worker(8), on_host_network(worker(8))];
    for pod in pods.map(|pod| on("p5.48xlarge", pod)) {
        let served = served("aws-efa", &[], pod);
        let interfaces = served.env("worker", "NCCL_SOCKET_IFNAME").unwrap();
        let excluded: Vec<&str> = interfaces.strip_prefix('^').unwrap().split(',').collect();
        assert_eq!(excluded, ["lo", "docker", "veth", "eni", "pod-id-link0"]);
    }
}

/// A hostNetwork pod has no network of its own, which EFA does not need either: it is served like any other.
#[test]
fn aws_hostnetwork_pods_are_served_in_full() {
    let in_pod_network = served("aws-efa", &[], on("p5.48xlarge", worker(8)));
    let on_host = served("aws-efa", &[], on("p5.48xlarge", on_host_network(worker(8))));
    assert_eq!(on_host.container("worker"), in_pod_network.container("worker"));
    assert_eq!(on_host.devices("worker", EFA), 32);
    assert_eq!(on_host.codes(), Vec::<&str>::new());
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

/// A user's own number of devices was overwritten.
#[test]
fn aws_a_users_own_number_of_devices_stays() {
    let amounts = json!({"nvidia.com/gpu": 8, EFA: 16});
    let resources = json!({"resources": {"limits": amounts, "requests": amounts}});
    let own = on("p5.48xlarge", pod(&json!({"containers": [with(gpu_container("worker", 8), &resources)]})));
    let served = served("aws-efa", &[], own);
    assert_eq!(served.devices("worker", EFA), 16);
    assert!(served.codes().contains(&"kept_device"), "{:?}", served.codes());
}
