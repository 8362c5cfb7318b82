//! The networks that an edit attaches, by the devices that the pod requests.

use serde_json::{Map, Value};

use fabric_policy::overlay::{REQUESTS, RESOURCES};

/// The networks to attach, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    /// Each network with the number of its attachments.
    pub(super) networks: Vec<(String, usize)>,
    /// The devices of the pod for which a list has no network.
    pub(super) missing: usize,
}

/// The networks that an edit attaches. A single network is attached once for each device. Of a list, the networks are
/// attached whose positions are those of resources that the pod requests; the n-th device of one resource has the n-th
/// network. If the entry has no resources, each network is attached once.
pub(super) fn attachments(edit: &Map<String, Value>) -> Attachments {
    let resources = edit.get(RESOURCES).and_then(Value::as_array).map(Vec::as_slice);
    let requests = edit.get(REQUESTS).unwrap_or(&Value::Null);
    let devices = resources.map(|resources| devices_of(resources, requests));
    let all = devices.iter().flatten().copied().fold(0, usize::saturating_add);
    let names = match &edit["$append"] {
        Value::String(name) => {
            let count = if devices.is_some() { all } else { 1 };
            return Attachments { networks: vec![(name.clone(), count)], missing: 0 };
        }
        names => names.as_array().map_or(&[][..], Vec::as_slice),
    };
    let is_one = matches!(resources, Some([one]) if !one.is_array());
    let is_wanted = |at: usize| match &devices {
        None => true,
        Some(_) if is_one => at < all,
        Some(devices) => devices.get(at).is_some_and(|count| *count > 0),
    };
    let attached = names.iter().enumerate().filter(|(at, _)| is_wanted(*at));
    let networks = attached.filter_map(|(_, name)| Some((name.as_str()?.to_owned(), 1))).collect();
    // An amount may be any number.
    let missing = match &devices {
        Some(_) if is_one => all.saturating_sub(names.len()),
        Some(devices) => devices.iter().skip(names.len()).filter(|count| **count > 0).count(),
        None => 0,
    };
    Attachments { networks, missing }
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
