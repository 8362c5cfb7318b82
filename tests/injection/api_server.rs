//! The rules of the API server's pod validation that a mutation can break.

use std::collections::BTreeSet;

use fabric_yaml::quantity::Quantity;
use serde_json::{Map, Value};

use crate::helpers::items;

const MAX_NAME: usize = 63;
const MAX_ANNOTATIONS: usize = 256 * 1024;
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Panics with the rule that the pod breaks.
pub(crate) fn assert_api_server_would_accept(pod: &Value) {
    for key in pod.as_object().unwrap().keys() {
        assert!(
            ["apiVersion", "kind", "metadata", "spec", "status"].contains(&key.as_str()),
            "a pod has no `{key}`"
        );
    }
    assert_annotations(&pod["metadata"]["annotations"]);
    let spec = &pod["spec"];
    let volumes = unique_names(items(&spec["volumes"]).iter());
    unique_names(CONTAINER_LISTS.iter().flat_map(|list| items(&spec[*list])));
    for list in CONTAINER_LISTS {
        for container in items(&spec[list]) {
            assert!(
                container["restartPolicy"].is_null() || list == "initContainers",
                "restartPolicy in {list}"
            );
            assert_mounts(container, &volumes);
            assert_env(container);
            assert_security_context(&container["securityContext"]);
            assert_resources(&container["resources"]);
        }
    }
}

fn assert_annotations(annotations: &Value) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let name = key.rsplit('/').next().unwrap();
        assert!(!name.is_empty() && name.len() <= MAX_NAME, "annotation {key}");
        size += key.len() + value.as_str().expect("annotations are strings").len();
    }
    assert!(size <= MAX_ANNOTATIONS, "{size} bytes of annotations");
}

fn unique_names<'p>(entries: impl Iterator<Item = &'p Value>) -> BTreeSet<&'p str> {
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry["name"].as_str().expect("a name");
        let is_label = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        let bounded =
            !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('-') && !name.ends_with('-');
        assert!(is_label && bounded, "the name `{name}`");
        assert!(names.insert(name), "the name `{name}` stands twice");
    }
    names
}

/// Paths are compared as the kernel does: the API server takes `/x` beside `/x/`, and the container fails.
fn assert_mounts(container: &Value, volumes: &BTreeSet<&str>) {
    let mut paths = BTreeSet::new();
    let mounts = items(&container["volumeMounts"]).iter().map(|mount| (mount, "mountPath"));
    let devices = items(&container["volumeDevices"]).iter().map(|device| (device, "devicePath"));
    for (entry, key) in mounts.chain(devices) {
        let volume = entry["name"].as_str().expect("a volume's name");
        assert!(volumes.contains(volume), "the volume `{volume}` is mounted and not there");
        let path = entry[key].as_str().expect("a path");
        let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty() && *step != ".").collect();
        assert!(paths.insert(steps), "two mounts on {path}");
    }
}

fn assert_env(container: &Value) {
    for entry in items(&container["env"]) {
        let has_value = entry["value"].as_str().is_some_and(|value| !value.is_empty());
        assert!(!(has_value && entry["valueFrom"].is_object()), "a value beside a valueFrom: {entry}");
        assert!(entry["value"].is_null() || entry["value"].is_string(), "a value that is no string: {entry}");
    }
}

fn assert_security_context(context: &Value) {
    let added = items(&context["capabilities"]["add"]);
    let is_admin = |name: &Value| name == "SYS_ADMIN" || name == "CAP_SYS_ADMIN";
    if context["allowPrivilegeEscalation"] == false {
        assert!(context["privileged"] != true, "allowPrivilegeEscalation: false beside privileged: true");
        assert!(!added.iter().any(is_admin), "allowPrivilegeEscalation: false beside CAP_SYS_ADMIN");
    }
    let distinct: BTreeSet<&str> = added.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(distinct.len(), added.len(), "a capability stands twice");
}

fn assert_resources(resources: &Value) {
    let amounts = |list: &str| resources[list].as_object().into_iter().flat_map(Map::iter);
    let quantity = |value: &Value| Quantity::from_value(value).expect("a quantity");
    for (name, limit) in amounts("limits") {
        let Some(request) = resources["requests"].get(name).map(quantity) else { continue };
        let extended = name.contains('/') || name.starts_with("hugepages-");
        assert!(request == quantity(limit) || !extended, "{name}: the request is not the limit");
        assert!(request <= quantity(limit), "{name}: the request is above the limit");
    }
    let both = || amounts("limits").chain(amounts("requests"));
    for (name, amount) in both().filter(|(name, _)| name.contains('/')) {
        assert!(quantity(amount).as_count().is_some(), "{name}: {amount} is not whole");
    }
    if both().any(|(name, _)| name.starts_with("hugepages-")) {
        assert!(
            both().any(|(name, _)| name == "cpu" || name == "memory"),
            "huge pages without cpu or memory"
        );
    }
}

/// The checks themselves can fail.
#[test]
fn pods_that_the_api_server_refuses_are_noticed() {
    use serde_json::json;
    let container = |fields: Value| {
        let container = crate::helpers::with(json!({"name": "a", "image": "i"}), &fields);
        json!({"metadata": {}, "spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}})
    };
    let refused = [
        json!({"metadata": {}, "spec": {}, "annotations": {}}),
        json!({"metadata": {"annotations": {"k": "x".repeat(MAX_ANNOTATIONS)}}, "spec": {}}),
        json!({"metadata": {"annotations": {format!("a.io/{}", "x".repeat(64)): ""}}, "spec": {}}),
        json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "a"}]}}),
        json!({"spec": {"volumes": [{"name": "v"}, {"name": "v"}]}}),
        json!({"spec": {"volumes": [{"name": "v".repeat(64)}]}}),
        json!({"spec": {"containers": [{"name": "a", "restartPolicy": "Always"}]}}),
        container(json!({"volumeMounts": [{"name": "w", "mountPath": "/w"}]})),
        container(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v/"}]}),
        ),
        container(json!({"env": [{"name": "X", "value": "1", "valueFrom": {}}]})),
        container(json!({"securityContext": {"allowPrivilegeEscalation": false, "privileged": true}})),
        container(json!({"securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}})),
        container(json!({"resources": {"limits": {"a.io/b": 2}, "requests": {"a.io/b": 1}}})),
        container(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}})),
        container(json!({"resources": {"limits": {"a.io/b": "500m"}}})),
        container(json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}})),
    ];
    for pod in refused {
        let verdict = std::panic::catch_unwind(|| assert_api_server_would_accept(&pod));
        assert!(verdict.is_err(), "taken: {pod}");
    }
    assert_api_server_would_accept(&container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})));
}
