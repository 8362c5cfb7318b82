//! Finds requests for GPUs that do not count, in pods that request the fabric.

use serde_json::{Map, Value};

use fabric_engine::DEVICE_CLASS;
use fabric_engine::LISTS;
use fabric_engine::policy_set::PolicySet;
use fabric_yaml::pointer::{at_pointer, push_token};

use super::{NearMiss, Pod, spelling};

/// The names of the resources that count as GPUs for a policy, each once. Devices that nodes offer through a device
/// class are requested by the class.
pub(super) fn names(policies: &PolicySet) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in policies.policies().iter().flat_map(|policy| policy.definition().gpu_resources()) {
        let domain = name.split('/').next();
        let is_behind_class = names.iter().any(|known| known.strip_prefix(DEVICE_CLASS) == domain);
        if !is_behind_class && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Returns whether a container of the pod requests a GPU, or uses a claim.
pub(super) fn requested(pod: &Value, resources: &[&str]) -> bool {
    let lists = LISTS.into_iter().filter_map(|list| pod["spec"][list].as_array());
    lists.flatten().any(|container| {
        let of_container = &container["resources"];
        let claims = of_container["claims"].as_array().is_some_and(|claims| !claims.is_empty());
        let mut amounts =
            ["limits", "requests"].into_iter().filter_map(|list| of_container[list].as_object());
        claims || amounts.any(|amounts| resources.iter().any(|name| amounts.get(*name).is_some_and(is_some)))
    })
}

fn is_some(amount: &Value) -> bool {
    !amount.is_null() && *amount != 0 && amount != "0"
}

/// Calls `visit` with the JSON Pointer and the value of each container.
fn each_container(pod: &Pod<'_>, mut visit: impl FnMut(&str, &Value)) {
    for list in LISTS {
        for (index, container) in pod.value["spec"][list].as_array().into_iter().flatten().enumerate() {
            visit(&pod.pointer_to(&["spec", list, &index.to_string()]), container);
        }
    }
}

/// Finds requests under other names and in other places. If there are none, reports that the pod requests no GPU.
pub(super) fn not_found(resources: &[&str], pod: &Pod<'_>, found: &mut Vec<NearMiss>) {
    let before = found.len();
    each_container(pod, |container, value| {
        for list in ["limits", "requests"] {
            let amounts = value["resources"][list].as_object();
            for key in
                amounts.into_iter().flat_map(Map::keys).filter(|key| !resources.contains(&key.as_str()))
            {
                let like = resources.iter().find(|known| spelling::of_resource(key, known));
                let Some(known) = like else { continue };
                let map = format!("{container}/resources/{list}");
                let message = format!(
                    "write `{known}` instead of `{key}` in `{}`: no policy counts `{key}`",
                    pod.path(&map)
                );
                found.push(near_miss("misspelled_gpu", &map, key, message));
            }
        }
        misplaced(
            resources,
            pod,
            &[&format!("{container}/resources"), &format!("{container}/limits")],
            container,
            found,
        );
    });
    let template = pod.pointer;
    let first = pod.pointer_to(&["spec", "containers", "0"]);
    let of_pod = ["/spec/resources/limits", "/spec/resources", "/resources/limits"]
        .map(|tail| format!("{template}{tail}"));
    misplaced(resources, pod, &of_pod.each_ref().map(String::as_str), &first, found);
    // A launcher needs no GPUs if its workers have them, a TrainJob brings those of its runtime, and a pod with an assumed
    // annotation did not request the fabric.
    let object = at_pointer(pod.document, template.split("/spec").next().unwrap_or_default());
    let is_runtime = object
        .is_some_and(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("TrainingRuntime")));
    let asks = pod.context.annotations.is_empty() && !pod.has_gpu_peers && !pod.is_launcher() && !is_runtime;
    if found.len() == before && asks {
        // The first one is that of most nodes; others have names of their own.
        let known = resources.first().copied().unwrap_or_default();
        let message = format!(
            "request `{known}` in `{}`{}: the fabric is for containers with GPUs",
            pod.path(&format!("{first}/resources/limits")),
            others(pod.value),
        );
        found.push(NearMiss {
            code: "no_gpu_request",
            pointer: pod.pointer_to(&["spec", "containers"]),
            message,
        });
    }
}

/// Finds GPUs in maps that are not the limits of a container.
fn misplaced(resources: &[&str], pod: &Pod<'_>, maps: &[&str], container: &str, found: &mut Vec<NearMiss>) {
    for map in maps {
        let amounts = at_pointer(pod.document, map).and_then(Value::as_object);
        for key in amounts.into_iter().flat_map(Map::keys).filter(|key| resources.contains(&key.as_str())) {
            let to = pod.path(&format!("{container}/resources/limits"));
            let message =
                format!("move `{key}` from `{}` to `{to}`, where GPUs are requested", pod.path(map));
            found.push(near_miss("misplaced_gpu", map, key, message));
        }
    }
}

/// The devices that the containers request instead of GPUs.
fn others(pod: &Value) -> String {
    let mut names: Vec<&str> = Vec::new();
    let lists = LISTS.into_iter().filter_map(|list| pod["spec"][list].as_array());
    let limits = lists.flatten().filter_map(|container| container["resources"]["limits"].as_object());
    for key in limits.flat_map(Map::keys).filter(|key| key.contains('/')) {
        if !names.contains(&key.as_str()) {
            names.push(key);
        }
    }
    let names: Vec<String> = names.into_iter().take(3).map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (no policy in use counts {} as GPUs)", names.join(", "))
    }
}

/// Finds GPUs that are requested without an equal limit.
pub(super) fn without_limit(resources: &[&str], pod: &Pod<'_>, found: &mut Vec<NearMiss>) {
    each_container(pod, |container, value| {
        for key in resources {
            let requested = &value["resources"]["requests"][*key];
            if is_some(requested) && value["resources"]["limits"][*key].is_null() {
                let amount =
                    requested.as_str().map_or_else(|| requested.to_string(), |text| format!("\"{text}\""));
                let to = pod.path(&format!("{container}/resources/limits"));
                let message = format!(
                    "add `{key}: {amount}` to `{to}`: the API server refuses a request for GPUs without an equal limit"
                );
                let map = format!("{container}/resources/requests");
                found.push(near_miss("gpu_without_limit", &map, key, message));
            }
        }
    });
}

fn near_miss(code: &'static str, map: &str, key: &str, message: String) -> NearMiss {
    let mut pointer = map.to_owned();
    push_token(&mut pointer, key);
    NearMiss { code, pointer, message }
}
