//! Compares the devices that a pod requests by hand with those of the machines that it selects, by trying it without them.

use serde_json::Value;

use crate::analysis::LISTS;
use crate::policy_set::PolicySet;
use crate::{Mutation, Outcome, WarningKind, requests};

use super::by_hand::{is_adapter, requests_device};
use super::together::whole_node;
use super::{Advice, Findings, NearMiss, Pod};

pub(super) fn check(policies: &PolicySet, resources: &[&str], pod: &Pod<'_>, findings: &mut Findings) {
    if !pod.has_gpus || !requests_device(resources, pod.value) {
        return;
    }
    // What the nodes offer decides, and a pod with the annotation has these warnings already.
    let as_it_is = pod.is_unmatched().then(|| policies.assumed(pod.value.clone(), pod.context));
    if let Some((resource, message)) = as_it_is.as_ref().and_then(unfit) {
        findings.near_misses.push(near_miss(pod, &resource, message));
        return;
    }
    if unfit(pod.mutation).is_some() {
        return;
    }
    let given = policies.assumed(without_devices(resources, pod.value), pod.context);
    let is_known = !given.warnings.iter().any(|warning| ASSUMED.contains(&warning.code()));
    let has_none = given.without_fabric() == Some(NO_FABRIC);
    let given = match &given.outcome {
        Outcome::Mutated(mutated) => requests(&mutated.pod),
        Outcome::Skipped { .. } if has_none => Value::Null,
        _ => return,
    };
    let requested = requests(pod.value);
    for (resource, count) in requested.as_object().into_iter().flatten() {
        let (Some(count), of_machine) = (count.as_i64(), given[resource.as_str()].as_i64().unwrap_or(0))
        else {
            continue;
        };
        if !is_known || !is_adapter(resources, resource) {
            continue;
        }
        if of_machine == 0 && has_none {
            let message = format!(
                "remove `{resource}`, or select other nodes: the machines that the pod selects have none, so that it stays pending"
            );
            findings.near_misses.push(near_miss(pod, resource, message));
        } else if of_machine > 0 && count > of_machine && whole_node(resources, pod).is_some() {
            let message = format!(
                "request at most {of_machine} of `{resource}`, which is what the machines that the pod selects have: with \
                 {count}, it stays pending"
            );
            findings.near_misses.push(near_miss(pod, resource, message));
        } else if of_machine > count && findings.advice.as_ref().is_none_or(|advice| advice.code.is_none()) {
            let share = 100 * count / of_machine;
            let message = format!(
                "the pod requests {count} of `{resource}`, and the machines that it selects have {of_machine} for its \
                 GPUs: it has {share} % of their bandwidth; request {of_machine}, which a policy leaves as it is"
            );
            // A policy would keep the number of the pod, so that its annotation alone is no remedy.
            findings.advice = Some(Advice { code: Some("fewer_devices"), message });
        }
    }
}

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

/// A pod that requests no devices but GPUs.
fn without_devices(resources: &[&str], pod: &Value) -> Value {
    let mut pod = pod.clone();
    for list in LISTS {
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

fn near_miss(pod: &Pod<'_>, resource: &str, message: String) -> NearMiss {
    let has = |list: &&str| {
        let containers = pod.value["spec"][list].as_array().into_iter().flatten();
        containers.into_iter().position(|one| !one["resources"]["limits"][resource].is_null())
    };
    let place = LISTS.iter().find_map(|list| Some((*list, has(list)?)));
    let pointer = place.map_or_else(
        || pod.pointer.to_owned(),
        |(list, at)| pod.pointer_to(&["spec", list, &at.to_string(), "resources", "limits", resource]),
    );
    NearMiss { code: "requested_by_hand", pointer, message }
}
