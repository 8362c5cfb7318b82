//! Checks the fabric that a pod requests by hand, by trying what a policy would add: its settings, and its devices against
//! those of the machines that it selects.

use serde_json::Value;

use fabric_engine::CONTAINER_LISTS;
use fabric_engine::{Mutation, Outcome, Reason, WarningKind, is_device, requests};
use fabric_policy::nodes::Node;
use fabric_policy::{PodContext, Policy};
use fabric_yaml::json::items;

use super::by_hand::{has_fabric, is_adapter, requests_device};
use super::kinds;
use super::signs::containers;
use super::together::whole_node;
use super::{Finding, Findings, Pod, with_token};
use super::{amounts, claims, injected, keys};

pub(super) fn check(pod: &Pod<'_>, findings: &mut Findings) {
    // Each of these goes through the nodes or the policies, so that none begins beyond the limit.
    if !pod.has_gpus || !pod.goes_on(0) {
        return;
    }
    findings.near_misses.extend(claims::without_node(pod));
    if pod.goes_on(0) {
        findings.near_misses.extend(amounts::check(pod));
    }
    if !has_fabric(pod.gpus, pod.value) || !pod.goes_on(0) {
        return;
    }
    // What the nodes offer decides, and a pod with the annotation has these warnings already.
    let as_it_is = pod.is_unmatched().then(|| pod.policies.assumed(pod.value, pod.context));
    if let Some((resource, message)) = as_it_is.as_ref().and_then(unfit) {
        findings.near_misses.push(near_miss(pod, &resource, message));
        return;
    }
    if let Some(as_it_is) = as_it_is.as_ref().filter(|as_it_is| has_devices(pod, as_it_is)) {
        injected::check(pod, false, &mut findings.near_misses);
        findings.near_misses.extend(turned_off(pod, as_it_is));
        findings.near_misses.extend(unrefused(pod, as_it_is));
        without_locked_memory(pod, as_it_is, findings);
        if findings.lacks_note()
            && let Some(note) = without_network(pod, as_it_is)
        {
            findings.advice = Some(note);
        }
    }
    let is_compared = requests_device(pod.gpus, pod.value) || networks(pod.value).next().is_some();
    if unfit(pod.mutation).is_some() || !is_compared || !pod.goes_on(0) {
        return;
    }
    let given = pod.policies.assumed(&without_fabric(pod.gpus, pod.value, pod.context), pod.context);
    if given.warnings.iter().any(|warning| ASSUMED.contains(&warning.code())) {
        return;
    }
    let has_none = given.without_fabric() == Some(NO_FABRIC)
        || given.warnings.iter().any(|warning| warning.code() == NO_FABRIC);
    let given = match &given.outcome {
        Outcome::Mutated(mutated) => &mutated.pod,
        // A pod of the result, whose machines have no devices.
        Outcome::Unchanged { pod, reason: Reason::NothingToAdd } => pod,
        Outcome::Skipped { .. } if has_none => &Value::Null,
        _ => return,
    };
    let is_slot = unpaired(pod, given, findings);
    if !is_slot {
        compare(pod, &requests(given), has_none, findings);
    }
}

/// Returns whether the devices of a pod are those of a fabric for a policy.
fn has_devices(pod: &Pod<'_>, as_it_is: &Mutation) -> bool {
    let requested = requests(pod.value);
    let known = pod.context.objects.as_deref();
    let is_of_fabric =
        |name: &String| pod.policies.policies().iter().any(|policy| is_device(policy, name, known));
    networks(pod.value).next().is_some()
        || as_it_is.warnings.iter().any(|warning| matches!(warning.kind, WarningKind::KeptFabric { .. }))
        || requested.as_object().into_iter().flatten().any(|(name, count)| *count != 0 && is_of_fabric(name))
}

/// The settings of a pod that keep NCCL from using its devices, by the checks of the policy for these.
fn turned_off(pod: &Pod<'_>, as_it_is: &Mutation) -> impl Iterator<Item = Finding> {
    let settings = as_it_is.warnings.iter().filter(|warning| {
        matches!(warning.kind, WarningKind::Policy { .. }) && !warning.path.is_empty() && warning.leaves_tcp()
    });
    settings.map(|warning| {
        let message = format!("the pod has devices of a fabric, and {warning}");
        Finding::warning("turned_off_by_hand", pod.pointer_to(&["spec"]), message)
    })
}

/// Finds a container without the capability that a policy would add. Without a policy for its nodes, that is a note.
fn without_locked_memory(pod: &Pod<'_>, as_it_is: &Mutation, findings: &mut Findings) {
    // One with a prefix is a finding of its own.
    let is_lock = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(LOCK_MEMORY));
    let has_capability = |container: &Value| {
        let context = &container["securityContext"];
        context["privileged"] == true || items(&context["capabilities"], "add").iter().any(is_lock)
    };
    let given = match &as_it_is.outcome {
        Outcome::Mutated(mutated) => Some(&mutated.pod),
        Outcome::Refused { .. } => None,
        _ => return,
    };
    let is_given = |name: &Value| {
        given.is_none_or(|pod| {
            items(&pod["spec"], "containers").iter().any(|one| one["name"] == *name && has_capability(one))
        })
    };
    let self_contained = &kinds::table().by_hand.self_contained;
    let has_device = |container: &Value| {
        let mut limits = keys(&container["resources"]["limits"]).filter(|name| is_adapter(pod.gpus, name));
        limits.any(|name| !self_contained.contains(name))
    };
    let found = pod.containers(&["containers"]).find(|(_, container)| {
        has_device(container) && !has_capability(container) && is_given(&container["name"])
    });
    let Some((place, _)) = found else { return };
    let pointer = format!("{place}/securityContext");
    let message = format!(
        "add the capability `{LOCK_MEMORY}` in `{}`, unless the nodes set no limit on locked memory: without it, the \
         memory for RDMA cannot be registered",
        pod.path(&pointer)
    );
    if given.is_some() {
        findings.near_misses.push(Finding::warning("no_locked_memory", pointer, message));
    } else if findings.lacks_note() {
        findings.advice = Some(Finding::note("no_locked_memory", &pointer, message));
    }
}

/// Finds devices on nodes of an unknown fabric, which need networks if it is RoCE.
fn without_network(pod: &Pod<'_>, as_it_is: &Mutation) -> Option<Finding> {
    let of_any_nodes = |policy: &Policy| {
        as_it_is.policy.as_deref() == Some(policy.name()) && policy.definition().provider_nodes.is_none()
    };
    let is_unknown = matches!(as_it_is.outcome, Outcome::Refused { .. })
        || pod.policies.policies().iter().any(of_any_nodes);
    let spec = &pod.value["spec"];
    let has_network = networks(pod.value).next().is_some()
        || spec["hostNetwork"] == true
        || spec["resourceClaims"].is_array();
    if !is_unknown || has_network {
        return None;
    }
    let by_hand = &kinds::table().by_hand;
    let says_infiniband = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| ["ib", "infiniband"].contains(&word))
    };
    let has_topology = |variable: &Value| {
        variable["name"] == by_hand.topology.as_str()
            && variable["value"].as_str().is_some_and(says_infiniband)
    };
    if containers(spec).any(|container| items(container, "env").iter().any(has_topology)) {
        return None;
    }
    let is_roce = |name: &str| {
        is_adapter(pod.gpus, name)
            && !by_hand.self_contained.iter().any(|known| known == name)
            && !says_infiniband(name)
    };
    let requested = requests(pod.value);
    let (device, _) = requested.as_object()?.iter().find(|(name, _)| is_roce(name))?;
    let message = format!(
        "with RoCE, attach a network for each adapter by an annotation such as `{}`, or use the network of the host: the pod \
         requests `{device}` and has only its own interface, whose address is none of an adapter, so that NCCL does not connect by \
         it; with InfiniBand, it needs no network",
        by_hand.annotations.first()?
    );
    Some(Finding::note("device_without_network", pod.pointer, message))
}

/// Finds networks that a pod attaches, of whose resources a policy refuses one, since no node offers it.
fn unrefused(pod: &Pod<'_>, as_it_is: &Mutation) -> Option<Finding> {
    let Outcome::Mutated(mutated) = &as_it_is.outcome else { return None };
    let (own, given) = (requests(pod.value), requests(&mutated.pod));
    let is_attached = |device: &str| networks(pod.value).any(|(_, network)| has_device(network, device));
    let refused = given.as_object()?.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str());
    let missing: Vec<&str> = refused.filter(|name| own[*name] != 0 && is_attached(name)).collect();
    let first = *missing.first()?;
    let is_related = |name: &&str| name.strip_prefix(first).is_some_and(|rest| rest.starts_with('.'));
    let mut offered = pod.context.nodes.iter().flat_map(|nodes| nodes.iter()).flat_map(Node::resources);
    let instead = offered.find_map(|(name, _)| Some(name).filter(is_related));
    let instead = instead.map(|name| format!("`{name}` and ")).unwrap_or_default();
    let message = format!(
        "set limits of `\"0\"` for `{}`: the nodes that the pod fits offer {instead}no `{first}`, which is requested for \
         the network that the pod attaches, so that it stays pending",
        missing.join("`, `")
    );
    Some(Finding::warning("requested_by_hand", pod.pointer_to(&["metadata", "annotations"]), message))
}

/// Compares the devices that a pod requests with those that it would be `given`.
fn compare(pod: &Pod<'_>, given: &Value, has_none: bool, findings: &mut Findings) {
    let requested = requests(pod.value);
    let adapters = requested.as_object().into_iter().flatten();
    for (resource, count) in adapters.filter(|(resource, _)| is_adapter(pod.gpus, resource)) {
        let Some(count) = count.as_i64() else { continue };
        let of_machine = given[resource.as_str()].as_i64().unwrap_or(0);
        if of_machine == 0 && has_none {
            let message = format!(
                "remove `{resource}`, or select other nodes: the machines that the pod selects have none, so that it stays pending"
            );
            findings.near_misses.push(near_miss(pod, resource, message));
        } else if of_machine > 0
            && count > of_machine
            && pod.context.nodes.is_none()
            && whole_node(pod).is_some()
        {
            let message = format!(
                "request at most {of_machine} of `{resource}`, which is what the machines that the pod selects have: with \
                 {count}, it stays pending"
            );
            findings.near_misses.push(near_miss(pod, resource, message));
        } else if of_machine > count && !is_shared(resource) {
            let share = 100 * count / of_machine;
            let message = format!(
                "the pod requests {count} of `{resource}`, and the machines that it selects have {of_machine} for its \
                 GPUs: it has {share} % of their bandwidth; request {of_machine}, which a policy leaves as it is"
            );
            // A policy would keep the number of the pod, so that its annotation alone is no remedy.
            if whole_node(pod).is_some() && 2 * count <= of_machine {
                let pointer = place_of_request(pod, resource);
                findings.near_misses.push(Finding::warning("fewer_devices", pointer, message));
            } else if findings.lacks_note() {
                findings.advice = Some(Finding::note("fewer_devices", pod.pointer, message));
            }
        }
    }
}

/// Finds a device without the network that a policy attaches with it, and such a network without its device. Returns
/// true if the device can be a slot of an adapter that pods share, which has no network and says nothing by its number.
fn unpaired(pod: &Pod<'_>, given: &Value, findings: &mut Findings) -> bool {
    let (requested, of_given) = (requests(pod.value), requests(given));
    let Some((annotation, network)) = networks(given).next() else { return false };
    let mut adapters = of_given.as_object().into_iter().flatten();
    // Where a network brings its device, the device has its name, and no policy adds it.
    let mut named = requested.as_object().into_iter().flatten().filter(|(name, _)| has_device(network, name));
    let is_requested = |(name, count): &(&String, &Value)| is_adapter(pod.gpus, name) && **count != 0;
    let Some((device, wanted)) = adapters.find(is_requested).or_else(|| named.find(is_requested)) else {
        return false;
    };
    let place = pod.path(&pod.pointer_to(&["metadata", "annotations", annotation]));
    let attached = networks(pod.value).map(|(_, value)| value).collect::<Vec<_>>();
    let count = &requested[device.as_str()];
    if !count.is_null() && attached.is_empty() {
        if *count == 1 && wanted != 1 {
            return true;
        }
        let message = format!(
            "attach the network of `{device}` in `{place}` (a policy would attach `{network}`): without it, NCCL does not \
             reach the other pods with this device"
        );
        let pointer = place_of_request(pod, device);
        findings.near_misses.push(Finding::warning("device_without_network", pointer, message));
    } else if !requests_device(pod.gpus, pod.value) && findings.lacks_note() {
        let name = network.rsplit('/').next().unwrap_or(network);
        if attached.iter().any(|attached| attached.rsplit('/').next() == Some(name)) {
            let message = format!(
                "the pod attaches `{network}` and requests no `{device}`, the device of that network: request {wanted}, \
                 unless the cluster has a webhook that adds it"
            );
            findings.advice = Some(Finding::note("network_without_device", pod.pointer, message));
        }
    }
    false
}

/// The annotations with which a pod attaches networks, each with the first network of a text, or all of JSON.
fn networks(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let annotations = &pod["metadata"]["annotations"];
    kinds::table().by_hand.annotations.iter().filter_map(|name| {
        let value = annotations[name.as_str()].as_str()?;
        let first = value.split(',').next().filter(|_| !value.starts_with('['));
        Some((name.as_str(), first.unwrap_or(value).trim()))
    })
}

/// Returns whether a device is that of a network in JSON, by its name.
fn has_device(networks: &str, device: &str) -> bool {
    device.rsplit_once('/').is_some_and(|(_, name)| networks.contains(&format!("\"{name}\"")))
}

/// Warnings about values that no table and no nodes gave.
const ASSUMED: &[&str] =
    &["parameter_assumed", "provider_assumed", "parameter_contradicts", "nodes_disagree"];
const NO_FABRIC: &str = "instance_type_without_fabric";
const LOCK_MEMORY: &str = "IPC_LOCK";

/// Returns whether a device is a slot of adapters that pods share: one gives all of them.
fn is_shared(device: &str) -> bool {
    kinds::table().by_hand.shared_devices.iter().any(|part| device.contains(part.as_str()))
}

/// The resource of which no node that the pod fits has as many, and the message about it.
fn unfit(mutation: &Mutation) -> Option<(String, String)> {
    mutation.warnings.iter().find_map(|warning| match &warning.kind {
        WarningKind::NoNodeFits { resource, .. } => Some((resource.clone(), warning.to_string())),
        _ => None,
    })
}

/// A pod that requests no devices but GPUs, and attaches no networks.
fn without_fabric(resources: &[&str], pod: &Value, context: &PodContext) -> Value {
    // If the work ends, so does the check.
    let mut pod = if context.may_copy(pod) { pod.clone() } else { Value::Null };
    // A workload may have anything there, on which an assignment by `[…]` panics.
    if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !kinds::table().by_hand.annotations.contains(name));
    }
    for list in CONTAINER_LISTS {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for amounts in ["limits", "requests"] {
                let amounts = container.pointer_mut(&format!("/resources/{amounts}"));
                if let Some(amounts) = amounts.and_then(Value::as_object_mut) {
                    amounts.retain(|name, _| !is_adapter(resources, name));
                }
            }
        }
    }
    pod
}

fn near_miss(pod: &Pod<'_>, resource: &str, message: String) -> Finding {
    Finding::warning("requested_by_hand", place_of_request(pod, resource), message)
}

/// JSON Pointer to the first limit of a resource; to the pod, if it has none.
fn place_of_request(pod: &Pod<'_>, resource: &str) -> String {
    let place =
        pod.containers(&CONTAINER_LISTS).find(|(_, one)| !one["resources"]["limits"][resource].is_null());
    place.map_or_else(
        || pod.pointer.to_owned(),
        |(place, _)| with_token(format!("{place}/resources/limits"), resource),
    )
}
