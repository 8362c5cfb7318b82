//! The networks that an edit attaches, by the devices that the pod requests.

use serde_json::{Map, Value};

use fabric_policy::overlay::{REQUESTS, RESOURCES};

/// The devices that a list of networks has none for.
pub(super) fn without_network(edit: &Map<String, Value>) -> usize {
    let Some(networks) = edit["$append"].as_array() else { return 0 };
    let resources = edit.get(RESOURCES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let devices = devices_of(resources, edit.get(REQUESTS).unwrap_or(&Value::Null));
    if is_one(resources) {
        return devices.iter().copied().fold(0, usize::saturating_add).saturating_sub(networks.len());
    }
    devices.iter().skip(networks.len()).filter(|count| **count > 0).count()
}

/// Returns whether the n-th device of one resource has the n-th network of a list.
fn is_one(resources: &[Value]) -> bool {
    matches!(resources, [one] if !one.is_array())
}

/// The networks to attach, each with the number of its attachments. A single network is attached once for each device.
/// Of a list, the networks are attached whose positions are those of resources that the pod requests. If the entry has no
/// resources, each network is attached once.
pub(super) fn attachments(edit: &Map<String, Value>) -> Vec<(String, usize)> {
    let resources = edit.get(RESOURCES).and_then(Value::as_array).map(Vec::as_slice);
    let requests = edit.get(REQUESTS).unwrap_or(&Value::Null);
    let devices = resources.map(|resources| devices_of(resources, requests));
    let all = devices.iter().flatten().copied().fold(0, usize::saturating_add);
    let is_one = resources.is_some_and(is_one);
    match &edit["$append"] {
        Value::String(name) => vec![(name.clone(), if devices.is_some() { all } else { 1 })],
        names => {
            let is_wanted = |at: usize| match &devices {
                None => true,
                Some(_) if is_one => at < all,
                Some(devices) => devices.get(at).is_some_and(|count| *count > 0),
            };
            let names = names.as_array().into_iter().flatten().enumerate();
            let names = names.filter(|(at, _)| is_wanted(*at)).filter_map(|(_, name)| name.as_str());
            names.map(|name| (name.to_owned(), 1)).collect()
        }
    }
}

/// The devices that a pod requests of each resource. Those of a list are counted individually.
fn devices_of(resources: &[Value], requests: &Value) -> Vec<usize> {
    let names = resources.iter().flat_map(|resource| match resource {
        Value::Array(names) => names.as_slice(),
        one => std::slice::from_ref(one),
    });
    let count = |name: &Value| usize::try_from(requests[name.as_str()?].as_u64()?).ok();
    names.map(|name| count(name).unwrap_or_default()).collect()
}
