//! The claims of a pod, and the GPUs that they bring.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use fabric_policy::Devices;

/// The claims of a pod: the name within the pod, and that of the claim or of its template.
pub(super) fn claims(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    claims.filter_map(|claim| {
        let target = ["resourceClaimName", "resourceClaimTemplateName"].iter();
        let target = target.filter_map(|field| claim[field].as_str()).find(|name| !name.is_empty())?;
        Some((claim["name"].as_str()?, target))
    })
}

/// The names of a pod's claims, within the pod and those of the claims and templates that it refers to; each once.
pub(super) fn names(pod: &Value) -> Value {
    let mut known = BTreeSet::new();
    let names = claims(pod).flat_map(|(name, target)| [name, target]);
    names.filter(|name| known.insert(*name)).map(Value::from).collect()
}

/// The claims of a pod that bring GPUs, by the name within the pod.
pub(super) struct GpuClaims<'p>(BTreeMap<&'p str, i64>);

impl<'p> GpuClaims<'p> {
    pub(super) fn of(pod: &'p Value, devices: &Devices) -> Self {
        let gpus = claims(pod).map(|(name, target)| (name, devices.gpu_claims.devices_of(name, target)));
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
        assert_eq!(names(&pod), json!(["a", "x", "b", "y"]));
        assert_eq!(names(&json!({"spec": {}})), json!([]));
    }
}
