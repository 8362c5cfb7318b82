//! Faults of the policy for GCP, and what is easy to get wrong with GPUDirect-TCPXO.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::helpers::{Served, items, on, on_host_network, pod, served, worker, worker_with};

const DEVICES: &str = "devices.gke.io/container.tcpxo-daemon";
const DEFAULT_INTERFACE: &str = "networking.gke.io/default-interface";
const IMAGE: &str = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.20";
const INTERFACES: &str = "networking.gke.io/interfaces";

/// The annotation with the interfaces for these networks, as a value.
fn interfaces(names: [&str; 9], networks: [&str; 9]) -> Value {
    let pairs = names.iter().zip(networks);
    pairs.map(|(name, network)| json!({"interfaceName": name, "network": network})).collect()
}

fn interfaces_of(served: &Served) -> Value {
    serde_json::from_str(served.annotation(INTERFACES).unwrap()).unwrap()
}

fn start_command(served: &Served) -> &str {
    served.container("tcpxo-daemon")["args"][0].as_str().unwrap()
}

/// The variables of the plugin that belongs to the present daemon.
fn present_variables() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
        ("GLOO_SOCKET_IFNAME", "eth0"),
        ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),
        ("NCCL_BUFFSIZE", "8388608"),
        ("NCCL_CROSS_NIC", "0"),
        ("NCCL_FASTRAK_CTRL_DEV", "eth0"),
        ("NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"),
        ("NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0"),
        ("NCCL_FASTRAK_IFNAME", "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8"),
        ("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices"),
        ("NCCL_FASTRAK_NUM_FLOWS", "2"),
        ("NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", "600000"),
        ("NCCL_FASTRAK_USE_LLCM", "1"),
        ("NCCL_FASTRAK_USE_SNAP", "1"),
        ("NCCL_MIN_NCHANNELS", "4"),
        ("NCCL_NET_GDR_LEVEL", "PIX"),
        ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072"),
        ("NCCL_NVLS_ENABLE", "1"),
        ("NCCL_P2P_NET_CHUNKSIZE", "524288"),
        ("NCCL_P2P_NVL_CHUNKSIZE", "1048576"),
        ("NCCL_P2P_PCI_CHUNKSIZE", "524288"),
        ("NCCL_PROTO", "Simple,LL128"),
        (
            "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
            "/usr/local/nvidia/lib64/a3plus_guest_config.textproto",
        ),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_TUNER_CONFIG_PATH", "/usr/local/nvidia/lib64/a3plus_tuner_config.textproto"),
        ("NCCL_TUNER_PLUGIN", "libnccl-tuner.so"),
    ])
}

/// The three annotations stood beside `spec`, where a Pod has no such field: no NICs, no devices, and the
/// daemon ran in vain.
#[test]
fn gcp_annotations_land_on_the_pods_metadata() {
    let served = served("gcp-tcpxo", &[], worker(8));
    assert_eq!(served.pod.get("annotations"), None);
    let numbered = (0..8).map(|number| format!("/dev/nvidia{number}"));
    let others = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper"].map(str::to_owned);
    let lines: Vec<String> = numbered
        .chain(others)
        .map(|path| {
            format!(
                "- path: {path}
"
            )
        })
        .collect();
    assert_eq!(served.annotation(DEVICES), Some(lines.concat().as_str()));
    assert_eq!(served.annotation(DEFAULT_INTERFACE), Some("eth0"));
    let names = ["eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8"];
    let networks = [
        "default", "gpu-nic0", "gpu-nic1", "gpu-nic2", "gpu-nic3", "gpu-nic4", "gpu-nic5", "gpu-nic6",
        "gpu-nic7",
    ];
    assert_eq!(interfaces_of(&served), interfaces(names, networks));
}

/// The names of the networks and interfaces were fixed, and every cluster chooses its own.
#[test]
fn gcp_networks_and_interfaces_are_parameters() {
    let sets = [
        ("networks", "vpc1,vpc2,vpc3,vpc4,vpc5,vpc6,vpc7,vpc8"),
        ("interfaces", "eth2,eth3,eth4,eth5,eth6,eth7,eth8,eth9"),
        ("defaultInterface", "net0"),
    ];
    let served = served("gcp-tcpxo", &sets, worker(8));
    let names = ["net0", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8", "eth9"];
    let networks = ["default", "vpc1", "vpc2", "vpc3", "vpc4", "vpc5", "vpc6", "vpc7", "vpc8"];
    assert_eq!(interfaces_of(&served), interfaces(names, networks));
    assert_eq!(served.annotation(DEFAULT_INTERFACE), Some("net0"));
    assert_eq!(served.env("worker", "NCCL_FASTRAK_IFNAME"), Some("eth2,eth3,eth4,eth5,eth6,eth7,eth8,eth9"));
    assert_eq!(served.env("worker", "NCCL_FASTRAK_CTRL_DEV"), Some("net0"));
    assert_eq!(served.env("worker", "NCCL_SOCKET_IFNAME"), Some("net0"));
}

/// The releases of the daemon, from the newest on.
const RELEASES: [&str; 12] = [
    "v1.0.21",
    "v1.0.20",
    "v1.0.18",
    "v1.0.17",
    "v1.0.15",
    "v1.0.14",
    "v1.0.13_1",
    "v1.0.12",
    "v1.0.11",
    "v1.0.10",
    "v1.0.9",
    "v1.0.8",
];

/// The daemon was one of May 2024, long out of date; then one that ran ahead of the plugin which Google's toolkit
/// installs, and the releases of Google's own charts were missing.
#[test]
fn gcp_audit_6_the_daemon_is_the_release_that_google_pairs_with_its_plugin() {
    assert_eq!(served("gcp-tcpxo", &[], worker(8)).container("tcpxo-daemon")["image"], IMAGE);
    for release in RELEASES {
        let served = served("gcp-tcpxo", &[("tcpxoRelease", release)], worker(8));
        let image = served.container("tcpxo-daemon")["image"].as_str().unwrap();
        assert!(image.ends_with(&format!("tcpgpudmarxd-dev:{release}")), "{image}");
    }
}

/// The daemon was started with flags that its later releases no longer have.
#[test]
fn gcp_daemon_gets_only_the_flags_of_its_release() {
    let of_2024 = "--num_hops=2 --num_nics=8 --uid= --alsologtostderr";
    for release in RELEASES {
        let flags = match release {
            "v1.0.21" | "v1.0.20" => "--num_hops=2".to_owned(),
            "v1.0.18" => "--num_hops=2 --num_nics=8".to_owned(),
            "v1.0.8" => format!("{of_2024} --enforce_kernel_ipv6_support=false"),
            _ => of_2024.to_owned(),
        };
        let served = served("gcp-tcpxo", &[("tcpxoRelease", release)], worker(8));
        let (_, started_with) = start_command(&served).split_once("entrypoint_rxdm_container.sh --").unwrap();
        assert_eq!(format!("--{started_with}"), flags, "{release}");
    }
}

/// A workload without `NCCL_NVLSTREE_MAX_CHUNKSIZE` is aborted by the present plugin, and it was not set.
#[test]
fn gcp_workload_has_the_variable_without_which_it_is_aborted() {
    for (release, value) in [
        ("v1.0.21", Some("131072")),
        ("v1.0.20", Some("131072")),
        ("v1.0.18", Some("131072")),
        ("v1.0.17", None),
        ("v1.0.8", None),
    ] {
        let served = served("gcp-tcpxo", &[("tcpxoRelease", release)], worker(8));
        assert_eq!(served.env("worker", "NCCL_NVLSTREE_MAX_CHUNKSIZE"), value, "{release}");
    }
}

/// The 24 variables were those of the release of 2024, whatever daemon ran beside them.
#[test]
fn gcp_variables_are_those_of_the_daemons_release() {
    let of_release = |release: &str| served("gcp-tcpxo", &[("tcpxoRelease", release)], worker(8));
    let present = present_variables();
    for release in ["v1.0.21", "v1.0.20"] {
        assert_eq!(of_release(release).variables("worker", &[""]), present, "{release}");
    }
    let mut of_2025 = present.clone();
    of_2025.retain(|name, _| !["CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE"].contains(name));
    of_2025.insert("NCCL_DYNAMIC_CHUNK_SIZE", "524288");
    assert_eq!(of_release("v1.0.18").variables("worker", &[""]), of_2025);
    let mut with_ll128 = of_2025;
    with_ll128.remove("NCCL_NVLSTREE_MAX_CHUNKSIZE");
    with_ll128.extend([("NCCL_ALGO", "Ring,Tree"), ("NCCL_NVLS_ENABLE", "0")]);
    for release in ["v1.0.17", "v1.0.15"] {
        assert_eq!(of_release(release).variables("worker", &[""]), with_ll128, "{release}");
    }
    let mut of_2024 = with_ll128;
    of_2024.extend([("NCCL_PROTO", "Simple"), ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")]);
    for release in &RELEASES[5..] {
        assert_eq!(of_release(release).variables("worker", &[""]), of_2024, "{release}");
    }
}

/// A daemon that is an ordinary container keeps a Job from ever completing.
#[test]
fn gcp_daemon_is_a_native_sidecar_so_that_jobs_complete() {
    let served = served("gcp-tcpxo", &[], worker(8));
    let sidecars = items(&served.pod["spec"]["initContainers"]);
    assert_eq!(sidecars.len(), 1);
    assert_eq!(sidecars[0]["name"], "tcpxo-daemon");
    assert_eq!(sidecars[0]["restartPolicy"], "Always");
    assert_eq!(items(&served.pod["spec"]["containers"]).len(), 1);
}

/// The workload did not wait for the daemon, which takes half a minute to get ready.
#[test]
fn gcp_workload_waits_until_the_daemon_is_ready() {
    let served = served("gcp-tcpxo", &[], worker(8));
    let probe = &served.container("tcpxo-daemon")["startupProbe"];
    let file = served.env("tcpxo-daemon", "HEALTH_CHECK_LOG_FILE").unwrap();
    assert_eq!(probe["exec"]["command"], json!(["cat", file]));
    let seconds = |field: &str| probe[field].as_i64().unwrap();
    assert!(seconds("periodSeconds") * seconds("failureThreshold") >= 30, "{probe}");
    assert!(!file.rsplit('/').next().unwrap().contains('_'), "the daemon takes no underscore in {file}");
}

/// What the daemon needs of the node, which NVIDIA's policy did give: the libraries, `/sys` and `/proc/sys`.
#[test]
fn gcp_daemon_finds_the_gpus_of_the_node() {
    let served = served("gcp-tcpxo", &[], worker(8));
    let host_path = |path: &str| served.mounted("tcpxo-daemon", path).unwrap()["hostPath"]["path"].clone();
    assert_eq!(host_path("/usr/local/nvidia"), "/home/kubernetes/bin/nvidia");
    assert_eq!(host_path("/hostsysfs"), "/sys");
    assert_eq!(host_path("/hostprocsysfs"), "/proc/sys");
    let capabilities = &served.container("tcpxo-daemon")["securityContext"]["capabilities"]["add"];
    assert_eq!(*capabilities, json!(["NET_ADMIN", "NET_BIND_SERVICE"]));
}

/// An unrelated emptyDir was mounted at `/scratch`.
#[test]
fn gcp_no_scratch_volume_that_nobody_asked_for() {
    let served = served("gcp-tcpxo", &[], worker(8));
    let mut paths: Vec<&str> = items(&served.container("worker")["volumeMounts"])
        .iter()
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/dev/aperture_devices", "/dev/shm", "/etc/nccl.conf", "/usr/local/nvidia"]);
    let mut volumes: Vec<&str> =
        items(&served.pod["spec"]["volumes"]).iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    volumes.sort_unstable();
    let expected = [
        "nccl-settings",
        "nv-shared-memory",
        "nvtcpxo-aperture-devices",
        "nvtcpxo-libraries",
        "nvtcpxo-proc-sys",
        "nvtcpxo-sys",
    ];
    assert_eq!(volumes, expected);
}

/// `LD_LIBRARY_PATH` was not set, so that NCCL did not find the plugin; replacing it would lose the image's.
#[test]
fn gcp_plugin_is_on_the_library_path() {
    let own = json!({"env": [{"name": "LD_LIBRARY_PATH", "value": "/opt/hpcx/lib:/usr/lib"}]});
    let extended = served("gcp-tcpxo", &[], worker_with(8, &own));
    let path = "/usr/local/nvidia/lib64:/opt/hpcx/lib:/usr/lib";
    assert_eq!(extended.env("worker", "LD_LIBRARY_PATH"), Some(path));
    let unset = served("gcp-tcpxo", &[], worker(8));
    assert_eq!(unset.env("worker", "LD_LIBRARY_PATH"), Some("/usr/local/nvidia/lib64"));
    assert_eq!(
        unset.mounted("worker", "/usr/local/nvidia").unwrap()["hostPath"]["path"],
        "/home/kubernetes/bin/nvidia"
    );
}

/// A library path that the user takes from elsewhere cannot be extended, and takes no value beside it.
#[test]
fn gcp_a_users_library_path_from_elsewhere_stays() {
    let entry =
        json!({"name": "LD_LIBRARY_PATH", "valueFrom": {"configMapKeyRef": {"name": "paths", "key": "lib"}}});
    let served = served("gcp-tcpxo", &[], worker_with(8, &json!({"env": [entry]})));
    assert_eq!(served.container("worker")["env"][0], entry);
    assert!(served.message("kept_env").contains("spec.containers[worker].env[LD_LIBRARY_PATH]"));
}

/// A pod that brings its own daemon must not get a second container of that name.
#[test]
fn gcp_a_pods_own_daemon_is_not_doubled() {
    let beside = |image: &str| {
        let daemon = json!({"name": "tcpxo-daemon", "image": image, "restartPolicy": "Always"});
        let mut pod = on("a3-megagpu-8g", worker(8));
        pod["spec"]["initContainers"] = json!([daemon]);
        let served = served("gcp-tcpxo", &[], pod);
        assert_eq!(served.pod["spec"]["initContainers"], json!([daemon]));
        served
    };
    assert_eq!(beside(IMAGE).codes(), Vec::<&str>::new());
    // The variables of one release and the daemon of another had come apart unseen.
    assert_eq!(beside("own:v1.0.8").codes(), ["daemon_of_another_release"]);
    let ordinary = json!({"name": "tcpxo-daemon", "image": "own:v1.0.20"});
    let worker = worker(8)["spec"]["containers"][0].take();
    let beside_container =
        served("gcp-tcpxo", &[], on("a3-megagpu-8g", pod(&json!({"containers": [worker, ordinary]}))));
    assert_eq!(beside_container.pod["spec"].get("initContainers"), None);
    assert_eq!(beside_container.codes(), ["daemon_as_container"]);
}

/// Most of Google's recipes are hostNetwork: they keep the daemon, its devices and the variables, and cannot
/// have interfaces of their own.
#[test]
fn gcp_hostnetwork_pods_get_all_but_the_interfaces() {
    let pod = on("a3-megagpu-8g", worker(8));
    let in_pod_network = served("gcp-tcpxo", &[], pod.clone());
    let on_host = served("gcp-tcpxo", &[], on_host_network(pod));
    assert_eq!(on_host.annotation(INTERFACES), None);
    assert_eq!(on_host.annotation(DEFAULT_INTERFACE), None);
    assert_eq!(on_host.annotation(DEVICES), in_pod_network.annotation(DEVICES));
    assert!(on_host.annotation(DEVICES).is_some());
    for container in ["tcpxo-daemon", "worker"] {
        for field in ["image", "args", "env", "volumeMounts", "resources"] {
            assert_eq!(on_host.container(container)[field], in_pod_network.container(container)[field]);
        }
    }
    assert_eq!(on_host.codes(), ["host_network"]);
    assert_eq!(in_pod_network.codes(), Vec::<&str>::new());
}

/// In the host's network, Google's manifests make the daemon and the workload privileged, and the policy did not.
#[test]
fn gcp_audit_7_hostnetwork_containers_are_privileged_unless_they_forbid_it() {
    let privileged =
        |served: &Served, name: &str| served.container(name)["securityContext"].get("privileged").cloned();
    let on_host = served("gcp-tcpxo", &[], on_host_network(worker(8)));
    let daemon_alone = served("gcp-tcpx", &[("fabric", "tcpx")], on_host_network(worker(8)));
    let in_pod_network = served("gcp-tcpxo", &[], worker(8));
    assert_eq!(privileged(&on_host, "tcpxo-daemon"), Some(json!(true)));
    assert_eq!(privileged(&on_host, "worker"), Some(json!(true)));
    assert_eq!(privileged(&daemon_alone, "tcpx-daemon"), Some(json!(true)));
    assert_eq!(privileged(&daemon_alone, "worker"), None);
    assert_eq!(privileged(&in_pod_network, "tcpxo-daemon"), None);
    assert_eq!(in_pod_network.container("worker").get("securityContext"), None);
    let strict = worker_with(8, &json!({"securityContext": {"allowPrivilegeEscalation": false}}));
    for (policy, sets) in [("gcp-tcpxo", [].as_slice()), ("gcp-gib", &[("fabric", "gib")])] {
        let served = served(policy, sets, on_host_network(strict.clone()));
        assert_eq!(privileged(&served, "worker"), None, "{policy}");
        assert!(served.codes().contains(&"privilege_conflict"), "{policy}: {:?}", served.codes());
    }
}

/// TCPXO needs all GPUs of a node; a pod with fewer was served without a word.
#[test]
fn gcp_a_pod_with_some_of_the_nodes_gpus_is_warned() {
    let served = served("gcp-tcpxo", &[], on("a3-megagpu-8g", worker(4)));
    assert_eq!(served.codes(), ["fewer_gpus_than_node"]);
    assert_eq!(served.env("worker", "CUDA_VISIBLE_DEVICES"), None);
}
