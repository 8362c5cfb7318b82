//! Reviews as an API server posts them: with defaults filled in, a service account's volume and managed fields.

use serde_json::{Value, json};

/// A typical worker of a training job, annotated.
pub(crate) fn annotated() -> Vec<u8> {
    review(&pod("nmp.nvidia.com/enable-multi-node-networking", 12)).to_string().into_bytes()
}

/// The same pod without the annotation and GPUs. With GPUs, a server that just started takes it for a pod of other
/// policies.
pub(crate) fn unannotated() -> Vec<u8> {
    let mut pod = pod("example.com/team", 12);
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    for amounts in ["limits", "requests"] {
        resources[amounts].as_object_mut().unwrap().remove("nvidia.com/gpu");
    }
    review(&pod).to_string().into_bytes()
}

/// The annotated pod with so many variables that its review is 1 MiB.
pub(crate) fn large() -> Vec<u8> {
    let size = |count: usize| {
        review(&pod("nmp.nvidia.com/enable-multi-node-networking", count)).to_string().into_bytes()
    };
    let (small, larger) = (size(1_000).len(), size(2_000).len());
    size(1_000 + ((1 << 20) - small) / ((larger - small) / 1_000))
}

fn review(pod: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "4a1b8f3e-7c52-4d1e-9a63-0f5be2d7c816",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "training",
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:job-controller",
                "uid": "0b7a5d8e-3e0f-4b56-8f3f-5d4c6f2b8a91",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=5d0f2f9e-8c6e-4d3a-9a8f-2f8f0b7d3c11"]},
            },
            "object": pod,
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn pod(annotation: &str, variables: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|index| json!({"name": format!("TRAINING_SETTING_{index}"), "value": format!("value-{index}")}))
        .collect();
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": "llama-pretrain-0-",
            "creationTimestamp": null,
            "labels": {
                "app.kubernetes.io/name": "llama-pretrain",
                "batch.kubernetes.io/controller-uid": "9d1f6f0a-7d7a-4d3c-8d0c-0d5d3d1f8b52",
                "batch.kubernetes.io/job-name": "llama-pretrain",
                "batch.kubernetes.io/job-completion-index": "0",
            },
            "annotations": {annotation: "true", "batch.kubernetes.io/job-completion-index": "0"},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "llama-pretrain",
                "uid": "9d1f6f0a-7d7a-4d3c-8d0c-0d5d3d1f8b52", "controller": true, "blockOwnerDeletion": true,
            }],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "managedFields": managed_fields(annotation),
        },
        "spec": {
            "volumes": [
                {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "llama-checkpoints"}},
                {"name": "kube-api-access-x7kqp", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{"path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
                ]}},
            ],
            "containers": [{
                "name": "trainer",
                "image": "registry.example.com/training/pytorch:2.8-cuda13",
                "command": ["torchrun"],
                "args": ["--nnodes=16", "--nproc-per-node=8", "--rdzv-backend=c10d", "/workspace/train.py"],
                "ports": [{"name": "rendezvous", "containerPort": 29500, "protocol": "TCP"}],
                "env": env,
                "resources": {
                    "limits": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1200Gi"},
                    "requests": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1200Gi"},
                },
                "volumeMounts": [
                    {"name": "checkpoints", "mountPath": "/checkpoints"},
                    {"name": "kube-api-access-x7kqp", "readOnly": true,
                     "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"},
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    })
}

fn managed_fields(annotation: &str) -> Value {
    let annotation = format!("f:{annotation}");
    json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "time": "2026-11-21T08:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:annotations": {".": {}, annotation: {}, "f:batch.kubernetes.io/job-completion-index": {}},
                "f:finalizers": {".": {}, "v:\"batch.kubernetes.io/job-tracking\"": {}},
                "f:generateName": {},
                "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:batch.kubernetes.io/controller-uid": {},
                    "f:batch.kubernetes.io/job-completion-index": {}, "f:batch.kubernetes.io/job-name": {}},
                "f:ownerReferences": {".": {}, "k:{\"uid\":\"9d1f6f0a-7d7a-4d3c-8d0c-0d5d3d1f8b52\"}": {}},
            },
            "f:spec": {
                "f:containers": {"k:{\"name\":\"trainer\"}": {
                    ".": {}, "f:args": {}, "f:command": {}, "f:env": {}, "f:image": {}, "f:imagePullPolicy": {},
                    "f:name": {}, "f:ports": {}, "f:resources": {}, "f:terminationMessagePath": {},
                    "f:terminationMessagePolicy": {}, "f:volumeMounts": {},
                }},
                "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:nodeSelector": {}, "f:restartPolicy": {},
                "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
                "f:tolerations": {}, "f:volumes": {},
            },
        },
    }])
}
