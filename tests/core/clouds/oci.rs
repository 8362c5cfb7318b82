//! Faults of the policy for OCI, and what is easy to get wrong with RDMA there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::helpers::{NETWORKS, gpu_container, on, on_host_network, pod, served, worker, worker_with};

const DEVICES: &str = "nvidia.com/mlnxnics";
const NETWORK: &str = "network-operator/sriov-net";

/// The annotation for so many virtual functions.
fn networks(count: usize) -> String {
    vec![NETWORK; count].join(",")
}

/// A triggered pod with one container that has so many of AMD's GPUs.
fn amd_worker(gpus: u32) -> Value {
    worker_with(
        0,
        &json!({"resources": {"limits": {"amd.com/gpu": gpus}, "requests": {"amd.com/gpu": gpus}}}),
    )
}

/// The default of 8 devices a GPU fits no shape with 8 GPUs: a BM.GPU.H100.8 has 16, and the pod never ran.
#[test]
fn oci_ratio_follows_the_shape() {
    for (shape, pod, devices) in [
        ("BM.GPU4.8", worker(8), 16),
        ("BM.GPU.A100-v2.8", worker(8), 16),
        ("BM.GPU.B4.8", worker(8), 16),
        ("BM.GPU.H100.8", worker(8), 16),
        ("BM.GPU.H200.8", worker(8), 8),
        ("BM.GPU.B200.8", worker(8), 8),
        ("BM.GPU.B300.8", worker(8), 16),
        ("BM.GPU.MI300X.8", amd_worker(8), 8),
        ("BM.GPU.MI355X-v1.8", amd_worker(8), 8),
    ] {
        let served = served("oci-sriov", &[], on(shape, pod));
        assert_eq!(served.devices("worker", DEVICES), devices, "{shape}");
        let count = usize::try_from(devices).unwrap();
        assert_eq!(served.annotation(NETWORKS), Some(networks(count).as_str()), "{shape}");
        assert!(!served.codes().contains(&"parameter_contradicts"), "{shape}");
    }
}

/// The annotation was computed for each container and the last one won: 64 devices and 32 networks.
#[test]
fn oci_two_containers_ask_for_as_many_networks_as_one() {
    let containers = json!([gpu_container("a", 4), gpu_container("b", 4)]);
    let two = served("oci-sriov", &[], on("BM.GPU.H100.8", pod(&json!({"containers": containers}))));
    let one = served("oci-sriov", &[], on("BM.GPU.H100.8", worker(8)));
    assert_eq!(["a", "b"].map(|name| two.devices(name, DEVICES)), [8, 8]);
    assert_eq!(one.devices("worker", DEVICES), 16);
    assert_eq!(two.annotation(NETWORKS), Some(networks(16).as_str()));
    assert_eq!(one.annotation(NETWORKS), two.annotation(NETWORKS));
}

/// The networks were cut from a text with 128 of them, so that a larger number came out short.
#[test]
fn oci_more_than_128_networks_are_all_there() {
    let served = served("oci-sriov", &[("rdmaDevicesPerGPU", "20")], worker(8));
    assert_eq!(served.devices("worker", DEVICES), 160);
    assert_eq!(served.annotation(NETWORKS), Some(networks(160).as_str()));
}

/// The user's own network attachment was replaced.
#[test]
fn oci_a_users_own_networks_stay_in_the_form_that_they_are_in() {
    let with_networks = |own: &str| {
        let mut pod = on("BM.GPU.H200.8", worker(8));
        pod["metadata"]["annotations"][NETWORKS] = json!(own);
        served("oci-sriov", &[], pod).annotation(NETWORKS).unwrap().to_owned()
    };
    assert_eq!(with_networks("team/storage"), format!("team/storage,{}", networks(8)));
    assert_eq!(with_networks(&networks(3)), networks(8));
    let listed: Value =
        serde_json::from_str(&with_networks(r#"[{"name": "storage", "mac": "c2:b0:57:49:47:f1"}]"#)).unwrap();
    let mut expected = vec![json!({"name": "storage", "mac": "c2:b0:57:49:47:f1"})];
    expected.resize(9, json!({"name": "sriov-net", "namespace": "network-operator"}));
    assert_eq!(listed, Value::Array(expected));
}

/// A pod of the shapes with `NVLink` between nodes brings the channel of its `ComputeDomain`.
fn with_channel(shape: &str, mut pod: Value) -> Value {
    if shape.contains(".GB") {
        pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimTemplateName": "job-channel"}]);
    }
    pod
}

/// One list of variables went to every shape; Oracle publishes one for each, with the adapters that do RDMA.
#[test]
fn oci_variables_of_hostnetwork_pods_are_oracles_for_the_shape() {
    for shape in SHAPES {
        let host_adapters = shape.host_adapters();
        let mut expected = BTreeMap::from([("NCCL_IB_HCA", host_adapters.as_str())]);
        expected.extend(shape.variables());
        for name in shape.names {
            let pod = with_channel(name, if name.contains(".MI") { amd_worker(8) } else { worker(8) });
            let served = served("oci-sriov", &[], on(name, on_host_network(pod)));
            assert_eq!(served.variables("worker", &["NCCL_", "RCCL_"]), expected, "{name}");
            assert!(!served.codes().contains(&"parameter_assumed"), "{name}");
        }
    }
}

/// In a network of their own, pods get the same settings but for the names of adapters and interface.
#[test]
fn oci_variables_of_other_pods_are_oracles_for_the_shape() {
    // The adapters of a BM.GPU.MI355X.8 are of another make, and have no virtual functions.
    for shape in SHAPES.iter().filter(|shape| shape.driver != "=ionic") {
        let mut expected = shape.variables();
        expected.extend([("NCCL_IB_HCA", "mlx5"), ("NCCL_SOCKET_IFNAME", "eth0")]);
        for name in shape.names {
            // DRANET's example for this shape; Oracle's lists are for the network of the host.
            expected.extend(name.contains("GB200-v3").then_some(("NCCL_IB_DATA_DIRECT", "0")));
            let pod = with_channel(name, if name.contains(".MI") { amd_worker(8) } else { worker(8) });
            let served = served("oci-sriov", &[], on(name, pod));
            assert_eq!(served.variables("worker", &["NCCL_", "RCCL_"]), expected, "{name}");
        }
    }
}

/// What most of Oracle's lists have in common, the level of logging aside.
const CORE: [(&str, &str); 5] = [
    ("NCCL_IB_GID_INDEX", "3"),
    ("NCCL_IB_TC", "41"),
    ("NCCL_IB_SL", "0"),
    ("NCCL_IB_TIMEOUT", "22"),
    ("NCCL_IB_SPLIT_DATA_ON_QPS", "0"),
];

/// What Oracle publishes for a shape, the level of logging aside.
struct Shape {
    names: &'static [&'static str],
    /// What stands in front of each adapter of the list. A `=` makes NCCL compare whole names.
    driver: &'static str,
    adapters: &'static [u32],
    with_core: bool,
    others: &'static [(&'static str, &'static str)],
}

impl Shape {
    /// The machine's adapters, as `NCCL_IB_HCA` lists them.
    fn host_adapters(&self) -> String {
        let (exact, driver) = self.driver.split_at(usize::from(self.driver.starts_with('=')));
        let names: Vec<String> = self.adapters.iter().map(|number| format!("{driver}_{number}")).collect();
        format!("{exact}{}", names.join(","))
    }

    /// The variables apart from the list of adapters.
    fn variables(&self) -> BTreeMap<&'static str, &'static str> {
        let core = if self.with_core { CORE.as_slice() } else { &[] };
        core.iter().chain(self.others).copied().collect()
    }
}

const HOPPER: &[(&str, &str)] =
    &[("NCCL_CUMEM_ENABLE", "0"), ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_IGNORE_CPU_AFFINITY", "1")];

const SHAPES: &[Shape] = &[
    Shape {
        names: &["BM.GPU4.8"],
        driver: "=mlx5",
        adapters: &[0, 2, 6, 8, 10, 12, 14, 16, 1, 3, 7, 9, 11, 13, 15, 17],
        with_core: true,
        others: &[("NCCL_IB_QPS_PER_CONNECTION", "4")],
    },
    Shape {
        names: &["BM.GPU.A100-v2.8", "BM.GPU.B4.8"],
        driver: "=mlx5",
        adapters: &[1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 17, 9, 10, 11, 12],
        with_core: true,
        others: &[("NCCL_IB_QPS_PER_CONNECTION", "4")],
    },
    Shape {
        names: &["BM.GPU.H100.8"],
        driver: "=mlx5",
        adapters: &[0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17],
        with_core: true,
        others: HOPPER,
    },
    Shape {
        names: &["BM.GPU.H200.8", "BM.GPU.B200.8"],
        driver: "=mlx5",
        adapters: &[0, 3, 4, 5, 6, 9, 10, 11],
        with_core: true,
        others: HOPPER,
    },
    Shape {
        names: &["BM.GPU.B300.8"],
        driver: "=mlx5",
        adapters: &[0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21],
        with_core: true,
        others: HOPPER,
    },
    Shape {
        names: &["BM.GPU.RTXPRO.8"],
        driver: "=mlx5",
        adapters: &[0, 1, 2, 3, 6, 7, 8, 9],
        with_core: true,
        others: &[
            ("NCCL_MIN_NCHANNELS", "8"),
            // Oracle has `Tree`, with which NCCL 2.24 and later fail in all functions but this one.
            ("NCCL_ALGO", "allreduce:tree"),
            ("NCCL_CUMEM_ENABLE", "0"),
            ("NCCL_IB_QPS_PER_CONNECTION", "1"),
            ("NCCL_NET_PLUGIN", "none"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("NCCL_IGNORE_CPU_AFFINITY", "1"),
        ],
    },
    Shape {
        names: &["BM.GPU.GB200.4", "BM.GPU.GB200-v2.4"],
        driver: "mlx5",
        adapters: &[0, 1, 3, 4],
        with_core: false,
        others: &[
            ("NCCL_MNNVL_ENABLE", "1"),
            ("NCCL_CUMEM_ENABLE", "1"),
            ("NCCL_NET_PLUGIN", "sys"),
            ("NCCL_NVLS_ENABLE", "1"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
        ],
    },
    Shape {
        names: &["BM.GPU.GB200-v3.4"],
        driver: "=mlx5",
        adapters: &[0, 1, 2, 3, 5, 6, 7, 8],
        with_core: true,
        others: &[
            ("NCCL_IB_QPS_PER_CONNECTION", "1"),
            ("NCCL_CUMEM_ENABLE", "1"),
            ("NCCL_NET_GDR_C2C", "1"),
            ("NCCL_MNNVL_ENABLE", "1"),
            ("NCCL_NET_PLUGIN", "none"),
        ],
    },
    Shape {
        names: &["BM.GPU.GB300.4"],
        driver: "=mlx5",
        adapters: &[0, 1, 2, 3, 5, 6, 7, 8],
        with_core: true,
        others: &[
            ("NCCL_MNNVL_ENABLE", "1"),
            ("NCCL_CUMEM_ENABLE", "1"),
            ("NCCL_NET_PLUGIN", "none"),
            ("NCCL_NVLS_ENABLE", "1"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("NCCL_NET_GDR_C2C", "1"),
            ("NCCL_BUFFSIZE", "16777216"),
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ("NCCL_DMABUF_ENABLE", "1"),
        ],
    },
    Shape {
        names: &["BM.GPU.MI300X.8"],
        driver: "=mlx5",
        adapters: &[0, 2, 3, 4, 5, 7, 8, 9],
        with_core: true,
        others: &[
            ("NCCL_CUMEM_ENABLE", "0"),
            ("NCCL_IB_QPS_PER_CONNECTION", "1"),
            ("NCCL_PXN_DISABLE", "0"),
            ("NCCL_NET_PLUGIN", "none"),
        ],
    },
    Shape {
        names: &["BM.GPU.MI355X.8"],
        driver: "=ionic",
        adapters: &[0, 2, 3, 4, 5, 7, 8, 9],
        with_core: false,
        others: &[
            ("NCCL_SOCKET_IFNAME", "ens9np0"),
            ("NCCL_GDR_FLUSH_DISABLE", "1"),
            ("RCCL_GDR_FLUSH_GPU_MEM_NO_RELAXED_ORDERING", "0"),
            ("NCCL_IB_QPS_PER_CONNECTION", "2"),
            ("NCCL_IB_GID_INDEX", "1"),
            ("NCCL_BUFFSIZE", "16777216"),
            ("NCCL_MAX_P2P_NCHANNELS", "32"),
            ("NCCL_IB_TC", "41"),
            ("NCCL_IB_FIFO_TC", "185"),
            ("NCCL_IGNORE_CPU_AFFINITY", "1"),
            ("NCCL_PXN_DISABLE", "0"),
            ("NCCL_DMABUF_ENABLE", "0"),
            ("NCCL_NET_OPTIONAL_RECV_COMPLETION", "1"),
            ("RCCL_IB_ABORT_ON_ERROR", "1"),
            ("NCCL_IB_USE_INLINE", "1"),
            ("NCCL_NET_PLUGIN", "librccl-anp.so"),
            ("RCCL_LL128_FORCE_ENABLE", "1"),
        ],
    },
    Shape {
        names: &["BM.GPU.MI355X-v1.8"],
        driver: "=mlx5",
        adapters: &[0, 1, 2, 3, 4, 5, 6, 7],
        with_core: false,
        others: &[
            ("NCCL_MIN_NCHANNELS", "32"),
            ("NCCL_IB_QPS_PER_CONNECTION", "1"),
            ("NCCL_IB_SL", "0"),
            ("NCCL_IB_GID_INDEX", "3"),
            ("NCCL_IB_TC", "41"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("NCCL_IGNORE_CPU_AFFINITY", "1"),
        ],
    },
];
