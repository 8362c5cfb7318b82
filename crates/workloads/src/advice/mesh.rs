//! The sidecar of a service mesh, which takes over the connections between ranks.

use serde_json::Value;

use super::kinds::{self, Mesh};
use super::{Finding, Pod, keys};

const CODE: &str = "mesh_sidecar";

/// Finds the sidecar that a pod requests itself.
pub(super) fn sidecar(pod: &Pod<'_>) -> Option<Finding> {
    let metadata = &pod.value["metadata"];
    kinds::table().injected.meshes.iter().filter(|mesh| may_join(mesh, pod.value)).find_map(|mesh| {
        let (map, value) = requested(mesh, metadata)?;
        mesh.values.iter().find(|known| value == known.as_str())?;
        let place = pod.path(&pod.pointer_to(&["metadata", map]));
        let message = message(&format!("`{}` in `{place}`", mesh.key));
        Some(Finding::warning(CODE, pod.pointer_to(&["metadata", map, &mesh.key]), message))
    })
}

/// Finds the sidecar that a namespace requests for a pod, which does not say otherwise.
pub fn mesh_of_namespace(namespace: &Value, pod: &Value) -> Option<Finding> {
    let metadata = &namespace["metadata"];
    let meshes = kinds::table().injected.meshes.iter();
    let mut meshes = meshes.filter(|mesh| may_join(mesh, pod) && requested(mesh, &pod["metadata"]).is_none());
    meshes.find_map(|mesh| {
        let map = &metadata[if mesh.labels { "labels" } else { "annotations" }];
        if mesh.unless.iter().any(|(key, value)| map[key.as_str()] == **value) {
            return None;
        }
        let has = |(key, values): &(&String, &Vec<String>)| {
            let found = &map[key.as_str()];
            !found.is_null() && (values.is_empty() || values.iter().any(|value| found == value))
        };
        let (key, _) = mesh.namespaces.iter().find(has)?;
        let name = metadata["name"].as_str().unwrap_or_default();
        let message = format!(
            "{}; `{}: \"{}\"` in the pods does it",
            message(&format!("`{key}` of the Namespace `{name}`")),
            mesh.key,
            mesh.refusal
        );
        Some(Finding::warning(CODE, String::new(), message))
    })
}

fn message(requests: &str) -> String {
    format!(
        "turn off the sidecar that {requests} requests, or exclude the ports of the job from it: it takes over the \
         connections between the ranks, and NCCL hangs"
    )
}

/// Returns whether a pod may get the sidecar: meshes leave out pods on the host network, and ports that annotations
/// exclude.
fn may_join(mesh: &Mesh, pod: &Value) -> bool {
    pod["spec"]["hostNetwork"] != true
        && !keys(&pod["metadata"]["annotations"]).any(|key| key.starts_with(mesh.excludes.as_str()))
}

/// What a pod says about the sidecar itself, and where. The label counts before the annotation.
fn requested<'v>(mesh: &Mesh, metadata: &'v Value) -> Option<(&'static str, &'v Value)> {
    let maps = if mesh.labels { &["labels", "annotations"][..] } else { &["annotations"] };
    let mut said = maps.iter().map(|map| (*map, &metadata[*map][mesh.key.as_str()]));
    said.find(|(_, value)| !value.is_null())
}
