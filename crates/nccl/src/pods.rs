//! The devices of a pod, and its node.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use fabric_yaml::quantity::Quantity;

/// The first container with devices of a pod that has not ended: an extended resource, or a claim of DRA.
pub fn container_with_devices(pod: &Value) -> Option<&str> {
    if ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase) {
        return None;
    }
    let containers = pod["spec"]["containers"].as_array()?;
    let has_devices = |container: &&Value| {
        let resources = &container["resources"];
        extended(&resources["limits"]).next().is_some() || !resources["claims"].is_null()
    };
    containers.iter().find(has_devices)?["name"].as_str()
}

/// The first container of a running pod whose NCCL writes its log to files, with their folder.
pub fn folder_of_log(pod: &Value) -> Option<(&str, &str)> {
    let containers = pod["spec"]["containers"].as_array().filter(|_| pod["status"]["phase"] == "Running")?;
    containers.iter().find_map(|container| {
        let mut env = container["env"].as_array()?.iter();
        let (folder, _) =
            env.find(|one| one["name"] == "NCCL_DEBUG_FILE")?["value"].as_str()?.rsplit_once('/')?;
        Some((container["name"].as_str()?, folder)).filter(|_| folder.starts_with('/'))
    })
}

/// The values of each variable in the containers of a pod.
pub(super) type Variables = HashMap<String, HashSet<Option<String>>>;

/// The variables of the containers of a pod, apart from those whose values the pod does not spell out.
pub(super) fn variables(pod: &Value) -> Variables {
    let mut all = Variables::new();
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    for variable in containers.flat_map(|container| container["env"].as_array().into_iter().flatten()) {
        let Some(name) = variable["name"].as_str() else { continue };
        let value = variable["value"].as_str().filter(|value| !value.contains("$("));
        all.entry(name.to_owned()).or_default().insert(value.map(str::to_owned));
    }
    all.retain(|_, values| !values.contains(&None));
    all
}

/// The devices that a node offers fewer of than its pod has, each in words.
pub fn devices_gone(pod: &Value, node: &Value) -> Option<String> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let gone = containers.flat_map(|container| extended(&container["resources"]["limits"])).find_map(
        |(name, requested)| {
            let offered = node["status"]["allocatable"].get(name).cloned().unwrap_or_else(|| "0".into());
            let is_short = count(&offered)? < count(requested)?;
            is_short.then(|| format!("{name}: {}", offered.as_str().unwrap_or_default()))
        },
    )?;
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!("node {name}, status.allocatable: {gone}"))
}

/// The extended resources in the limits of a container.
fn extended(limits: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let all = limits.as_object().into_iter().flatten().map(|(name, count)| (name.as_str(), count));
    all.filter(|(name, _)| name.contains('/'))
}

fn count(value: &Value) -> Option<i64> {
    Quantity::from_value(value)?.as_count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_that_offers_less_than_its_pod_has_lost_a_plugin() {
        let limits = json!({"cpu": "8", "example.com/nic": 8, "example.com/shared": 1});
        let pod = json!({"spec": {"containers": [{"name": "log"}, {"name": "main", "resources": {"limits": limits}}]}});
        assert_eq!(container_with_devices(&pod), Some("main"));
        let gone = |nics: Value| {
            let offered = json!({"cpu": "1", "example.com/nic": nics, "example.com/shared": "1k"});
            devices_gone(&pod, &json!({"metadata": {"name": "a"}, "status": {"allocatable": offered}}))
        };
        assert_eq!(gone(json!("8")), None);
        assert_eq!(gone(json!("0")).unwrap(), "node a, status.allocatable: example.com/nic: 0");
        let node = json!({"metadata": {"name": "b"}, "status": {"allocatable": {"example.com/nic": "8"}}});
        assert_eq!(devices_gone(&pod, &node).unwrap(), "node b, status.allocatable: example.com/shared: 0");
        let claims =
            json!({"spec": {"containers": [{"name": "main", "resources": {"claims": [{"name": "nic"}]}}]}});
        assert_eq!(container_with_devices(&claims), Some("main"));
        assert_eq!(container_with_devices(&json!({"spec": {"containers": [{"name": "launcher"}]}})), None);
    }
}
