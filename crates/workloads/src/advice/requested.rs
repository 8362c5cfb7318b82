//! Compares the devices that a pod requests by hand with those of the machines that it selects, by trying it without them.

use std::collections::HashMap;

use serde_json::Value;

use fabric_engine::{CONTAINER_LISTS, claims_of_pod};
use fabric_engine::{Mutation, Outcome, Reason, WarningKind, requests};
use fabric_policy::PodContext;
use fabric_policy::nodes::Node;

use super::by_hand::{has_fabric, is_adapter, requests_device};
use super::kinds;
use super::together::whole_node;
use super::{Finding, Findings, Pod, with_token};

pub(super) fn check(pod: &Pod<'_>, findings: &mut Findings) {
    if !pod.has_gpus {
        return;
    }
    findings.near_misses.extend(claim_without_node(pod));
    if !has_fabric(pod.gpus, pod.value) {
        return;
    }
    // What the nodes offer decides, and a pod with the annotation has these warnings already.
    let as_it_is = pod.is_unmatched().then(|| pod.policies.assumed(pod.value, pod.context));
    if let Some((resource, message)) = as_it_is.as_ref().and_then(unfit) {
        findings.near_misses.push(near_miss(pod, &resource, message));
        return;
    }
    if let Some(as_it_is) = &as_it_is {
        findings.near_misses.extend(turned_off(pod, as_it_is));
        findings.near_misses.extend(unrefused(pod, as_it_is));
    }
    let is_compared = requests_device(pod.gpus, pod.value) || networks(pod.value).next().is_some();
    if unfit(pod.mutation).is_some() || !is_compared {
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
        } else if of_machine > count && findings.lacks_note() {
            let share = 100 * count / of_machine;
            let message = format!(
                "the pod requests {count} of `{resource}`, and the machines that it selects have {of_machine} for its \
                 GPUs: it has {share} % of their bandwidth; request {of_machine}, which a policy leaves as it is"
            );
            // A policy would keep the number of the pod, so that its annotation alone is no remedy.
            findings.advice = Some(Finding::note("fewer_devices", pod.pointer, message));
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

/// Finds a claim for more devices of a driver than any node has that the pod fits. Other nodes have some, so that their
/// `ResourceSlices` are known.
fn claim_without_node(pod: &Pod<'_>) -> Option<Finding> {
    let nodes = pod.context.nodes.as_ref()?;
    let claims = claims_of_pod(pod.value, pod.context);
    let fit = nodes.candidates(pod.value, &|_| false, pod.context.work.as_ref());
    let most_of = |driver: &str| {
        let is_offered = nodes.iter().any(|node| node.devices_of(driver) > 0);
        fit.iter().map(|node| node.devices_of(driver)).max().filter(|_| is_offered)
    };
    let mut known: HashMap<&str, Option<i64>> = HashMap::new();
    for (claim, request) in claims.iter().flat_map(|claim| claim.requests.iter().map(move |one| (claim, one)))
    {
        for driver in &request.classes {
            if !known.contains_key(driver.as_str()) && !pod.goes_on(STEPS_OF_NODE * nodes.len()) {
                return None;
            }
            let most = *known.entry(driver).or_insert_with(|| most_of(driver));
            if let (Some(count), Some(most)) = (request.count, most)
                && count > most
            {
                let place = pod.pointer_to(&["spec", "resourceClaims"]);
                let message = format!(
                    "select other nodes, or change the claim `{}` in `{}`: it requests {count} devices of the driver \
                     `{driver}`, and the nodes that the pod fits have at most {most}, so that it stays pending",
                    claim.name,
                    pod.path(&place)
                );
                return Some(Finding::warning("requested_by_hand", place, message));
            }
        }
    }
    None
}

/// The steps to look for the devices of a driver on a node.
const STEPS_OF_NODE: usize = 4;

/// Warnings about values that no table and no nodes gave.
const ASSUMED: &[&str] =
    &["parameter_assumed", "provider_assumed", "parameter_contradicts", "nodes_disagree"];
const NO_FABRIC: &str = "instance_type_without_fabric";

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
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| !kinds::table().by_hand.annotations.contains(name));
    }
    for list in CONTAINER_LISTS {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            for amounts in ["limits", "requests"] {
                if let Some(amounts) = container["resources"][amounts].as_object_mut() {
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
