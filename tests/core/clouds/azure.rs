//! Faults of the policy for Azure, and what is easy to get wrong on InfiniBand there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::helpers::{Served, gpu_container, items, on, pod, served, with, worker, worker_with};

const DEVICES: &str = "rdma/hca_shared_devices_a";
const TOPOLOGY: &str = "fabric-injector.io/nccl-topology";
const H100: &str = "Standard_ND96isr_H100_v5";

/// A privileged container was given `allowPrivilegeEscalation: false`, so that the API server refused the pod.
#[test]
fn azure_a_privileged_container_is_not_refused() {
    for context in [
        json!({"privileged": true}),
        json!({"capabilities": {"add": ["SYS_ADMIN"]}}),
        json!({"privileged": true, "allowPrivilegeEscalation": true}),
    ] {
        let served =
            served("azure-infiniband", &[], on(H100, worker_with(8, &json!({"securityContext": context}))));
        let after = &served.container("worker")["securityContext"];
        assert_eq!(after["allowPrivilegeEscalation"], context["allowPrivilegeEscalation"]);
        assert_eq!(after["privileged"], context["privileged"]);
        assert_eq!(served.devices("worker", DEVICES), 8);
    }
}

/// A user's `SYS_PTRACE` was dropped, and the seccomp profile `Unconfined` turned into `RuntimeDefault`.
#[test]
fn azure_a_users_capabilities_and_seccomp_profile_stay() {
    let context = json!({"capabilities": {"add": ["SYS_PTRACE"]}, "seccompProfile": {"type": "Unconfined"}});
    let served = served("azure-infiniband", &[], worker_with(8, &json!({"securityContext": context})));
    assert_eq!(
        served.container("worker")["securityContext"],
        json!({"capabilities": {"add": ["SYS_PTRACE", "IPC_LOCK"]}, "seccompProfile": {"type": "Unconfined"}})
    );
}

/// Privilege escalation and seccomp were set although the fabric needs neither.
#[test]
fn azure_no_security_setting_that_the_fabric_does_not_need() {
    let served = served("azure-infiniband", &[], worker(8));
    let context = json!({"capabilities": {"add": ["IPC_LOCK"]}});
    assert_eq!(served.container("worker")["securityContext"], context);
}

/// One ratio held for all VM sizes, those without InfiniBand among them.
#[test]
fn azure_ratio_follows_the_vm_size() {
    for (size, gpus, devices) in [
        ("Standard_ND40rs_v2", 8, 1),
        ("Standard_ND96asr_v4", 8, 8),
        ("Standard_ND96amsr_A100_v4", 8, 8),
        ("Standard_ND96isr_H100_v5", 8, 8),
        ("Standard_ND96isr_H200_v5", 8, 8),
        ("Standard_ND128isr_NDR_GB200_v6", 4, 4),
        ("Standard_ND128isr_GB300_v6", 4, 4),
    ] {
        let served = served("azure-infiniband", &[], on(size, worker(gpus)));
        assert_eq!(served.devices("worker", DEVICES), devices, "{size}");
        let known = |code: &&str| *code != "no_compute_domain";
        assert_eq!(served.codes().into_iter().filter(known).count(), 0, "{size}");
    }
    for size in ["Standard_ND96is_H100_v5", "Standard_NC96ads_A100_v4", "Standard_NC80adis_H100_v5"] {
        for counting in ["perGPU", "perPod"] {
            let served = served("azure-infiniband", &[("rdmaCounting", counting)], on(size, worker(2)));
            assert_eq!(served.devices("worker", DEVICES), 0, "{size}");
            assert_eq!(served.codes(), ["instance_type_without_fabric"], "{size}");
        }
    }
}

/// A unit of a shared plugin is a place that shows every adapter; it was multiplied by the GPUs all the same.
#[test]
fn azure_a_shared_device_is_requested_once() {
    for gpus in [1, 4, 8] {
        let shared = served("azure-infiniband", &[("rdmaCounting", "perPod")], on(H100, worker(gpus)));
        assert_eq!(shared.devices("worker", DEVICES), 1);
        let exclusive = served("azure-infiniband", &[], on(H100, worker(gpus)));
        assert_eq!(exclusive.devices("worker", DEVICES), i64::from(gpus));
    }
}

/// The resource always began with `rdma/`; NVIDIA's own operator calls it `nvidia.com/mlnxnics`.
#[test]
fn azure_resource_name_may_be_given_in_full() {
    for (name, resource) in [("ib", "rdma/ib"), ("nvidia.com/mlnxnics", "nvidia.com/mlnxnics")] {
        let served = served("azure-infiniband", &[("rdmaDeviceName", name)], on(H100, worker(8)));
        assert_eq!(served.devices("worker", resource), 8);
        assert_eq!(served.container("worker")["resources"]["limits"].as_object().unwrap().len(), 2);
    }
}

/// Node labels carry Azure's sizes in any letter case.
#[test]
fn azure_letter_case_of_a_vm_size_does_not_matter() {
    let as_written = served("azure-infiniband", &[], on(H100, worker(8)));
    for size in ["standard_nd96isr_h100_v5", "STANDARD_ND96ISR_H100_V5"] {
        let served = served("azure-infiniband", &[], on(size, worker(8)));
        assert_eq!(served.container("worker"), as_written.container("worker"));
        assert_eq!(served.annotation(TOPOLOGY), as_written.annotation(TOPOLOGY));
        assert_eq!(served.codes(), Vec::<&str>::new());
    }
}

/// The variables of the H100 sizes, the ten of NVIDIA's that have an effect and Microsoft's one beside the file.
#[test]
fn azure_variables_of_the_h100_sizes_are_complete() {
    let served = served("azure-infiniband", &[], on(H100, worker(8)));
    for (name, value) in [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("NCCL_IB_PCI_RELAXED_ORDERING", "1"),
        ("NCCL_IGNORE_CPU_AFFINITY", "1"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_TOPO_FILE", "/etc/nccl-topology/nccl-topo.xml"),
        ("OMPI_MCA_coll_hcoll_enable", "0"),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "t"),
        ("UCX_IB_PCI_RELAXED_ORDERING", "on"),
        ("UCX_MEM_EVENTS", "n"),
        ("UCX_NET_DEVICES", "eth0"),
        ("UCX_TLS", "tcp"),
    ] {
        assert_eq!(served.env("worker", name), Some(value), "{name}");
    }
}

/// The topology stood in a `ConfigMap` of the release's namespace, so that a pod of any other never started.
#[test]
fn azure_topology_travels_with_the_pod_to_any_namespace() {
    let mut pod = on(H100, worker(8));
    pod["metadata"]["namespace"] = json!("team-a");
    let served = served("azure-infiniband", &[], pod);
    assert!(items(&served.pod["spec"]["volumes"]).iter().all(|volume| volume.get("configMap").is_none()));
    let file = served.env("worker", "NCCL_TOPO_FILE").unwrap();
    let (directory, name) = file.rsplit_once('/').unwrap();
    let projected = &served.mounted("worker", directory).unwrap()["downwardAPI"]["items"];
    let field = format!("metadata.annotations['{TOPOLOGY}']");
    assert_eq!(*projected, json!([{"path": name, "fieldRef": {"apiVersion": "v1", "fieldPath": field}}]));
    assert!(served.annotation(TOPOLOGY).unwrap().starts_with("<system version=\"1\">"));
}

/// One file, modelled on the A100 sizes, went to every VM size, also to those where Azure uses another or none.
#[test]
fn azure_topology_is_that_of_the_vm_family() {
    let topology = |size: &str| -> Option<Topology> {
        Topology::read(&served("azure-infiniband", &[], on(size, worker(8))))
    };
    let a100 = topology("Standard_ND96asr_v4").unwrap();
    assert_eq!(topology("Standard_ND96amsr_A100_v4").unwrap(), a100);
    let h100 = topology("Standard_ND96isr_H100_v5").unwrap();
    assert_eq!(topology("Standard_ND96isr_H200_v5").unwrap(), h100);
    let v100 = topology("Standard_ND40rs_v2").unwrap();
    for other in ["Standard_ND96isr_MI300X_v5", "Standard_ND128isr_GB300_v6", "Standard_NC96ads_A100_v4"] {
        assert_eq!(topology(other), None, "{other}");
    }
    assert_eq!(a100.gpus, ids("0003 0004 0001 0002 000d 000e 000b 000c"));
    assert_eq!(a100.adapters, ids("0103 0104 0101 0102 0107 0108 0105 0106"));
    assert_eq!(h100.gpus, ids("0001 0002 0003 0008 0009 000a 000b 000c"));
    assert_eq!(h100.adapters, ids("0101 0102 0103 0104 0105 0106 0107 0108"));
    assert_eq!(v100.gpus, ids("0001 0002 0003 0004 0005 0006 0007 0008"));
    assert_eq!(v100.adapters, ids("0101"));
    let shape = |topology: &Topology| (topology.affinities.len(), topology.switches, topology.speed.clone());
    assert_eq!(shape(&a100), (4, 4, "16 GT/s".to_owned()));
    assert_eq!(shape(&h100), (2, 8, "32.0 GT/s PCIe".to_owned()));
    assert_eq!(shape(&v100), (2, 0, "16 GT/s".to_owned()));
}

/// The file had 8 processors and 16 GPUs, of which a VM has 8, and one and the same mask for every processor.
#[test]
fn azure_topology_names_each_device_and_processor_once() {
    for size in ["Standard_ND40rs_v2", "Standard_ND96asr_v4", H100] {
        let topology = Topology::read(&served("azure-infiniband", &[], on(size, worker(8)))).unwrap();
        let distinct = |values: &[String]| values.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&topology.affinities), topology.affinities.len(), "{size}");
        assert_eq!(distinct(&topology.gpus), 8, "{size}");
        assert_eq!(topology.gpus.len(), 8, "{size}");
        assert_eq!(distinct(&topology.adapters), topology.adapters.len(), "{size}");
    }
}

/// Without the file NCCL cannot pair GPUs and adapters; that it is missing was nowhere to be seen.
#[test]
fn azure_an_unknown_vm_size_gets_no_topology_and_a_warning() {
    let unknown = served("azure-infiniband", &[], worker(8));
    assert_eq!(unknown.annotation(TOPOLOGY), None);
    assert_eq!(unknown.env("worker", "NCCL_TOPO_FILE"), None);
    assert_eq!(unknown.codes(), ["parameter_assumed", "topology_unknown"]);
    let told = served("azure-infiniband", &[("topology", "ndv4")], worker(8));
    let selected = served("azure-infiniband", &[], on("Standard_ND96asr_v4", worker(8)));
    assert_eq!(told.annotation(TOPOLOGY), selected.annotation(TOPOLOGY));
    let wrong = served("azure-infiniband", &[("topology", "ndv4")], on(H100, worker(8)));
    assert_eq!(wrong.codes(), ["topology_mismatch"]);
}

/// GB200 and GB300 take no topology file, and none of the relaxed-ordering and UCX settings of the H100 sizes.
#[test]
fn azure_grace_sizes_get_none_of_the_h100_settings() {
    for size in ["Standard_ND128isr_NDR_GB200_v6", "Standard_ND128isr_GB300_v6"] {
        let served = served("azure-infiniband", &[], on(size, worker(4)));
        assert_eq!(served.annotation(TOPOLOGY), None);
        let unwanted =
            served.variables("worker", &["UCX_", "NCCL_TOPO", "NCCL_IB_PCI_RELAXED_ORDERING", "OMPI_MCA"]);
        assert!(unwanted.is_empty(), "{size}: {unwanted:?}");
        assert_eq!(served.env("worker", "NCCL_IB_SL"), Some("1"), "{size}");
        let mounts: Vec<&Value> = items(&served.container("worker")["volumeMounts"])
            .iter()
            .map(|mount| &mount["mountPath"])
            .collect();
        assert_eq!(mounts, ["/dev/shm", "/etc/nccl.conf"], "{size}");
    }
}

/// `UCX_TLS=tcp` and `UCX_NET_DEVICES=eth0` were fixed, which keeps NIXL and other users of UCX off RDMA.
#[test]
fn azure_ucx_may_use_the_adapters() {
    let sets = [("ucxTls", "rc"), ("ucxNetDevices", "mlx5_0:1")];
    let rdma = served("azure-infiniband", &sets, on(H100, worker(8)));
    assert_eq!(rdma.env("worker", "UCX_TLS"), Some("rc"));
    assert_eq!(rdma.env("worker", "UCX_NET_DEVICES"), Some("mlx5_0:1"));
    let left_out = served("azure-infiniband", &[("ucxTls", ""), ("ucxNetDevices", "")], on(H100, worker(8)));
    assert_eq!(left_out.env("worker", "UCX_TLS"), None);
    assert_eq!(left_out.env("worker", "UCX_NET_DEVICES"), None);
    let default = served("azure-infiniband", &[], on(H100, worker(8)));
    assert_eq!(default.env("worker", "UCX_TLS"), Some("tcp"));
    assert_eq!(default.env("worker", "UCX_NET_DEVICES"), Some("eth0"));
}

/// The launcher of an `MPIJob` selects no VM size, yet its ranks need the variable for the file that they have.
#[test]
fn azure_the_launcher_names_the_topology_file_of_its_workers() {
    let mut launcher = pod(&json!({"containers": [{"name": "launcher", "image": "nemo"}]}));
    launcher["metadata"]["labels"] = json!({"training.kubeflow.org/job-role": "launcher"});
    let launcher = served("azure-infiniband", &[], launcher);
    let worker = served("azure-infiniband", &[], on(H100, worker(8)));
    assert_eq!(launcher.env("launcher", "NCCL_TOPO_FILE"), worker.env("worker", "NCCL_TOPO_FILE"));
    assert_eq!(launcher.annotation(TOPOLOGY), None);
}

/// A pod with several GPU containers takes no more adapters than one container with all of their GPUs.
#[test]
fn azure_two_containers_share_the_adapters_by_their_gpus() {
    let containers = json!([gpu_container("a", 6), with(gpu_container("b", 2), &json!({"env": []}))]);
    let served = served("azure-infiniband", &[], on(H100, pod(&json!({"containers": containers}))));
    assert_eq!(["a", "b"].map(|name| served.devices(name, DEVICES)), [6, 2]);
}

/// What NCCL reads of a topology file, in the order of the file.
#[derive(Debug, PartialEq)]
struct Topology {
    affinities: Vec<String>,
    switches: usize,
    gpus: Vec<String>,
    adapters: Vec<String>,
    speed: String,
}

impl Topology {
    /// Reads the text as NCCL's small reader does, which takes no prolog, no tab, and each element on one line.
    fn read(served: &Served) -> Option<Self> {
        let text = served.annotation(TOPOLOGY)?;
        assert!(!text.contains("<?") && !text.contains('\t'));
        let elements: Vec<&str> = text.split('<').skip(1).map(str::trim_end).collect();
        for element in &elements {
            assert!(
                element.ends_with('>') && !element.contains(['\n', '\r']) && !element.contains("  "),
                "{element}"
            );
        }
        let starting = |start: &str| -> Vec<&str> {
            elements.iter().copied().filter(|element| element.starts_with(start)).collect()
        };
        let attribute = |element: &str, name: &str| {
            let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let devices = starting("pci ");
        assert_eq!(devices.iter().filter(|device| !device.ends_with("/>")).count(), starting("/pci>").len());
        assert_eq!(starting("cpu ").len(), starting("/cpu>").len());
        let mut speeds: Vec<String> = devices.iter().map(|device| attribute(device, "link_speed")).collect();
        speeds.dedup();
        let of_class = |class: &str| -> Vec<String> {
            let found = devices.iter().filter(|device| attribute(device, "class") == class);
            found.map(|device| attribute(device, "busid")).collect()
        };
        Some(Self {
            affinities: starting("cpu ").iter().map(|cpu| attribute(cpu, "affinity")).collect(),
            switches: of_class("0x060400").len(),
            gpus: of_class("0x030200"),
            adapters: of_class("0x020700"),
            speed: speeds.join(" and "),
        })
    }
}

/// Bus ids from their domains.
fn ids(domains: &str) -> Vec<String> {
    domains.split(' ').map(|domain| format!("{domain}:00:00.0")).collect()
}
