//! Workloads that the scenarios make.

use serde_json::{Value, json};

use fabric_engine::STAMP;

/// The annotation that asks for a fast network.
pub(crate) const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

/// A template of a pod with as many GPUs as a machine has, on machines of a type, which asks for a fast network or not.
pub(crate) fn template(annotated: bool, instance_type: &str) -> Value {
    let annotations = if annotated { json!({TRIGGER: "true"}) } else { json!({}) };
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "nodeSelector": {"node.kubernetes.io/instance-type": instance_type},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "registry.example/train:1",
                "resources": {"limits": {"nvidia.com/gpu": 8}},
            }],
        },
    })
}

/// A template of a pod that is injected, on the machines that most scenarios use.
pub(crate) fn annotated_template() -> Value {
    template(true, "p5.48xlarge")
}

/// A template of a pod that asks for nothing and fits anywhere.
pub(crate) fn plain_template() -> Value {
    json!({
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example/web:1"}],
        },
    })
}

/// A pod by a template.
pub(crate) fn pod(namespace: &str, name: &str, template: &Value) -> Value {
    let mut metadata = template["metadata"].clone();
    metadata["namespace"] = namespace.into();
    metadata["name"] = name.into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// A Job with pods that run at once.
pub(crate) fn job(namespace: &str, name: &str, pods: usize, template: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0,
            "template": template,
        },
    })
}

/// A StatefulSet, such as a LeaderWorkerSet makes for its workers.
pub(crate) fn stateful_set(namespace: &str, name: &str, pods: usize, template: &Value) -> Value {
    let mut template = template.clone();
    template["metadata"]["labels"] = json!({"app": name});
    template["spec"].as_object_mut().unwrap().remove("restartPolicy");
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": pods, "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}}, "template": template,
        },
    })
}

/// Returns true if a pod was injected.
pub(crate) fn is_injected(pod: &Value) -> bool {
    pod["metadata"]["annotations"][STAMP].is_string()
}

/// How many EFA devices the first container of a pod asks for.
pub(crate) fn efa_devices(pod: &Value) -> &str {
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    limits["vpc.amazonaws.com/efa"].as_str().unwrap_or("0")
}
