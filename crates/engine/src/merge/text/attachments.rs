//! The networks that an edit attaches, by the devices that the pod requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use fabric_policy::overlay::{REQUESTS, RESOURCES};

/// The devices that a pod requests of an entry's resources.
#[derive(Default)]
struct Requested {
    all: usize,
    /// The positions of the resources whose amount is not zero. Those of a list are counted individually.
    positions: BTreeSet<usize>,
    /// True if there is one resource, whose n-th device has the n-th network of a list.
    is_one: bool,
}

/// The networks to attach, each with the number of its attachments: one network once for each device, or of a list
/// those at the positions of the resources that the pod requests. Without resources, each is attached once.
pub(super) fn attachments(edit: &Map<String, Value>) -> Vec<(String, usize)> {
    let resources = edit.get(RESOURCES).and_then(Value::as_array);
    let requests = edit.get(REQUESTS).unwrap_or(&Value::Null);
    let requested = resources.map(|resources| Requested::count(resources, requests));
    match &edit["$append"] {
        Value::String(name) => vec![(name.clone(), requested.map_or(1, |requested| requested.all))],
        names => {
            let is_wanted = |at: usize| requested.as_ref().is_none_or(|requested| requested.has(at));
            let names = names.as_array().into_iter().flatten().enumerate();
            let names = names.filter(|(at, _)| is_wanted(*at)).filter_map(|(_, name)| name.as_str());
            names.map(|name| (name.to_owned(), 1)).collect()
        }
    }
}

impl Requested {
    fn count(resources: &[Value], requests: &Value) -> Self {
        let mut requested = Self { is_one: resources.len() == 1, ..Self::default() };
        let mut next = 0;
        for resource in resources {
            let names = match resource {
                Value::Array(names) => {
                    requested.is_one = false;
                    names
                }
                one => std::slice::from_ref(one),
            };
            for (at, name) in names.iter().enumerate() {
                let count = name.as_str().and_then(|name| requests[name].as_u64());
                let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
                requested.all = requested.all.saturating_add(count);
                if count > 0 {
                    requested.positions.insert(next + at);
                }
            }
            next += names.len();
        }
        requested
    }

    /// Returns whether the network at a position of a list has a device.
    fn has(&self, at: usize) -> bool {
        if self.is_one { at < self.all } else { self.positions.contains(&at) }
    }
}
