//! The devices of a policy's fabric that a pod requests itself, under other names than those that the policy adds.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_policy::Devices;
use fabric_policy::claims::{DEVICE_CLASS, DeviceClass};
use fabric_policy::objects::{KnownObjects, PodClaim};
use fabric_policy::schema::AMOUNT_LISTS;
use fabric_yaml::each_once;
use fabric_yaml::json::items;
use fabric_yaml::quantity::Quantity;

use super::CONTAINER_LISTS;
use super::pod_claims::used_requests;

/// What decides which devices a pod brings.
pub(super) struct OwnDevices<'a> {
    /// Those of the policy.
    pub(super) devices: &'a Devices,
    /// Those of the pod.
    pub(super) claims: &'a [PodClaim<'a>],
    pub(super) known: Option<&'a KnownObjects>,
}

impl<'a> OwnDevices<'a> {
    /// The names of the devices; each once.
    pub(super) fn names(&self, pod: &Value) -> Vec<String> {
        let Devices { added, own, .. } = self.devices;
        let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list));
        let all = containers.flat_map(|container| self.requested(container));
        let mut names: Vec<String> = all.filter(|name| !added.resources.contains(*name)).cloned().collect();
        let foreign = self.claims.iter().filter(|claim| own.claims.has(claim) && !self.is_added(claim));
        names.extend(foreign.map(|claim| claim.target.to_owned()));
        each_once(names)
    }

    /// The claims about which names decide, by their names in the pod, without those that the policy adds.
    pub(super) fn claims_by_name(&self) -> Vec<String> {
        let lists = [&self.devices.gpu_claims, &self.devices.own.claims];
        let decided = |claim: &&PodClaim<'_>| {
            lists.iter().any(|list| list.deciding_name(claim).is_some()) && !self.is_added(claim)
        };
        self.claims.iter().filter(decided).map(|claim| claim.name.to_owned()).collect()
    }

    /// Returns whether the policy adds such a claim.
    fn is_added(&self, claim: &PodClaim<'_>) -> bool {
        let added = &self.devices.added;
        let is_target = |known: &Option<String>| known.as_ref().is_none_or(|known| known == claim.target);
        let mut entries = added.claim_entries.iter();
        entries.any(|(known, of)| known == claim.name && is_target(of)) || added.claims.contains(claim.target)
    }

    /// The claims that bring devices of the fabric, by the name within the pod, with the request that does.
    pub(super) fn claims_of_devices(&self) -> BTreeSet<(&'a str, Option<&'a str>)> {
        let of_claim = |claim: &'a PodClaim<'a>| {
            let found = self.devices.own.claims.devices_of(claim).into_iter();
            found.filter(|(_, devices)| *devices > 0).map(|(request, _)| (claim.name, request))
        };
        self.claims.iter().flat_map(of_claim).collect()
    }

    /// Returns whether a container requests a device of the fabric, under any name, itself or by one of these claims.
    pub(super) fn has(&self, container: &Value, claims: &BTreeSet<(&str, Option<&str>)>) -> bool {
        // Without a request, an entry is about the whole claim.
        let claimed = |(name, used): (&str, Option<&str>)| match used {
            Some(_) => claims.contains(&(name, None)) || claims.contains(&(name, used)),
            None => claims.range((name, None)..).next().is_some_and(|(claim, _)| *claim == name),
        };
        self.requested(container).next().is_some() || used_requests(container).any(claimed)
    }

    /// The devices of the fabric that a container requests.
    fn requested<'p>(&self, container: &'p Value) -> impl Iterator<Item = &'p String> {
        let lists = AMOUNT_LISTS.into_iter();
        let amounts = lists.flat_map(|list| container["resources"][list].as_object().into_iter().flatten());
        let is_device = |(name, amount): &(&String, &Value)| {
            is_own(name, self.devices, self.known)
                && Quantity::from_value(amount).is_some_and(|amount| amount.as_count() != Some(0))
        };
        amounts.filter(is_device).map(|(name, _)| name)
    }
}

/// Returns whether a resource is a device of the fabric, by its name or by the class whose devices it stands for.
pub(super) fn is_own(name: &str, devices: &Devices, known: Option<&KnownObjects>) -> bool {
    let of_class = || match known.and_then(|known| known.class_of_resource(name)) {
        Some(class) => devices.own.claims.have_class(class),
        // Without the object, a class has its own name only.
        None => name.strip_prefix(DEVICE_CLASS).is_some_and(|name| {
            devices.own.claims.have_class(&DeviceClass { name: name.to_owned(), ..DeviceClass::default() })
        }),
    };
    devices.own.resources.iter().any(|pattern| pattern.matches(name)) || of_class()
}
