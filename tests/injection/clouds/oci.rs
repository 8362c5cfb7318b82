//! The variables that Oracle publishes for each shape: the pod gets these and no others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::helpers::{on, on_host_network, served, worker, worker_with};

/// A triggered pod with one container that has so many of AMD's GPUs.
fn amd_worker(gpus: u32) -> Value {
    worker_with(
        0,
        &json!({"resources": {"limits": {"amd.com/gpu": gpus}, "requests": {"amd.com/gpu": gpus}}}),
    )
}

/// A pod of the shapes with `NVLink` between nodes brings the channel of its `ComputeDomain`.
fn with_channel(shape: &str, mut pod: Value) -> Value {
    if shape.contains(".GB") {
        pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimTemplateName": "job-channel"}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "c"}]);
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
        expected.insert("NCCL_SOCKET_IFNAME", "eth0");
        // Pods for BM.GPU.RTXPRO.8 are skipped: it has adapters in the network of the host only.
        for name in shape.names.iter().filter(|name| !name.contains("RTXPRO")) {
            // DRANET's example for this shape; Oracle's lists are for the network of the host.
            expected.extend(name.contains("GB200-v3").then_some(("NCCL_IB_DATA_DIRECT", "0")));
            // The names in fabrics of four planes.
            let has_rails = ["B300", "GB300"].iter().any(|gpu| name.contains(gpu));
            expected.insert("NCCL_IB_HCA", if has_rails { "mlx5,rdma_vf" } else { "mlx5" });
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
        // A node of these shapes can be in a fabric of four planes, whose adapters have other names.
        let rails = match self.names[0] {
            "BM.GPU.B300.8" => 8,
            "BM.GPU.GB300.4" => 4,
            _ => 0,
        };
        let names = self.adapters.iter().map(|number| format!("{driver}_{number}"));
        let names: Vec<String> = names.chain((0..rails).map(|rail| format!("rdma_vf_rail{rail}"))).collect();
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
            ("RCCL_AINIC_ROCE", "1"),
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
