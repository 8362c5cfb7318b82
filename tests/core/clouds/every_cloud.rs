//! Faults that NVIDIA's policies for all four clouds share.

use fabric_injector::core::policy::PodContext;
use serde_json::{Value, json};

use crate::helpers::{
    EVERY_POLICY, Served, TRIGGER, gpu_container, items, left_alone, on_host_network, pod, policy_set,
    serve_as, served, with, worker, worker_with,
};

/// The device resource of a policy; none for GCP, whose devices come by annotation.
fn device_resource(policy: &str) -> Option<&'static str> {
    match policy {
        "aws-efa" => Some("vpc.amazonaws.com/efa"),
        "azure-infiniband" => Some("rdma/hca_shared_devices_a"),
        "oci-sriov" => Some("nvidia.com/mlnxnics"),
        _ => None,
    }
}

/// A variable of a policy with the value that it gives.
fn a_variable(policy: &str) -> (&'static str, &'static str) {
    match policy {
        "aws-efa" => ("FI_EFA_USE_HUGE_PAGE", "0"),
        "gcp-tcpxo" => ("NCCL_P2P_NET_CHUNKSIZE", "524288"),
        _ => ("UCX_TLS", "tcp"),
    }
}

/// Whether a container was served.
fn is_served(served: &Served, policy: &str, container: &str) -> bool {
    let has_env = served.env(container, a_variable(policy).0).is_some();
    let has_devices = device_resource(policy).is_none_or(|resource| served.devices(container, resource) > 0);
    assert_eq!(has_env, has_devices);
    has_env
}

fn names(list: &Value) -> Vec<&str> {
    items(list).iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// Variables that the user had set were overwritten, and nothing said.
#[test]
fn a_users_value_stays_and_is_reported() {
    for policy in EVERY_POLICY {
        let (name, wanted) = a_variable(policy);
        let served = served(policy, &[], worker_with(8, &json!({"env": [{"name": name, "value": "rc"}]})));
        assert_eq!(served.env("worker", name), Some("rc"), "{policy}");
        let message = served.message("kept_env");
        let place = format!("`spec.containers[worker].env[{name}]` stays `rc`; rule ");
        assert!(message.starts_with(&place), "{message}");
        assert!(message.ends_with(&format!(" would set `{wanted}`")), "{message}");
    }
}

/// A variable that the user takes from elsewhere was given a value as well, so that the API server refused the
/// pod.
#[test]
fn a_users_value_from_is_not_given_a_value_beside_it() {
    for policy in EVERY_POLICY {
        let (name, _) = a_variable(policy);
        let entry = json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "tuning", "key": "tls"}}});
        let served = served(policy, &[], worker_with(8, &json!({"env": [entry]})));
        let entries: Vec<&Value> =
            items(&served.container("worker")["env"]).iter().filter(|entry| entry["name"] == name).collect();
        assert_eq!(entries, [&entry], "{policy}");
        assert!(served.message("kept_env").contains("tuning"), "{policy}");
    }
}

/// The policy's own variables came first, so that the user's `$(X)` no longer stood behind its `X` alone.
#[test]
fn a_users_variables_stay_in_front_in_their_order() {
    for policy in EVERY_POLICY {
        let own =
            json!([{"name": "X", "value": "eth0"}, {"name": "NCCL_IB_ROCE_VERSION_NUM", "value": "$(X)"}]);
        let served = served(policy, &[], worker_with(8, &json!({"env": own})));
        let after = items(&served.container("worker")["env"]);
        assert_eq!(after[..2], items(&own)[..], "{policy}");
        assert!(after.len() > 2, "{policy}");
    }
}

/// Containers came out in another order, with that of the GPUs first: `kubectl logs` then shows another one.
#[test]
fn containers_keep_their_order() {
    for policy in EVERY_POLICY {
        let [first, last] = ["a", "c"].map(|name| json!({"name": name, "image": "proxy"}));
        let containers = json!([first, gpu_container("b", 8), last]);
        let served = served(policy, &[], pod(&json!({"containers": containers})));
        let after = &served.pod["spec"]["containers"];
        assert_eq!(names(after), ["a", "b", "c"], "{policy}");
        assert_eq!([&after[0], &after[2]], [&first, &last], "{policy}");
        assert!(is_served(&served, policy, "b"));
    }
}

/// A user's mount at `/dev/shm` had its volume swapped for the policy's.
#[test]
fn a_mount_at_dev_shm_keeps_its_volume() {
    for policy in EVERY_POLICY {
        assert_shared_memory_stays(policy, "/dev/shm");
    }
}

/// A user's mount at `/dev/shm/` was given a second one beside it, on the same path.
#[test]
fn a_mount_at_dev_shm_with_a_slash_is_the_same_path() {
    for policy in EVERY_POLICY {
        assert_shared_memory_stays(policy, "/dev/shm/");
    }
}

fn assert_shared_memory_stays(policy: &str, path: &str) {
    let mount = json!({"name": "own-shm", "mountPath": path});
    let mut pod = worker_with(8, &json!({"volumeMounts": [mount]}));
    let volume = json!({"name": "own-shm", "hostPath": {"path": "/dev/shm"}});
    pod["spec"]["volumes"] = json!([volume]);
    let served = served(policy, &[], pod);
    let mounts: Vec<&Value> = items(&served.container("worker")["volumeMounts"])
        .iter()
        .filter(|mount| mount["mountPath"].as_str().unwrap().starts_with("/dev/shm"))
        .collect();
    assert_eq!(mounts, [&mount], "{policy}");
    assert_eq!(served.pod["spec"]["volumes"][0], volume, "{policy}");
    assert!(!names(&served.pod["spec"]["volumes"]).contains(&"nv-shared-memory"), "{policy}: not mounted");
    let message = served.message("kept_mount");
    assert!(message.contains("stays `volume own-shm`"), "{message}");
}

/// A user's claim with the name of the policy's volume left a mount behind whose volume was gone, so that the
/// API server refused the pod.
#[test]
fn a_volume_name_in_use_makes_the_policys_take_another() {
    for policy in EVERY_POLICY {
        let mount = json!({"name": "nv-shared-memory", "mountPath": "/data"});
        let mut pod = worker_with(8, &json!({"volumeMounts": [mount]}));
        let claim = json!({"name": "nv-shared-memory", "persistentVolumeClaim": {"claimName": "weights"}});
        pod["spec"]["volumes"] = json!([claim]);
        let served = served(policy, &[], pod);
        assert_eq!(served.mounted("worker", "/data"), Some(&claim), "{policy}");
        let shared = json!({"name": "nv-shared-memory-fabric", "emptyDir": {"medium": "Memory"}});
        assert_eq!(served.mounted("worker", "/dev/shm"), Some(&shared), "{policy}");
        assert!(served.codes().contains(&"renamed_volume"), "{policy}");
    }
}

/// A list of capabilities was replaced by the policy's.
#[test]
fn a_users_capabilities_stay_beside_the_policys() {
    for policy in EVERY_POLICY {
        let own = json!({"securityContext": {"capabilities": {"add": ["SYS_PTRACE"], "drop": ["NET_RAW"]}}});
        let served = served(policy, &[("ipcLock", "true")], worker_with(8, &own));
        let after = json!({"add": ["SYS_PTRACE", "IPC_LOCK"], "drop": ["NET_RAW"]});
        assert_eq!(served.container("worker")["securityContext"]["capabilities"], after, "{policy}");
    }
}

/// `IPC_LOCK` was left out but for Azure, and memory for RDMA stays limited to a few MiB without it.
#[test]
fn memory_can_be_locked_for_rdma() {
    for (policy, by_default) in EVERY_POLICY.into_iter().zip([true, true, false, true]) {
        let added = |sets: &[(&str, &str)]| {
            let served = served(policy, sets, worker(8));
            served.container("worker")["securityContext"]["capabilities"]["add"].clone()
        };
        let locked = json!(["IPC_LOCK"]);
        assert_eq!(added(&[]), if by_default { locked.clone() } else { Value::Null }, "{policy}");
        assert_eq!(added(&[("ipcLock", "true")]), locked, "{policy}");
        assert_eq!(added(&[("ipcLock", "false")]), Value::Null, "{policy}");
    }
}

/// `IPC_LOCK` has no effect for a container that does not run as root; NCCL then drops to TCP in silence.
#[test]
fn a_memory_lock_that_has_no_effect_is_reported() {
    for policy in EVERY_POLICY {
        let mut by_user = worker(8);
        by_user["spec"]["securityContext"] = json!({"runAsUser": 1000});
        let by_flag = worker_with(8, &json!({"securityContext": {"runAsNonRoot": true}}));
        for (pod, because) in [(by_user, "runAsUser: 1000"), (by_flag, "runAsNonRoot: true")] {
            let message = served(policy, &[("ipcLock", "true")], pod).message("capability_without_root");
            assert!(message.contains("`IPC_LOCK`") && message.contains(because), "{message}");
        }
        assert!(
            !served(policy, &[("ipcLock", "true")], worker(8)).codes().contains(&"capability_without_root")
        );
    }
}

/// Only `spec.containers` was looked at: an init container or native sidecar with GPUs got nothing.
#[test]
fn init_containers_and_native_sidecars_with_gpus_are_served() {
    for policy in EVERY_POLICY {
        let mut pod = worker(8);
        let sidecar = with(gpu_container("sidecar", 1), &json!({"restartPolicy": "Always"}));
        let plain = json!({"name": "download", "image": "curl"});
        pod["spec"]["initContainers"] = json!([gpu_container("warm-up", 8), sidecar, plain]);
        let served = served(policy, &[], pod);
        for container in ["warm-up", "sidecar", "worker"] {
            assert!(is_served(&served, policy, container), "{policy}: {container}");
            assert!(served.mounted(container, "/dev/shm").is_some(), "{policy}: {container}");
        }
        assert_eq!(served.container("download"), &plain, "{policy}");
        assert_eq!(
            names(&served.pod["spec"]["initContainers"])[..3],
            ["warm-up", "sidecar", "download"],
            "{policy}"
        );
    }
}

/// A pod that nobody owns, or an owner of a kind that was not in a list, was left alone and nothing said.
#[test]
fn pods_are_served_whoever_owns_them() {
    for policy in EVERY_POLICY {
        let bare = served(policy, &[], worker(8));
        assert!(is_served(&bare, policy, "worker"));
        for (api_version, kind) in [
            ("apps/v1", "StatefulSet"),
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
            ("ray.io/v1", "RayCluster"),
            ("apps/v1", "ReplicaSet"),
            ("grove.io/v1alpha1", "PodClique"),
            ("batch/v1", "Job"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("kubeflow.org/v1", "PyTorchJob"),
            ("kubeflow.org/v2beta1", "MPIJob"),
            ("run.ai/v1", "RunaiJob"),
        ] {
            let mut pod = worker(8);
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "1", "controller": true});
            pod["metadata"]["ownerReferences"] = json!([owner]);
            assert_eq!(served(policy, &[], pod).pod["spec"], bare.pod["spec"], "{policy}: {kind}");
        }
    }
}

/// Each policy served the namespace of its release and no other.
#[test]
fn pods_are_served_in_every_namespace() {
    for policy in EVERY_POLICY {
        let policies = policy_set(policy, &[]);
        let in_namespace = |namespace: &str| {
            let request = PodContext { namespace: Some(namespace.to_owned()), ..PodContext::default() };
            Served::of(serve_as(&policies, worker(8), &request)).pod
        };
        assert_eq!(in_namespace("team-a"), in_namespace("nemo"), "{policy}");
    }
}

/// A pod with its GPUs in `limits` only was skipped.
#[test]
fn gpus_count_in_limits_as_well_as_in_requests() {
    for policy in EVERY_POLICY {
        let both = served(policy, &[], worker(8));
        for gpus in [json!(8), json!("8")] {
            for list in ["limits", "requests"] {
                let resources = json!({"resources": {list: {"nvidia.com/gpu": gpus}}});
                let served = served(policy, &[], worker_with(8, &resources));
                assert!(is_served(&served, policy, "worker"), "{policy}: {list}");
                if let Some(resource) = device_resource(policy) {
                    assert_eq!(
                        served.devices("worker", resource),
                        both.devices("worker", resource),
                        "{policy}"
                    );
                }
            }
        }
    }
}

/// The annotation's domain changed from `nmp` to `nhx`, and each release obeyed only its own.
#[test]
fn both_domains_of_the_annotation_count() {
    for policy in EVERY_POLICY {
        let renamed = "nhx.nvidia.com/enable-multi-node-networking";
        let mut pod = worker(8);
        pod["metadata"]["annotations"] = json!({renamed: "true"});
        assert_eq!(
            served(policy, &[], pod).pod["spec"],
            served(policy, &[], worker(8)).pod["spec"],
            "{policy}"
        );
    }
}

/// NVIDIA's own test writes an annotation to be left alone, and no policy read it.
#[test]
fn a_pod_that_opts_out_is_left_alone() {
    for policy in EVERY_POLICY {
        let mut pod = worker(8);
        pod["metadata"]["annotations"]["disable-rdma-injection"] = json!("true");
        assert_eq!(left_alone(policy, &pod), "opted_out", "{policy}");
    }
}

/// A pod that was left alone was left alone without a reason.
#[test]
fn a_pod_that_is_left_alone_is_told_why() {
    for policy in EVERY_POLICY {
        let triggered = |value: &str, mut pod: Value| {
            pod["metadata"]["annotations"][TRIGGER] = json!(value);
            pod
        };
        let without_gpus = pod(&json!({"containers": [{"name": "proxy", "image": "envoy"}]}));
        assert_eq!(left_alone(policy, &without_gpus), "no_gpu_container", "{policy}");
        assert_eq!(left_alone(policy, &triggered("True", worker(8))), "trigger_value", "{policy}");
        let mut untriggered = worker(8);
        untriggered["metadata"] = json!({"name": "worker-0"});
        assert_eq!(left_alone(policy, &untriggered), "no_policy_matches", "{policy}");
    }
}

/// The size of the memory volume could not be limited, so that a runaway job takes the node's memory.
#[test]
fn shared_memory_takes_a_size_limit() {
    for policy in EVERY_POLICY {
        let shared_memory = |sets: &[(&str, &str)]| {
            served(policy, sets, worker(8)).mounted("worker", "/dev/shm").unwrap()["emptyDir"].clone()
        };
        assert_eq!(shared_memory(&[]), json!({"medium": "Memory"}), "{policy}");
        let limited = json!({"medium": "Memory", "sizeLimit": "64Gi"});
        assert_eq!(shared_memory(&[("sharedMemorySize", "64Gi")]), limited, "{policy}");
    }
}

/// A pod that the kubelet only mirrors, with or without a network of its own, is never touched.
#[test]
fn mirror_pods_are_never_touched() {
    for policy in EVERY_POLICY {
        let mut pod = on_host_network(worker(8));
        pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("1");
        assert_eq!(left_alone(policy, &pod), "mirror_pod", "{policy}");
    }
}

/// The launcher of an `MPIJob` has no GPU and got nothing, yet ranks that `mpirun -x` or ssh starts take their
/// variables from it. It gets the variables, and nothing that it would have to find a node for.
#[test]
fn the_gpu_less_launcher_gets_the_variables_of_its_ranks_and_nothing_else() {
    let shared = ["CUDA_DEVICE", "FI_", "GLOO_", "KUBE_", "LD_", "NCCL_", "OMPI_", "UCX_"];
    for policy in EVERY_POLICY {
        // Two pods of one job; the launcher selects no instance type, as is usual, so the operator names it.
        let sets: &[(&str, &str)] = match policy {
            "azure-infiniband" => &[("topology", "ndv5")],
            "oci-sriov" => &[("ncclProfile", "h100")],
            _ => &[],
        };
        let mut launcher = pod(&json!({"containers": [{"name": "launcher", "image": "nemo"}]}));
        launcher["metadata"]["labels"] = json!({"training.kubeflow.org/job-role": "launcher"});
        let before = launcher.clone();
        let after = served(policy, sets, launcher);
        let worker = served(policy, sets, worker(8));
        assert_eq!(after.variables("launcher", &[""]), worker.variables("worker", &shared), "{policy}");
        assert!(after.env("launcher", "NCCL_SOCKET_IFNAME").is_some(), "{policy}");
        let mut spec = after.pod["spec"].clone();
        spec["containers"][0].as_object_mut().unwrap().remove("env");
        assert_eq!(spec, before["spec"], "{policy}");
        let annotations = after.pod["metadata"]["annotations"].as_object().unwrap();
        let keys: Vec<&String> = annotations.keys().collect();
        assert_eq!(keys, [TRIGGER, "fabric-injector.io/injected"], "{policy}");
    }
}
