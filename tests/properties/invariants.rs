//! What must hold of a pod before and after.

use std::collections::BTreeSet;

use serde_json::Value;

/// Whether `after` has all that `before` has, in the same order; an error names the first thing that it lacks.
///
/// Two strings may grow, since they are lists: `LD_LIBRARY_PATH` and the networks annotation.
pub(crate) fn keeps(before: &Value, after: &Value, path: &str) -> Result<(), String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let kept: Vec<&String> = after.keys().filter(|key| before.contains_key(*key)).collect();
            if kept != before.keys().collect::<Vec<_>>() {
                return Err(format!("{path}: keys are lost or reordered"));
            }
            before.iter().try_for_each(|(key, value)| keeps(value, &after[key], &format!("{path}/{key}")))
        }
        (Value::Array(before), Value::Array(after)) => {
            if after.len() < before.len() {
                return Err(format!("{path}: entries are lost"));
            }
            before
                .iter()
                .zip(after)
                .enumerate()
                .try_for_each(|(at, (b, a))| keeps(b, a, &format!("{path}/{at}")))
        }
        // `null` is nothing in Kubernetes, and may be filled.
        (Value::Null, _) => Ok(()),
        (Value::String(b), Value::String(a)) if grows(path) && a.contains(b.trim_end_matches(']')) => Ok(()),
        (before, after) if before == after => Ok(()),
        (before, after) => Err(format!("{path}: {before} became {after}")),
    }
}

fn grows(path: &str) -> bool {
    path.ends_with("/value") || path.ends_with("/k8s.v1.cni.cncf.io/networks")
}

/// Why the API server would refuse a pod, as far as an injector can bring that about.
pub(crate) fn refusals(pod: &Value) -> Vec<String> {
    let mut refusals = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let spec = &pod["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let mut volumes = BTreeSet::new();
    for volume in list(&spec["volumes"]) {
        let name = text(&volume["name"]);
        if name.is_empty() || name.len() > 63 || !volumes.insert(name.clone()) {
            refusals.push(format!("volume name `{name}`"));
        }
    }
    let mut names = BTreeSet::new();
    for container in list(&spec["initContainers"]).iter().chain(&list(&spec["containers"])) {
        let name = text(&container["name"]);
        if name.len() > 63 || !names.insert(name.clone()) {
            refusals.push(format!("container name `{name}`"));
        }
        let mut paths: BTreeSet<String> =
            list(&container["volumeDevices"]).iter().map(|device| text(&device["devicePath"])).collect();
        for mount in list(&container["volumeMounts"]) {
            let path = text(&mount["mountPath"]);
            if !paths.insert(path.trim_end_matches('/').to_owned()) {
                refusals.push(format!("{name}: two mounts on {path}"));
            }
            if !volumes.contains(&text(&mount["name"])) {
                refusals.push(format!("{name}: no volume {}", mount["name"]));
            }
        }
        for entry in list(&container["env"]) {
            if !entry["value"].is_null() && !entry["valueFrom"].is_null() {
                refusals.push(format!("{name}: value beside valueFrom in {}", entry["name"]));
            }
        }
        resources(&name, &container["resources"], &mut refusals);
        security(&name, &container["securityContext"], &mut refusals);
    }
    let annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    if annotations.iter().map(|(key, value)| key.len() + text(value).len()).sum::<usize>() > 256 * 1024 {
        refusals.push("annotations too large".to_owned());
    }
    refusals
}

fn resources(name: &str, resources: &Value, refusals: &mut Vec<String>) {
    for (resource, limit) in resources["limits"].as_object().into_iter().flatten() {
        let request = &resources["requests"][resource];
        let extended = resource.contains('/') || resource.starts_with("hugepages-");
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if extended && !request.is_null() && plain(request) != plain(limit) {
            refusals.push(format!("{name}: {resource} limit {limit}, request {request}"));
        }
    }
    for resource in resources["requests"].as_object().into_iter().flat_map(serde_json::Map::keys) {
        if resource.contains('/') && resources["limits"][resource].is_null() {
            refusals.push(format!("{name}: {resource} requested without a limit"));
        }
    }
}

fn security(name: &str, context: &Value, refusals: &mut Vec<String>) {
    let admin = context["capabilities"]["add"]
        .as_array()
        .is_some_and(|added| added.iter().any(|name| name == "CAP_SYS_ADMIN" || name == "SYS_ADMIN"));
    if context["allowPrivilegeEscalation"] == false && (context["privileged"] == true || admin) {
        refusals.push(format!("{name}: allowPrivilegeEscalation false beside privileges"));
    }
}
