//! The claims of a pod, and the GPUs that they bring.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use fabric_policy::claims::{ClaimName, ClaimRequest, PodClaim};
use fabric_policy::matcher::namespace_of;
use fabric_policy::{Devices, PodContext};
use fabric_yaml::json::items;

use super::containers::LISTS;
use super::own_devices::is_added;
use crate::record::CLAIMS;

/// The claims of a pod, with what is known of their requests. What an earlier injection recorded stays.
pub(crate) fn claims<'p>(pod: &'p Value, context: &PodContext) -> Vec<PodClaim<'p>> {
    let recorded = recorded(pod);
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let read = |claim: &'p Value| {
        let mut fields = [("resourceClaimName", false), ("resourceClaimTemplateName", true)].into_iter();
        let (target, is_template) = fields.find_map(|(field, is_template)| {
            Some((claim[field].as_str().filter(|name| !name.is_empty())?, is_template))
        })?;
        let name = claim["name"].as_str()?;
        let requests = match recorded.as_ref().and_then(|recorded| recorded.get(name)) {
            Some(requests) => requests.as_array().map(|texts| texts.iter().filter_map(request).collect()),
            None => context.claims.as_ref().and_then(|known| {
                let namespace = namespace_of(&pod["metadata"], context).to_owned();
                known.requests_of(&ClaimName { namespace, name: target.to_owned(), is_template })
            }),
        };
        Some(PodClaim { name, target, requests })
    };
    claims.filter_map(read).collect()
}

/// The names of the claims, and their classes, for expressions: those that a container uses. The scheduler allocates the
/// others, too, and their devices are in no container.
pub(super) fn names_and_classes(pod: &Value, claims: &[PodClaim<'_>]) -> (Value, Value) {
    let containers = LISTS.iter().flat_map(|list| items(&pod["spec"], list));
    let used = containers.flat_map(|container| items(&container["resources"], "claims"));
    let used: HashSet<&str> = used.filter_map(|claim| claim["name"].as_str()).collect();
    let claims = || claims.iter().filter(|claim| used.contains(claim.name));
    (names(claims()), classes(claims()))
}

/// What an earlier injection recorded of the claims: by their names in the pod, the classes of each request, as in
/// `gpu-h100|gpu.nvidia.com=8`. A claim that was unknown has none.
fn recorded(pod: &Value) -> Option<Map<String, Value>> {
    let text = pod["metadata"]["annotations"][CLAIMS].as_str()?;
    serde_json::from_str(text).ok()
}

fn request(text: &Value) -> Option<ClaimRequest> {
    let text = text.as_str()?;
    let (classes, count) = match text.split_once('=') {
        Some((classes, count)) => (classes, Some(count.parse().ok()?)),
        None => (text, None),
    };
    Some(ClaimRequest { classes: classes.split('|').map(str::to_owned).collect(), count })
}

/// The content of the annotation that an injection records; `None` for a pod without claims, and where none is known.
pub(crate) fn written_claims(pod: &Value, context: &PodContext) -> Option<String> {
    let claims = claims(pod, context);
    if claims.is_empty() || context.claims.is_none() {
        return None;
    }
    let text = |request: &ClaimRequest| {
        let classes = request.classes.join("|");
        Value::from(request.count.map_or_else(|| classes.clone(), |count| format!("{classes}={count}")))
    };
    let of_claim = |claim: &PodClaim<'_>| {
        let requests: Vec<Value> = claim.requests.iter().flatten().map(text).collect();
        (claim.name.to_owned(), Value::from(requests))
    };
    Some(Value::Object(claims.iter().map(of_claim).collect()).to_string())
}

/// The names of claims whose class is unknown, within the pod and those of the claims and templates that it refers to;
/// each once.
fn names<'c>(claims: impl Iterator<Item = &'c PodClaim<'c>>) -> Value {
    let mut known = BTreeSet::new();
    let unknown = claims.filter(|claim| !claim.is_known());
    let names = unknown.flat_map(|claim| [claim.name, claim.target]);
    names.filter(|name| known.insert(*name)).map(Value::from).collect()
}

/// The classes of the claims, each once.
fn classes<'c>(claims: impl Iterator<Item = &'c PodClaim<'c>>) -> Value {
    let classes: BTreeSet<&String> = claims.flat_map(PodClaim::classes).collect();
    classes.into_iter().map(|class| Value::from(class.as_str())).collect()
}

/// The claims about which names decide, by their names in the pod, without those that the policy adds.
pub(super) fn by_name(claims: &[PodClaim<'_>], devices: &Devices) -> Vec<String> {
    let lists = [&devices.gpu_claims, &devices.own.claims];
    let decided = |claim: &&PodClaim<'_>| {
        lists.iter().any(|list| list.deciding_name(claim).is_some()) && !is_added(claim, devices)
    };
    claims.iter().filter(decided).map(|claim| claim.name.to_owned()).collect()
}

/// The claims of a pod that bring GPUs, by the name within the pod.
pub(super) struct GpuClaims<'p>(BTreeMap<&'p str, i64>);

impl<'p> GpuClaims<'p> {
    pub(super) fn of(claims: &[PodClaim<'p>], devices: &Devices) -> Self {
        let gpus = claims.iter().map(|claim| (claim.name, devices.gpu_claims.devices_of(claim)));
        Self(gpus.filter(|(_, gpus)| *gpus > 0).collect())
    }

    /// The GPUs of a container.
    pub(super) fn gpus_of(&self, container: &Value) -> i64 {
        self.gpus_of_all([container])
    }

    /// The GPUs of several containers together. A claim that more than one of them names counts once.
    pub(super) fn gpus_of_all<'c>(&self, containers: impl IntoIterator<Item = &'c Value>) -> i64 {
        if self.0.is_empty() {
            return 0;
        }
        let claims = containers
            .into_iter()
            .flat_map(|container| container["resources"]["claims"].as_array().into_iter().flatten());
        let used: BTreeSet<&str> = claims.filter_map(|claim| claim["name"].as_str()).collect();
        used.into_iter().filter_map(|name| self.0.get(name)).fold(0, |sum, gpus| sum.saturating_add(*gpus))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_that_containers_share_counts_once() {
        let claims = GpuClaims([("a", 4), ("b", 4)].into());
        let container = |names: &[&str]| {
            let claims: Vec<Value> = names.iter().map(|name| json!({"name": name, "request": "r"})).collect();
            json!({"resources": {"claims": claims}})
        };
        let (one, other) = (container(&["a", "a", "nic"]), container(&["a", "b"]));
        assert_eq!((claims.gpus_of(&one), claims.gpus_of(&other)), (4, 8));
        assert_eq!(claims.gpus_of_all([&one, &other]), 8);
    }

    #[test]
    fn claims_are_known_by_their_name_in_the_pod_and_by_claim_or_template() {
        let pod = json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "x"},
            {"name": "b", "resourceClaimTemplateName": "y"}, {"name": "c"}]}});
        let names = |pod: &Value| names(claims(pod, &PodContext::default()).iter());
        assert_eq!(names(&pod), json!(["a", "x", "b", "y"]));
        assert_eq!(names(&json!({"spec": {}})), json!([]));
    }
}
