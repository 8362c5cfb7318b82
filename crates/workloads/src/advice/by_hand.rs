//! The fabric that a pod has without a policy.

use serde_json::Value;

use fabric_engine::requests;
use fabric_yaml::json::items;

use super::kinds;
use super::signs::containers;

/// Returns whether the fabric of a pod was set up by hand: the pod requests other devices or claims, has the
/// annotations or host paths of a fabric, or has all devices of its node.
pub(super) fn has_fabric(resources: &[&str], pod: &Value) -> bool {
    let annotations = &kinds::table().by_hand.annotations;
    let (of_pod, spec) = (&pod["metadata"]["annotations"], &pod["spec"]);
    let is_named = |annotation: &String| !of_pod[annotation.as_str()].is_null();
    let is_privileged = |container: &Value| container["securityContext"]["privileged"] == true;
    annotations.iter().any(is_named)
        || (spec["hostNetwork"] == true && containers(spec).any(is_privileged))
        || !items(spec, "resourceClaims").is_empty()
        || items(spec, "volumes").iter().any(shows_adapters)
        || requests_device(resources, pod)
}

/// Returns whether a pod requests devices that can be those of a fabric.
pub(super) fn requests_device(resources: &[&str], pod: &Value) -> bool {
    let is_device = |(name, count): (&String, &Value)| is_adapter(resources, name) && *count != 0;
    requests(pod).as_object().is_some_and(|requests| requests.iter().any(is_device))
}

/// Returns whether a resource can be a device of a fabric.
pub(super) fn is_adapter(resources: &[&str], name: &str) -> bool {
    let is_other = |part: &String| name.contains(part.as_str());
    name.contains('/')
        && !resources.contains(&name)
        && !kinds::table().by_hand.other_devices.iter().any(is_other)
}

/// Returns whether a part of an object without a pod template requests other devices than GPUs, or has the annotations
/// of a fabric.
pub(super) fn names_fabric(resources: &[&str], name: &str, value: &Value) -> bool {
    const AMOUNTS: [&str; 3] = ["custom", "limits", "requests"];
    let is_amounts = AMOUNTS.contains(&name);
    let is_device = |key: &str| is_amounts && is_adapter(resources, key);
    match value {
        Value::Object(map) => map.iter().any(|(key, child)| {
            is_device(key)
                || kinds::table().by_hand.annotations.contains(key)
                || names_fabric(resources, key, child)
        }),
        Value::Array(items) => items.iter().any(|item| names_fabric(resources, name, item)),
        _ => false,
    }
}

/// Returns whether a volume has a host path that exposes the adapters of the node to the pod.
pub(super) fn shows_adapters(volume: &Value) -> bool {
    let path = volume["hostPath"]["path"].as_str();
    path.is_some_and(|path| {
        kinds::table().by_hand.host_paths.iter().any(|known| path.starts_with(known.as_str()))
    })
}
