//! Pods of all the kinds that injectors have stumbled over.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

/// Variables that policies set too, in the forms in which users set them.
fn env() -> impl Strategy<Value = Vec<Value>> {
    let entries = vec![
        json!({"name": "NCCL_SOCKET_IFNAME", "value": "ens5"}),
        json!({"name": "UCX_TLS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
        json!({"name": "LD_LIBRARY_PATH", "value": "/opt/own/lib:/usr/lib"}),
        json!({"name": "FI_EFA_USE_HUGE_PAGE"}),
        json!({"name": "NCCL_IB_HCA", "value": ""}),
        json!({"name": "MINE", "value": "1"}),
        json!({"name": "THEIRS", "value": "$(MINE)"}),
    ];
    subsequence(entries.clone(), 0..=entries.len())
}

/// Mounts of the volumes below, some where policies mount too.
fn mounts() -> impl Strategy<Value = Vec<Value>> {
    let entries = vec![
        json!({"name": "data", "mountPath": "/data"}),
        json!({"name": "own-shm", "mountPath": "/dev/shm/"}),
        json!({"name": "nv-shared-memory", "mountPath": "/claims"}),
        json!({"name": "data", "mountPath": "/usr/local/nvidia", "readOnly": true}),
        json!({"name": "data", "mountPath": "/opt/amazon-efa-ofi"}),
    ];
    subsequence(entries.clone(), 0..=entries.len())
}

/// Every volume that a mount above names, in two flavours.
fn volumes() -> impl Strategy<Value = Vec<Value>> {
    let shared = select(vec![
        json!({"name": "nv-shared-memory", "persistentVolumeClaim": {"claimName": "c"}}),
        json!({"name": "nv-shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
    ]);
    shared.prop_map(|shared| {
        vec![
            json!({"name": "data", "emptyDir": {}}),
            json!({"name": "own-shm", "emptyDir": {"medium": "Memory"}}),
            shared,
        ]
    })
}

fn resources() -> impl Strategy<Value = Value> {
    let gpus = select(vec![json!(8), json!("8"), json!(1), json!("3"), json!(0), Value::Null]);
    let own = select(vec![
        json!({}),
        json!({"vpc.amazonaws.com/efa": "2"}),
        json!({"nvidia.com/mlnxnics": 4}),
        json!({"rdma/hca_shared_devices_a": "1"}),
        json!({"memory": "64Gi", "cpu": "500m"}),
    ]);
    (gpus, own, any::<bool>(), any::<bool>()).prop_map(|(gpus, own, in_requests, requests_first)| {
        let mut limits: Map<String, Value> = own.as_object().unwrap().clone();
        if !gpus.is_null() {
            limits.insert("nvidia.com/gpu".to_owned(), gpus);
        }
        match (limits.is_empty(), in_requests, requests_first) {
            (true, _, false) => Value::Null,
            (true, _, true) => json!({"limits": null}),
            (false, true, true) => json!({"requests": limits, "limits": limits}),
            (false, true, false) => json!({"limits": limits, "requests": limits}),
            (false, false, _) => json!({"limits": limits, "claims": []}),
        }
    })
}

fn security_context() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!({}),
        json!({"privileged": true}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
        json!({"capabilities": {"add": ["SYS_PTRACE"]}, "seccompProfile": {"type": "Unconfined"}}),
        json!({"capabilities": {"add": ["CAP_IPC_LOCK"]}, "runAsUser": 1000}),
        json!({"capabilities": null, "runAsNonRoot": true}),
        json!({"capabilities": {"add": null, "drop": ["IPC_LOCK"]}}),
    ])
}

fn container() -> impl Strategy<Value = Value> {
    (env(), mounts(), resources(), security_context(), any::<[bool; 4]>()).prop_map(
        |(env, mounts, resources, security, absent)| {
            let mut container = json!({"name": "", "image": "i", "fieldOfTheFuture": {"a": [null, 1.5]}});
            let mut set = |key: &str, value: Value, absent: bool| {
                if !absent {
                    container[key] = value;
                }
            };
            set("securityContext", security, absent[0]);
            set("env", Value::Array(env), absent[1]);
            set("resources", resources, absent[2]);
            set("volumeMounts", Value::Array(mounts), absent[3]);
            container
        },
    )
}

fn annotations() -> impl Strategy<Value = Value> {
    let own = select(vec![
        json!({}),
        json!({"k8s.v1.cni.cncf.io/networks": "team/storage"}),
        json!({"k8s.v1.cni.cncf.io/networks": "[{\"name\": \"storage\", \"namespace\": \"team\"}]"}),
        json!({"networking.gke.io/interfaces": "[]", "other": "x"}),
    ]);
    own.prop_map(|mut own| {
        own[TRIGGER] = json!("true");
        own
    })
}

/// A triggered pod that the API server would take.
pub(crate) fn pod() -> impl Strategy<Value = Value> {
    let instance_type = select(vec![
        None,
        Some("p5.48xlarge"),
        Some("ml.p4d.24xlarge"),
        Some("standard_nd96isr_h100_v5"),
        Some("BM.GPU.H100.8"),
        Some("unheard-of"),
    ]);
    let containers = prop::collection::vec(container(), 1..4);
    let init = prop::collection::vec((container(), any::<bool>()), 0..3);
    (containers, init, volumes(), annotations(), instance_type, any::<[bool; 2]>()).prop_map(
        |(mut containers, init, volumes, annotations, instance_type, [host_network, extra])| {
            for (at, container) in containers.iter_mut().enumerate() {
                container["name"] = json!(format!("c{at}"));
            }
            let named = |(at, (mut container, sidecar)): (usize, (Value, bool))| {
                container["name"] = json!(format!("i{at}"));
                if sidecar {
                    container["restartPolicy"] = json!("Always");
                }
                container
            };
            let init: Vec<Value> = init.into_iter().enumerate().map(named).collect();
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "spec": {"containers": containers, "volumes": volumes, "initContainers": init},
                "metadata": {"generateName": "p-", "annotations": annotations},
            });
            if host_network {
                pod["spec"]["hostNetwork"] = json!(true);
            }
            if let Some(instance_type) = instance_type {
                pod["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": instance_type});
            }
            if extra {
                pod["spec"]["securityContext"] = json!({"runAsUser": 0});
                pod["status"] = Value::Null;
            }
            pod
        },
    )
}

/// A triggered pod with something of the wrong kind in it.
pub(crate) fn broken_pod() -> impl Strategy<Value = Value> {
    let places = vec![
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/0/env",
        "/spec/containers/0/env/0",
        "/spec/containers/0/resources",
        "/spec/containers/0/resources/limits",
        "/spec/containers/0/volumeMounts",
        "/spec/containers/0/volumeMounts/0",
        "/spec/containers/0/securityContext",
        "/spec/volumes",
        "/spec/volumes/0",
        "/spec/initContainers",
        "/spec/nodeSelector",
        "/spec/affinity",
        "/metadata/labels",
        "/metadata/namespace",
        "/spec/containers/0/name",
        "/spec/hostNetwork",
        "/spec/containers/0/volumeDevices",
        "/spec/containers/0/securityContext/capabilities",
        "/metadata/ownerReferences",
    ];
    let junk = select(vec![
        Value::Null,
        json!("text"),
        json!(7),
        json!(true),
        json!([]),
        json!({}),
        json!([1, null, "x", {}]),
        json!({"a": {"b": []}}),
        json!([[]]),
        json!(-0.5),
        json!({"limits": "x"}),
        json!({"add": "x"}),
    ]);
    (pod(), select(places), junk).prop_map(|(mut pod, place, junk)| {
        if let Some((parent, key)) = place.rsplit_once('/') {
            match pod.pointer_mut(parent) {
                Some(Value::Object(map)) => {
                    map.insert(key.to_owned(), junk);
                }
                Some(Value::Array(items)) if !items.is_empty() => items[0] = junk,
                _ => {}
            }
        }
        pod
    })
}
