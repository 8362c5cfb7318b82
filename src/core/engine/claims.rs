//! The claims of a pod, and the GPUs that they bring.

use std::collections::HashSet;

use serde_json::Value;

use crate::core::policy::{ClaimedGpus, Devices};

/// The claims of a pod: the name within the pod, and that of the claim or of its template.
pub(super) fn claims(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    claims.filter_map(|claim| {
        let target = ["resourceClaimName", "resourceClaimTemplateName"].iter();
        let target = target.filter_map(|field| claim[field].as_str()).find(|name| !name.is_empty())?;
        Some((claim["name"].as_str()?, target))
    })
}

/// The names of the claims and templates that a pod refers to.
pub(super) fn names(pod: &Value) -> Value {
    claims(pod).map(|(_, target)| Value::from(target)).collect()
}

/// The claims of a pod that bring GPUs.
pub(super) struct GpuClaims<'p> {
    /// The names within the pod.
    names: HashSet<&'p str>,
    /// The GPUs of one claim.
    gpus: i64,
}

impl<'p> GpuClaims<'p> {
    pub(super) fn of(pod: &'p Value, devices: &Devices) -> Self {
        let Some(ClaimedGpus { names: patterns, gpus }) = &devices.gpu_claims else {
            return Self { names: HashSet::new(), gpus: 0 };
        };
        let brings_gpus = |target: &str| patterns.iter().any(|pattern| pattern.matches(target));
        let names = claims(pod).filter(|(_, target)| brings_gpus(target)).map(|(name, _)| name);
        Self { names: names.collect(), gpus: *gpus }
    }

    /// The GPUs of a container.
    pub(super) fn gpus_of(&self, container: &Value) -> i64 {
        self.gpus_of_all([container])
    }

    /// The GPUs of several containers together. A claim that more than one of them names counts once.
    pub(super) fn gpus_of_all<'c>(&self, containers: impl IntoIterator<Item = &'c Value>) -> i64 {
        if self.names.is_empty() {
            return 0;
        }
        let mut found: HashSet<&str> = HashSet::new();
        for container in containers {
            let claims = container["resources"]["claims"].as_array().into_iter().flatten();
            let names = claims.filter_map(|claim| claim["name"].as_str());
            found.extend(names.filter(|name| self.names.contains(name)));
        }
        i64::try_from(found.len()).unwrap_or(i64::MAX).saturating_mul(self.gpus)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_that_containers_share_counts_once() {
        let claims = GpuClaims { names: HashSet::from(["a", "b"]), gpus: 4 };
        let container = |names: &[&str]| {
            let claims: Vec<Value> = names.iter().map(|name| json!({"name": name, "request": "r"})).collect();
            json!({"resources": {"claims": claims}})
        };
        let (one, other) = (container(&["a", "a", "nic"]), container(&["a", "b"]));
        assert_eq!((claims.gpus_of(&one), claims.gpus_of(&other)), (4, 8));
        assert_eq!(claims.gpus_of_all([&one, &other]), 8);
    }

    #[test]
    fn claims_are_known_by_claim_or_template() {
        let pod = json!({"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "x"},
            {"name": "b", "resourceClaimTemplateName": "y"}, {"name": "c"}]}});
        assert_eq!(names(&pod), json!(["x", "y"]));
        assert_eq!(names(&json!({"spec": {}})), json!([]));
    }
}
