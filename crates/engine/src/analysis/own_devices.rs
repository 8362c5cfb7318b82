//! The devices of a policy's fabric that a pod requests itself, under other names than those that the policy adds.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_policy::Devices;
use fabric_policy::objects::PodClaim;
use fabric_policy::schema::AMOUNT_LISTS;
use fabric_yaml::each_once;
use fabric_yaml::json::items;
use fabric_yaml::quantity::Quantity;

use super::CONTAINER_LISTS;
use super::pod_claims::used_requests;

/// The names of the devices; each once.
pub(super) fn found(pod: &Value, claims: &[PodClaim<'_>], devices: &Devices) -> Vec<String> {
    let mut names = Vec::new();
    if !devices.own.resources.is_empty() {
        let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list));
        let all = containers.flat_map(|container| requested(container, devices));
        names.extend(all.filter(|name| !devices.added.resources.contains(*name)).cloned());
    }
    let foreign = claims.iter().filter(|claim| devices.own.claims.has(claim) && !is_added(claim, devices));
    names.extend(foreign.map(|claim| claim.target.to_owned()));
    each_once(names)
}

/// The claims about which names decide, by their names in the pod, without those that the policy adds.
pub(super) fn claims_by_name(claims: &[PodClaim<'_>], devices: &Devices) -> Vec<String> {
    let lists = [&devices.gpu_claims, &devices.own.claims];
    let decided = |claim: &&PodClaim<'_>| {
        lists.iter().any(|list| list.deciding_name(claim).is_some()) && !is_added(claim, devices)
    };
    claims.iter().filter(decided).map(|claim| claim.name.to_owned()).collect()
}

/// Returns whether the policy adds such a claim.
fn is_added(claim: &PodClaim<'_>, devices: &Devices) -> bool {
    let is_target = |known: &Option<String>| known.as_ref().is_none_or(|known| known == claim.target);
    let mut entries = devices.added.claim_entries.iter();
    entries.any(|(known, of)| known == claim.name && is_target(of))
        || devices.added.claims.contains(claim.target)
}

/// The claims of a pod that bring devices of the fabric, by the name within the pod, with the request that does.
pub(super) fn claims_of_devices<'c>(
    claims: &'c [PodClaim<'_>],
    devices: &Devices,
) -> BTreeSet<(&'c str, Option<&'c str>)> {
    let of_claim = |claim: &'c PodClaim<'_>| {
        let found = devices.own.claims.devices_of(claim).into_iter().filter(|(_, devices)| *devices > 0);
        found.map(|(request, _)| (claim.name, request))
    };
    claims.iter().flat_map(of_claim).collect()
}

/// Returns whether a container requests a device of the fabric, under any name.
pub(super) fn has(container: &Value, claims: &BTreeSet<(&str, Option<&str>)>, devices: &Devices) -> bool {
    // Without a request, an entry is about the whole claim.
    let claimed = |(name, used): (&str, Option<&str>)| match used {
        Some(_) => claims.contains(&(name, None)) || claims.contains(&(name, used)),
        None => claims.range((name, None)..).next().is_some_and(|(claim, _)| *claim == name),
    };
    requested(container, devices).next().is_some() || used_requests(container).any(claimed)
}

/// The devices of the fabric that a container requests.
fn requested<'p>(container: &'p Value, devices: &'p Devices) -> impl Iterator<Item = &'p String> {
    let lists = AMOUNT_LISTS.into_iter();
    let amounts = lists.flat_map(|list| container["resources"][list].as_object().into_iter().flatten());
    let is_device = |(name, amount): &(&String, &Value)| {
        devices.own.resources.iter().any(|pattern| pattern.matches(name))
            && Quantity::from_value(amount).is_some_and(|amount| amount.as_count() != Some(0))
    };
    amounts.filter(is_device).map(|(name, _)| name)
}
