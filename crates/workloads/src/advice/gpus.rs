//! Finds requests for GPUs that do not count, in pods that request the fabric.

use serde_json::Value;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{CONTAINER_LISTS, requests};
use fabric_policy::claims::DEVICE_CLASS;
use fabric_yaml::each_once;
use fabric_yaml::json::items;
use fabric_yaml::pointer::at_pointer;

use super::signs::containers;
use super::{Finding, Pod, keys, spelling, with_token};

/// The names of the resources that count as GPUs for a policy, each once. Devices that nodes offer through a device
/// class are requested by the class.
pub(super) fn names(policies: &PolicySet) -> Vec<&str> {
    let all = policies.policies().iter().flat_map(|policy| &policy.definition().gpus.resources);
    let mut names: Vec<&str> = Vec::new();
    for name in each_once(all) {
        let domain = name.split('/').next();
        if !names.iter().any(|known| known.strip_prefix(DEVICE_CLASS) == domain) {
            names.push(name);
        }
    }
    names
}

/// Returns whether a container of the pod requests a GPU, or uses a claim.
pub(super) fn requested(pod: &Value, resources: &[&str]) -> bool {
    containers(&pod["spec"]).map(|container| &container["resources"]).any(|requested| {
        let has =
            |name: &&str| is_some(&requested["limits"][*name]) || is_some(&requested["requests"][*name]);
        !items(requested, "claims").is_empty() || resources.iter().any(has)
    })
}

fn is_some(amount: &Value) -> bool {
    !amount.is_null() && *amount != 0 && amount != "0"
}

/// Finds requests under other names and in other places. If there are none, reports that the pod requests no GPU.
pub(super) fn not_found(pod: &Pod<'_>, found: &mut Vec<Finding>) {
    let before = found.len();
    for (container, value) in pod.containers(&CONTAINER_LISTS) {
        for list in ["limits", "requests"] {
            for key in keys(&value["resources"][list]).filter(|key| !pod.gpus.contains(&key.as_str())) {
                let like = pod.gpus.iter().find(|known| spelling::of_resource(key, known));
                let Some(known) = like else { continue };
                let map = format!("{container}/resources/{list}");
                let message = format!(
                    "write `{known}` instead of `{key}` in `{}`: no policy counts `{key}`",
                    pod.path(&map)
                );
                found.push(near_miss("misspelled_gpu", &map, key, message));
            }
        }
        let maps = ["/resources", "/limits"].map(|tail| format!("{container}{tail}"));
        misplaced(pod, &maps, &container, found);
    }
    let template = pod.pointer;
    let first = pod.pointer_to(&["spec", "containers", "0"]);
    let maps = ["/spec/resources/limits", "/spec/resources", "/resources/limits"];
    misplaced(pod, &maps.map(|tail| format!("{template}{tail}")), &first, found);
    // A launcher needs no GPUs if its workers have them, a TrainJob brings those of its runtime, and a pod with an assumed
    // annotation did not request the fabric.
    let object = at_pointer(pod.document, template.split("/spec").next().unwrap_or_default());
    let kind = object.and_then(|object| object["kind"].as_str());
    let is_runtime = kind.is_some_and(|kind| kind.ends_with("TrainingRuntime"));
    let asks = pod.context.annotations.is_empty() && !pod.has_gpu_peers && !pod.is_launcher() && !is_runtime;
    // The first one is that of most nodes; others have names of their own.
    if let Some(known) = pod.gpus.first()
        && found.len() == before
        && asks
    {
        let message = format!(
            "request `{known}` in `{}`{}: the fabric is for containers with GPUs",
            pod.path(&format!("{first}/resources/limits")),
            others(pod.value),
        );
        let pointer = pod.pointer_to(&["spec", "containers"]);
        found.push(Finding::warning("no_gpu_request", pointer, message));
    }
}

/// Finds GPUs in maps that are not the limits of a container.
fn misplaced(pod: &Pod<'_>, maps: &[String], container: &str, found: &mut Vec<Finding>) {
    for map in maps {
        let amounts = at_pointer(pod.document, map).unwrap_or(&Value::Null);
        for key in keys(amounts).filter(|key| pod.gpus.contains(&key.as_str())) {
            let to = pod.path(&format!("{container}/resources/limits"));
            let message =
                format!("move `{key}` from `{}` to `{to}`, where GPUs are requested", pod.path(map));
            found.push(near_miss("misplaced_gpu", map, key, message));
        }
    }
}

/// The devices that the containers request instead of GPUs.
fn others(pod: &Value) -> String {
    let limits = containers(&pod["spec"]).map(|container| &container["resources"]["limits"]);
    let names = each_once(limits.flat_map(keys).filter(|key| key.contains('/'))).into_iter();
    let names: Vec<String> = names.take(3).map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (no policy in use counts {} as GPUs)", names.join(", "))
    }
}

/// Finds GPUs that are requested without an equal limit.
pub(super) fn without_limit(pod: &Pod<'_>, found: &mut Vec<Finding>) {
    for (container, value) in pod.containers(&CONTAINER_LISTS) {
        for key in pod.gpus {
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
    }
}

/// Finds workers that run more ranks than they have GPUs.
pub(super) fn more_ranks(pod: &Pod<'_>) -> Option<Finding> {
    let object = pod.pointer.strip_suffix("/spec/mpiReplicaSpecs/Worker/template")?;
    let slots = at_pointer(pod.document, object)?["spec"]["slotsPerWorker"].as_i64()?;
    let requested = requests(pod.value);
    let gpus = pod.gpus.iter().find_map(|resource| requested[*resource].as_i64())?;
    let pointer = format!("{object}/spec/slotsPerWorker");
    (slots > gpus && gpus > 0).then(|| {
        let message = format!(
            "write {gpus} in `{}`, or request more GPUs: each worker runs {slots} ranks on {gpus} GPUs, and NCCL refuses \
             two ranks on one GPU",
            pod.path(&pointer)
        );
        Finding::warning("more_ranks_than_gpus", pointer, message)
    })
}

fn near_miss(code: &'static str, map: &str, key: &str, message: String) -> Finding {
    Finding::warning(code, with_token(map.to_owned(), key), message)
}
