//! The claims of a pod, and the GPUs that they bring.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use fabric_policy::claims::ClaimRequest;
use fabric_policy::matcher::namespace_of;
use fabric_policy::objects::{ObjectKind, ObjectName, PodClaim};
use fabric_policy::{Devices, PodContext};
use fabric_yaml::json::items;

use super::CONTAINER_LISTS;
use crate::record::{CLAIMS, UnknownClaim, Warning, WarningKind};

/// The claims of a pod, with what is known of their requests. What an earlier injection recorded stays.
pub(super) fn claims<'p>(pod: &'p Value, devices: &Devices, context: &PodContext) -> Vec<PodClaim<'p>> {
    let mut claims = claims_of_pod(pod, context);
    let names = devices.gpu_claims.len() + devices.own.claims.len();
    let is_listed = |request| {
        [&devices.gpu_claims, &devices.own.claims].iter().any(|list| list.of_request(request).is_some())
    };
    for claim in &mut claims {
        if !context.goes_on((1 + claim.requests.len()) * names * STEPS_OF_NAME) {
            break;
        }
        claim.is_known = !claim.requests.is_empty() && claim.requests.iter().all(is_listed);
    }
    claims
}

/// The steps to find what a claim requests, and to compare a request with a name of the policy.
const STEPS_OF_CLAIM: usize = 20;
const STEPS_OF_NAME: usize = 12;
/// The most requests of a claim, as the API server limits them (`DeviceRequestsMaxSize`).
const MOST_REQUESTS: usize = 32;

/// The claims of a pod, as no policy has read them.
pub fn claims_of_pod<'p>(pod: &'p Value, context: &PodContext) -> Vec<PodClaim<'p>> {
    let claims = items(&pod["spec"], "resourceClaims");
    if claims.is_empty() {
        return Vec::new();
    }
    let recorded = recorded(pod, context);
    let read = |claim: &'p Value| {
        let fields =
            [("resourceClaimName", ObjectKind::Claim), ("resourceClaimTemplateName", ObjectKind::Template)];
        let (target, kind) = fields
            .into_iter()
            .find_map(|(field, kind)| Some((claim[field].as_str().filter(|name| !name.is_empty())?, kind)))?;
        let (name, is_known) = (claim["name"].as_str()?, false);
        let mut claim = PodClaim { name, target, kind, requests: [].into(), is_known };
        let of_record = recorded.as_ref().and_then(|recorded| recorded.get(&key(&claim)));
        claim.requests = if let Some(requests) = of_record {
            let requests = requests.as_array().filter(|requests| requests.len() <= MOST_REQUESTS);
            requests.into_iter().flatten().filter_map(request).collect()
        } else {
            let object = ObjectName::new(claim.kind, namespace_of(&pod["metadata"], context), target);
            let found = context.objects.as_ref().and_then(|known| known.requests_of(&object));
            found.unwrap_or_else(|| [].into())
        };
        Some(claim)
    };
    claims.iter().take_while(|_| context.goes_on(STEPS_OF_CLAIM)).filter_map(read).collect()
}

/// The key of a claim in the record: its name in the pod, and that of its claim or template.
fn key(claim: &PodClaim<'_>) -> String {
    let kind = if claim.kind == ObjectKind::Template { "template" } else { "claim" };
    format!("{}/{kind}/{}", claim.name, claim.target)
}

/// The names of the claims, and their classes, for expressions: those that a container uses. The scheduler allocates the
/// others, too, and their devices are in no container.
pub(super) fn names_and_classes(pod: &Value, claims: &[PodClaim<'_>]) -> (Value, Value) {
    let used = used_names(pod);
    let claims = || claims.iter().filter(|claim| used.contains(claim.name));
    let classes: BTreeSet<&str> = claims().flat_map(PodClaim::classes).map(String::as_str).collect();
    (names(claims()), classes.into_iter().map(Value::from).collect())
}

/// The names of the claims that containers use.
fn used_names(pod: &Value) -> HashSet<&str> {
    let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list));
    containers.flat_map(used_requests).map(|(name, _)| name).collect()
}

/// A claim that a container uses and of which neither an object nor a name of the policy tells what it brings.
pub(crate) fn unknown_claim(
    pod: &Value,
    devices: Option<&Devices>,
    context: &PodContext,
) -> Option<UnknownClaim> {
    let claims = claims_of_pod(pod, context);
    let used = used_names(pod);
    let is_unknown = |claim: &&PodClaim<'_>| {
        used.contains(claim.name)
            && claim.requests.is_empty()
            && devices.is_none_or(|devices| {
                let mut lists = [&devices.gpu_claims, &devices.own.claims].into_iter();
                lists.all(|list| list.deciding_name(claim).is_none())
            })
    };
    claims.iter().find(is_unknown).map(|claim| UnknownClaim {
        name: claim.name.to_owned(),
        kind: &claim.kind.api().kind,
        target: claim.target.to_owned(),
        namespace: namespace_of(&pod["metadata"], context).to_owned(),
    })
}

/// The warning that names decide about a claim that a container uses, because the namespace has too many objects.
pub(crate) fn warning_of_too_many(pod: &Value, context: &PodContext) -> Option<Warning> {
    let namespace = namespace_of(&pod["metadata"], context);
    context.objects.as_ref().filter(|known| known.over.contains(namespace))?;
    let (claims, used) = (claims_of_pod(pod, context), used_names(pod));
    let is_unknown = |claim: &PodClaim<'_>| claim.requests.is_empty() && used.contains(claim.name);
    let kind = WarningKind::TooManyObjects { namespace: namespace.to_owned() };
    claims.iter().any(is_unknown).then(|| Warning::of_pod(kind))
}

/// What an earlier injection recorded of the claims, each by its [`key`]: the name, the classes and the number of each
/// request, as in `gpu:gpu-h100|gpu.nvidia.com=8`. A claim that was unknown has none.
fn recorded(pod: &Value, context: &PodContext) -> Option<Map<String, Value>> {
    let text = pod["metadata"]["annotations"][CLAIMS].as_str()?;
    match context.read(text) {
        Ok(Value::Object(record)) => Some(record),
        _ => None,
    }
}

fn request(text: &Value) -> Option<ClaimRequest> {
    let (name, rest) = text.as_str()?.split_once(':')?;
    let (classes, count) = match rest.split_once('=') {
        Some((classes, count)) => (classes, Some(count.parse().ok()?)),
        None => (rest, None),
    };
    let classes = classes.split('|').map(str::to_owned).collect();
    Some(ClaimRequest { name: name.to_owned(), classes, count, ..ClaimRequest::default() })
}

/// The content of the annotation that an injection records; `None` for a pod without claims.
pub(crate) fn written_claims(pod: &Value, context: &PodContext) -> Option<String> {
    let claims = claims_of_pod(pod, context);
    let text = |request: &ClaimRequest| {
        let count = request.count.map(|count| format!("={count}")).unwrap_or_default();
        Value::from(format!("{}:{}{count}", request.name, request.classes.join("|")))
    };
    let mut record = Map::new();
    for claim in
        claims.iter().take_while(|claim| context.goes_on(STEPS_OF_CLAIM * (1 + claim.requests.len())))
    {
        record.insert(key(claim), claim.requests.iter().map(text).collect());
    }
    (!record.is_empty()).then(|| Value::Object(record).to_string())
}

/// The names of claims whose class is unknown, within the pod and those of the claims and templates that it refers to;
/// each once.
fn names<'c>(claims: impl Iterator<Item = &'c PodClaim<'c>>) -> Value {
    let mut known = BTreeSet::new();
    let unknown = claims.filter(|claim| !claim.is_known);
    let names = unknown.flat_map(|claim| [claim.name, claim.target]);
    names.filter(|name| known.insert(*name)).map(Value::from).collect()
}

/// The GPUs of the claims of a pod, by the name within the pod and that of each request; without a request, for the
/// whole claim.
pub(super) struct GpuClaims<'c>(BTreeMap<&'c str, Vec<(Option<&'c str>, i64)>>);

impl<'c> GpuClaims<'c> {
    pub(super) fn new(claims: &'c [PodClaim<'_>], devices: &Devices) -> Self {
        let gpus = claims.iter().map(|claim| (claim.name, devices.gpu_claims.devices_of(claim)));
        Self(gpus.filter(|(_, gpus)| gpus.iter().any(|(_, gpus)| *gpus > 0)).collect())
    }

    /// The GPUs of a container.
    pub(super) fn gpus_of(&self, container: &Value) -> i64 {
        self.gpus_of_all([container])
    }

    /// The GPUs of several containers together. A request that more than one of them uses counts once.
    pub(super) fn gpus_of_all<'p>(&self, containers: impl IntoIterator<Item = &'p Value>) -> i64 {
        if self.0.is_empty() {
            return 0;
        }
        let mut used: BTreeMap<(&str, usize), i64> = BTreeMap::new();
        for (name, request) in containers.into_iter().flat_map(used_requests) {
            for (at, (of_request, gpus)) in self.0.get(name).into_iter().flatten().enumerate() {
                if is_used(*of_request, request) {
                    used.insert((name, at), *gpus);
                }
            }
        }
        used.into_values().fold(0, i64::saturating_add)
    }
}

/// The claims that a container uses, each with the request to which the container confines itself.
pub(super) fn used_requests(container: &Value) -> impl Iterator<Item = (&str, Option<&str>)> {
    let used = items(&container["resources"], "claims");
    used.iter().filter_map(|claim| Some((claim["name"].as_str()?, claim["request"].as_str())))
}

/// Returns whether a container that uses a claim, or one request of it, uses this request.
pub(super) fn is_used(request: Option<&str>, used: Option<&str>) -> bool {
    match (request, used) {
        (Some(request), Some(used)) => request == used,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_that_containers_share_counts_once() {
        let claims = GpuClaims([("a", vec![(None, 4)]), ("b", vec![(Some("r"), 4), (Some("s"), 2)])].into());
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
        let names = |pod: &Value| names(claims_of_pod(pod, &PodContext::default()).iter());
        assert_eq!(names(&pod), json!(["a", "x", "b", "y"]));
        assert_eq!(names(&json!({"spec": {}})), json!([]));
    }
}
