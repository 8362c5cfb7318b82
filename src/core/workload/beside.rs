//! Finds what makes a job slow or hang next to a right injection.

use serde_json::Map;

use super::by_hand::{requests_device, shows_adapters};
use super::kinds::{self, Mesh};

use super::{NearMiss, Pod};

/// Checks a pod that a policy injects.
pub(super) fn check(resources: &[&str], pod: &Pod<'_>, found: &mut Vec<NearMiss>) {
    found.extend(mesh(pod));
    found.extend(adapters_by_path(resources, pod));
    found.extend(data_over_tcp(pod));
}

fn mesh(pod: &Pod<'_>) -> Option<NearMiss> {
    let metadata = &pod.value["metadata"];
    kinds::beside().meshes.iter().find_map(|Mesh { key, values, excludes }| {
        let asks = |map: &&str| {
            let value = metadata[*map][key.as_str()].as_str();
            value.is_some_and(|value| values.iter().any(|known| known == value))
        };
        let map = ["annotations", "labels"].into_iter().find(asks)?;
        let mut annotations = metadata["annotations"].as_object().into_iter().flat_map(Map::keys);
        if annotations.any(|annotation| annotation.starts_with(excludes.as_str())) {
            return None;
        }
        let place = pod.path(&pod.pointer_to(&["metadata", map]));
        let message = format!(
            "turn the sidecar off that `{key}` in `{place}` asks for, or exclude the ports of the job from it: it takes \
             over the connections between the ranks, and NCCL hangs"
        );
        Some(NearMiss { code: "mesh_sidecar", pointer: pod.pointer_to(&["metadata", map, key]), message })
    })
}

/// Where no device is requested, the path is how the pod gets its adapters, and policies add it themselves.
fn adapters_by_path(resources: &[&str], pod: &Pod<'_>) -> Option<NearMiss> {
    let spec = &pod.value["spec"];
    let volumes = spec["volumes"].as_array()?;
    if spec["hostNetwork"] == true || !requests_device(resources, pod.value) {
        return None;
    }
    let at = volumes.iter().position(shows_adapters)?;
    let pointer = pod.pointer_to(&["spec", "volumes", &at.to_string()]);
    let message = format!(
        "remove `{}`: it shows all adapters of the node, of which NCCL may use one that the pod was not given; the device \
         plugin adds those of the pod",
        pod.path(&pointer)
    );
    Some(NearMiss { code: "adapters_by_path", pointer, message })
}

fn data_over_tcp(pod: &Pod<'_>) -> Option<NearMiss> {
    let containers = pod.value["spec"]["containers"].as_array()?;
    containers.iter().enumerate().find_map(|(at, container)| {
        let image = container["image"].as_str()?;
        let name = kinds::beside().ucx_images.iter().find(|name| image.contains(name.as_str()))?;
        let env = container["env"].as_array()?;
        let of_ucx = env.iter().position(|one| one["name"] == "UCX_TLS" && one["value"] == "tcp")?;
        let pointer =
            pod.pointer_to(&["spec", "containers", &at.to_string(), "env", &of_ucx.to_string(), "value"]);
        let message = format!(
            "name the transports of the fabric in `{}`, or leave it out (`--set ucxTls=`): an image with `{name}` in its \
             name moves data with UCX, and `tcp` is slow",
            pod.path(&pointer)
        );
        Some(NearMiss { code: "data_over_tcp", pointer, message })
    })
}
