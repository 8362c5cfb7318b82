//! The objects that a pod names and that the cluster does not have.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::matcher::namespace_of;
use fabric_policy::objects::{KnownObjects, NetworkKind, ObjectKind, ObjectName};
use fabric_policy::{Devices, PodContext};
use fabric_yaml::json::items;

use super::CONTAINER_LISTS;
use super::multus::networks_of;
use super::pod_claims::claims_of_pod;
use crate::record::{Warning, WarningKind};

/// The objects that a pod names and that are known not to exist. Nothing is said about those of a kind that is not
/// watched.
pub fn absent_objects(pod: &Value, context: &PodContext) -> Vec<ObjectName> {
    let Some(known) = context.objects.as_deref().filter(|known| !known.whole.is_empty()) else {
        return Vec::new();
    };
    named_objects(pod, known, context).into_iter().filter(|object| known.lacks(object)).collect()
}

/// The warnings about objects that an injected pod names and that are known not to exist.
pub(crate) fn warnings_of_absent(pod: &Value, devices: &Devices, context: &PodContext) -> Vec<Warning> {
    let Some(known) = context.objects.as_deref() else { return Vec::new() };
    let warning = |object: ObjectName| {
        let mut targets = devices.added.claim_entries.iter().filter_map(|(_, target)| target.as_ref());
        let is_added = object.kind == ObjectKind::Template && targets.any(|target| *target == object.name);
        let class = if is_added { class_of_devices(known, devices) } else { None };
        Warning::of_pod(WarningKind::NotThereYet { object, class })
    };
    absent_objects(pod, context).into_iter().map(warning).collect()
}

/// The steps to look at a named object.
const STEPS_OF_OBJECT: usize = 20;

/// The objects that a pod names.
fn named_objects(pod: &Value, known: &KnownObjects, context: &PodContext) -> BTreeSet<ObjectName> {
    let namespace = namespace_of(&pod["metadata"], context);
    let mut named = BTreeSet::new();
    for claim in claims_of_pod(pod, context) {
        let object = ObjectName::new(claim.kind, namespace, claim.target);
        // A claim that exists has the classes that are needed.
        if let Some(requests) = known.requests_of(&object).filter(|_| claim.kind == ObjectKind::Template) {
            let needed = requests.iter().filter(|request| !request.has_alternatives);
            let classes = needed.filter_map(|request| request.classes.first());
            named.extend(classes.map(|class| ObjectName::new(ObjectKind::Class, "", class)));
        }
        named.insert(object);
    }
    let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list));
    let limits = containers.filter_map(|container| container["resources"]["limits"].as_object());
    let classes = limits.flat_map(|limits| limits.keys().filter_map(|name| name.strip_prefix(DEVICE_CLASS)));
    named.extend(classes.map(|class| ObjectName::new(ObjectKind::Class, "", class)));
    if pod["spec"]["hostNetwork"] != true {
        for (kind, network) in ObjectKind::networks() {
            let attached = names_of_networks(pod, network, namespace, context);
            let objects = attached.iter().map(|(namespace, name)| ObjectName::new(kind, namespace, name));
            named.extend(objects.take_while(|_| context.goes_on(STEPS_OF_OBJECT)));
        }
    }
    named
}

/// The networks of an annotation, each with its namespace.
fn names_of_networks(
    pod: &Value,
    kind: &NetworkKind,
    namespace: &str,
    context: &PodContext,
) -> Vec<(String, String)> {
    let Some(text) = pod["metadata"]["annotations"][&kind.annotation].as_str() else { return Vec::new() };
    if !context.goes_on(text.len()) {
        return Vec::new();
    }
    let read = |text: &str| context.read(text).ok();
    match &kind.item {
        None => networks_of(text, namespace, read),
        Some(item) => {
            let entries = read(text).unwrap_or_default();
            let names = entries.as_array().into_iter().flatten().filter_map(|entry| entry[item].as_str());
            names.map(|name| (namespace.to_owned(), name.to_owned())).collect()
        }
    }
}

/// The first class of the cluster that the policy lists for its devices.
fn class_of_devices(known: &KnownObjects, devices: &Devices) -> Option<String> {
    let listed = known.classes().filter(|class| devices.own.claims.have_class(class));
    listed.map(|class| &class.name).min().cloned()
}
