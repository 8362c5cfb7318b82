//! Compares the claims of a pod with the devices of the nodes that it fits.

use std::collections::{BTreeMap, HashMap};

use fabric_engine::claims_of_pod;
use fabric_policy::claims::{ClaimRequest, DeviceClass, Requests};
use fabric_policy::device_classes::Selectors;
use fabric_policy::nodes::{Devices, Node, Nodes};
use fabric_policy::objects::{KnownObjects, ObjectName};
use fabric_yaml::each_once;
use serde_json::Value;

use super::{Finding, Pod};

/// The steps to look at the devices of a node for one request.
const STEPS_OF_NODE: usize = 200;

/// Finds a claim for devices that no node offers which the pod fits, or for more of them.
pub(super) fn without_node(pod: &Pod<'_>) -> Option<Finding> {
    let (nodes, known) = (pod.context.nodes.as_ref()?, pod.context.objects.as_ref()?);
    let claims = claims_of_pod(pod.value, pod.context);
    if claims.is_empty() {
        return None;
    }
    let fit = nodes.candidates(pod.value, &|_| false, pod.context.work.as_ref());
    let of_request = |request| {
        // Beyond the limit, the requests that are left count nothing.
        let goes_on = pod.goes_on(0) && pod.goes_on(STEPS_OF_NODE * nodes.len());
        goes_on.then(|| problem(request, &class_of(request, nodes, known)?, &fit)).flatten()
    };
    claims.iter().find_map(|claim| {
        let problem = claim.requests.iter().find_map(of_request)?;
        let place = pod.pointer_to(&["spec", "resourceClaims"]);
        let message = format!(
            "select other nodes, or change the claim `{}` in `{}`: the pod stays pending, because {problem}",
            claim.name,
            pod.path(&place)
        );
        Some(Finding::warning("requested_by_hand", place, message))
    })
}

/// The claims and templates that no nodes can satisfy, each with the reason, in the order of their names.
pub fn claims_without_devices(nodes: &Nodes, known: &KnownObjects) -> BTreeMap<ObjectName, String> {
    let all: Vec<&Node> = nodes.iter().collect();
    let of_request = |request: &ClaimRequest| problem(request, &class_of(request, nodes, known)?, &all);
    let of_claim = |(name, requests): (&ObjectName, &Requests)| {
        Some((name.clone(), requests.iter().find_map(of_request)?))
    };
    known.claims().filter_map(of_claim).collect()
}

/// The class of a request. One that is not known has the name of its driver, as far as nodes have devices of it.
fn class_of(request: &ClaimRequest, nodes: &Nodes, known: &KnownObjects) -> Option<DeviceClass> {
    // Alternatives have other devices, and so may have a driver without nodes. Without any device, the slices are unknown.
    let is_certain = |class: &DeviceClass| {
        nodes.iter().any(|node| !node.devices().is_empty())
            && !class.drivers.iter().any(|driver| nodes.has_shared(driver))
    };
    let name = request.classes.first()?;
    let of_driver = || {
        let is_driver = nodes.iter().any(|node| node.devices_of(name) > 0);
        is_driver.then(|| DeviceClass {
            name: name.clone(),
            drivers: vec![name.clone()],
            ..DeviceClass::default()
        })
    };
    let class = known.class(name).cloned().or_else(of_driver);
    class.filter(|class| !request.has_alternatives && is_certain(class))
}

/// Why nodes cannot give a request its devices, as a part of a sentence.
fn problem(request: &ClaimRequest, class: &DeviceClass, fit: &[&Node]) -> Option<String> {
    let is_of_class = |devices: &&Devices| class.drivers.iter().any(|driver| driver == devices.driver());
    let drivers = class.drivers.iter().map(|driver| format!("`{driver}`")).collect::<Vec<_>>().join(" or ");
    if fit.is_empty() || drivers.is_empty() {
        return None;
    }
    let selectors = Selectors::new(class, request);
    let all: Vec<&Devices> = fit.iter().flat_map(|node| node.devices()).filter(is_of_class).collect();
    let Some(first) = all.first() else {
        return Some(format!(
            "it requests a device of the class `{}`, and no node that the pod fits has one of the driver {drivers}",
            class.name
        ));
    };
    // Thousands of nodes are alike.
    let mut met: HashMap<&Devices, bool> = HashMap::new();
    for devices in &all {
        met.entry(devices).or_insert_with(|| selectors.meet(devices) != Some(false));
    }
    let of_node = |node: &&Node| {
        let of_class = node.devices().iter().filter(is_of_class);
        of_class.filter(|devices| met[devices]).map(|devices| devices.count).sum::<i64>()
    };
    let most = fit.iter().map(of_node).max()?;
    if most == 0 {
        let (selector, values) = selectors.unmet(first)?;
        let values = each_once(values.iter().map(Value::to_string)).join(", ");
        return Some(format!(
            "no device of the driver {drivers} on the nodes that the pod fits meets `{selector}`, and the first has \
             `{values}`; a driver that starts before those of the adapters sees less of them, until it is restarted"
        ));
    }
    let count = request.count.filter(|count| *count > most)?;
    Some(format!(
        "it requests {count} devices of the driver {drivers}, and the nodes that the pod fits have at most {most}"
    ))
}
