//! Which devices belong to a class or a request, by CEL selectors, and what nodes offer of classes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::claims::{ClaimRequest, DeviceClass};
use crate::expression::{Bindings, Expression, Path, Step};
use crate::nodes::{Devices, Node, Nodes};

/// The nodes with the resources by which containers request devices of these classes without a claim. Where it is not
/// known whether a node's devices belong to a class, the node offers none of it.
pub fn with_classes<'c>(nodes: Nodes, classes: impl IntoIterator<Item = &'c DeviceClass>) -> Nodes {
    let read = |class: &DeviceClass| {
        let resources: Vec<Arc<str>> = class.resources().map(Arc::from).collect();
        (resources, Selectors::new(class, &ClaimRequest::default()))
    };
    let classes: Vec<_> = classes.into_iter().map(read).collect();
    // Thousands of nodes are alike.
    let mut results: HashMap<Devices, Vec<Option<bool>>> = HashMap::new();
    nodes.with_resources(|node: &Node| {
        for devices in node.devices() {
            let meet = |(_, selectors): &(_, Selectors)| selectors.meet(devices);
            if !results.contains_key(devices) {
                results.insert(devices.clone(), classes.iter().map(meet).collect());
            }
        }
        let mut offered: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for (at, (resources, _)) in classes.iter().enumerate() {
            let count = |of: &Devices| results[of][at].map(|is_met| i64::from(is_met) * of.count);
            let count = node.devices().iter().map(count).sum::<Option<i64>>().filter(|count| *count > 0);
            offered.extend(resources.iter().filter_map(|name| Some((Arc::clone(name), count?))));
        }
        offered
    })
}

/// The CEL selectors of a request and of its class. One that does not compile here is `None`.
pub struct Selectors(Vec<Option<Expression>>);

impl Selectors {
    /// Those of a class, or of a request for its devices.
    pub fn new(class: &DeviceClass, request: &ClaimRequest) -> Self {
        let texts = class.selectors.iter().chain(&request.selectors);
        Self(texts.map(|text| Expression::compile(text).ok()).collect())
    }

    /// Returns whether devices meet all of them; `None` if that is not known: a function or an attribute is not.
    pub fn meet(&self, devices: &Devices) -> Option<bool> {
        let results = self.results(&devices.value());
        // The scheduler takes no device for which one fails, either.
        if results.contains(&Some(false)) {
            Some(false)
        } else {
            results.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
        }
    }

    /// The first selector that devices do not meet, and the attributes that it reads of them.
    pub fn unmet(&self, devices: &Devices) -> Option<(&str, Vec<Value>)> {
        let device = devices.value();
        let at = self.results(&device).iter().position(|met| *met == Some(false))?;
        let selector = self.0[at].as_ref()?;
        let attributes = selector.reads_of("device").into_iter().filter(|path| path.len() > 1);
        let read = attributes.filter_map(|path| at_path(&device, path));
        Some((selector.source(), read.filter(|value| !value.is_object()).cloned().collect()))
    }

    fn results(&self, device: &Value) -> Vec<Option<bool>> {
        let mut bindings = Bindings::default();
        bindings.set("device", device);
        let met = |selector: &Option<Expression>| {
            let selector = selector.as_ref()?;
            let mut paths = selector.reads_of("device").into_iter();
            // What a driver does not say is absent for the scheduler, too.
            let is_known = paths.all(|path| at_path(device, path).is_none_or(|value| !has_null(value)));
            is_known.then(|| selector.evaluate(&bindings).ok()?.as_bool()).flatten()
        };
        self.0.iter().map(met).collect()
    }
}

/// The value at a path, or the `null` on the way there. A computed key can be any.
fn at_path<'v>(mut value: &'v Value, path: &Path) -> Option<&'v Value> {
    for step in path {
        match step {
            Step::Field(name) if !value.is_null() => value = value.get(name)?,
            _ => break,
        }
    }
    Some(value)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_null),
        other => other.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nodes::Texts;

    /// Adapters, half of them without RDMA, each with an address of its own.
    fn adapters(count: usize) -> Vec<Devices> {
        let adapter = |at: usize| {
            json!({"name": at.to_string(), "attributes": {"a.example/rdma": {"bool": at.is_multiple_of(2)},
                "type": {"string": "nic"}, "address": {"string": at.to_string()}, "firmware": {"version": "1.2.3"}}})
        };
        let items: Vec<Value> = (0..count).map(adapter).collect();
        Devices::read_all(&items, "a.example", &mut Texts::default())
    }

    fn met(selector: &str) -> Vec<Option<bool>> {
        let class = DeviceClass { selectors: vec![selector.to_owned()], ..DeviceClass::default() };
        let selectors = Selectors::new(&class, &ClaimRequest::default());
        adapters(8).iter().map(|devices| selectors.meet(devices)).collect()
    }

    #[test]
    fn devices_that_are_alike_are_one_entry() {
        let counts = |devices: Vec<Devices>| devices.iter().map(|one| one.count).collect::<Vec<_>>();
        assert_eq!(counts(adapters(8)), [4, 4]);
        // Each of a few has its address.
        assert_eq!(counts(adapters(3)), [1, 1, 1]);
    }

    #[test]
    fn what_is_not_known_decides_nothing() {
        let known = [Some(false), Some(true)];
        for (selector, wanted) in [
            ("device.driver == 'a.example'", [Some(true); 2]),
            ("device.driver == 'b.example'", [Some(false); 2]),
            ("device.attributes['a.example'].rdma", known),
            (
                "has(device.attributes['a.example'].rdma) && device.attributes['a.example'].rdma == true",
                known,
            ),
            ("has(device.attributes['a.example'].other)", [Some(false); 2]),
            ("device.driver == 'a.example' && device.attributes['a.example'].type == 'nic'", [Some(true); 2]),
            // An error, as for the scheduler.
            ("device.attributes['a.example'].other == true", [None; 2]),
            ("device.attributes['b.example'].rdma", [None; 2]),
            // Not kept, or not compared here.
            ("device.attributes['a.example'].address == '1'", [None; 2]),
            ("has(device.attributes['a.example'].address)", [None; 2]),
            ("device.attributes['a.example'].firmware.isGreaterThan(semver('1.0.0'))", [None; 2]),
            ("device.attributes['a.example'].exists(name, name == 'rdma')", [None; 2]),
            ("device.capacity['a.example'].memory.compareTo(quantity('1Gi')) >= 0", [None; 2]),
            ("device.attributes[", [None; 2]),
            ("1", [None; 2]),
        ] {
            assert_eq!(met(selector), wanted, "{selector}");
        }
    }

    #[test]
    fn one_selector_that_is_not_met_decides() {
        let class = DeviceClass { selectors: vec!["nothing(device)".to_owned()], ..DeviceClass::default() };
        let request = ClaimRequest {
            selectors: vec!["device.attributes['a.example'].rdma == true".to_owned()],
            ..ClaimRequest::default()
        };
        let selectors = Selectors::new(&class, &request);
        let adapters = adapters(8);
        assert_eq!(adapters.iter().map(|one| selectors.meet(one)).collect::<Vec<_>>(), [Some(false), None]);
        let (unmet, values) = selectors.unmet(&adapters[0]).unwrap();
        assert_eq!((unmet, values), (request.selectors[0].as_str(), vec![Value::Bool(false)]));
    }
}
