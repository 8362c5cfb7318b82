//! GPUs that slices and classes of resources have, and claims for them.

use super::*;

/// A `ResourceSlice` with this many devices of each type.
fn slice(name: &str, node: &str, pool: (i64, i64), devices: &[(&str, usize)]) -> Value {
    let of_type = |(kind, count): &(&str, usize)| {
        let attributes = if kind.is_empty() { json!({}) } else { json!({"type": {"string": kind}}) };
        vec![json!({"name": "device", "attributes": attributes}); *count]
    };
    let devices: Vec<Value> = devices.iter().flat_map(of_type).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "devices": devices,
            "pool": {"name": "pool", "generation": pool.0, "resourceSliceCount": pool.1}}})
}

/// The interfaces that a pod gets with GPUs by a claim, and the GPUs of its nodes by the annotation.
fn with_claims(objects: &[Value]) -> (String, String) {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let mut pod = pod(json!({}));
    pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "8gpu"}]);
    pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpus"}]});
    let pod = injected(&policies, &pod, &context(objects));
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    let nodes: Value =
        serde_json::from_str(pod["metadata"]["annotations"][NODES].as_str().unwrap_or("[]")).unwrap();
    (limits["vpc.amazonaws.com/efa"].as_str().unwrap().to_owned(), nodes[0]["gpus"].to_string())
}

#[test]
fn gpus_of_resource_slices_are_those_of_their_node() {
    let node = |capacity: Value| node("a", "aws:///use1-az4/i-1", json!({TYPE: "p9.48xlarge"}), capacity);
    let dra = node(json!({"vpc.amazonaws.com/efa": "24"}));
    let known = ("24".to_owned(), "8".to_owned());
    let unknown = ("8".to_owned(), "null".to_owned());
    let whole = slice("s", "a", (1, 1), &[("gpu", 8), ("mig", 3), ("", 2)]);
    assert_eq!(with_claims(&[dra.clone(), whole.clone()]), known);
    for other in [
        vec![],
        vec![slice("s", "b", (1, 1), &[("gpu", 8)])],
        vec![slice("s", "a", (1, 1), &[("mig", 8), ("", 8)])],
        // A slice of the pool has not arrived.
        vec![slice("s", "a", (1, 2), &[("gpu", 8)])],
    ] {
        assert_eq!(with_claims(&[vec![dra.clone()], other].concat()), unknown);
    }
    let halves = ["s", "t"].map(|name| slice(name, "a", (2, 2), &[("gpu", 4)]));
    assert_eq!(with_claims(&[vec![dra.clone()], halves.to_vec()].concat()), known);
    // The slices of an earlier generation have not been deleted yet.
    assert_eq!(with_claims(&[vec![dra, whole.clone()], halves.to_vec()].concat()), known);
    // GPUs that a device plugin offers, too, count once.
    let both = node(json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "24"}));
    assert_eq!(with_claims(&[both, whole]), known);
}

#[test]
fn names_decide_about_a_claim_beyond_the_bound_with_a_warning() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "known", "namespace": "full"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 8}}]}}}});
    let mut claims: KnownObjects = NamedObject::read(&template, "").into_iter().collect();
    claims.over = ["full".to_owned()].into();
    let claims = Some(Arc::new(claims));
    let warnings = |namespace: &str, template: &str, claim: &str| {
        let mut pod = pod(json!({TYPE: "p5.48xlarge"}));
        pod["spec"]["resourceClaims"] = json!([{"name": claim, "resourceClaimTemplateName": template}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": claim}]);
        let context = PodContext {
            objects: claims.clone(),
            namespace: Some(namespace.to_owned()),
            ..PodContext::default()
        };
        let mutation = mutate(&policies, pod, &context);
        let Outcome::Mutated(_) = mutation.outcome else { panic!("{:?}", mutation.outcome) };
        mutation.warnings
    };
    // Also where no list of the policy has the name.
    for name in ["8gpu", "other"] {
        let warning = warnings("full", name, "c").into_iter().find(|one| one.code() == "too_many_objects");
        assert_eq!(
            warning.unwrap().to_string(),
            "delete claims, ResourceClaimTemplates and ComputeDomains that no pod uses: the namespace `full` has more of \
             them than are read, and the name of a claim decides what it brings"
        );
    }
    for (namespace, name) in [("full", "known"), ("ml", "8gpu")] {
        let warnings = warnings(namespace, name, "c");
        assert!(warnings.iter().all(|one| one.code() != "too_many_objects"), "{warnings:?}");
    }
}

#[test]
fn a_pod_that_requests_a_device_class_fits_nodes_with_as_many_gpus_of_the_driver() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let dra = node("a", "aws:///use1-az4/i-1", json!({}), json!({"vpc.amazonaws.com/efa": "24"}));
    for (gpus, fits) in [(8, true), (4, false)] {
        let mut pod = pod(json!({}));
        pod["spec"]["containers"][0]["resources"] =
            json!({"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 8}});
        let objects = [dra.clone(), slice("s", "a", (1, 1), &[("gpu", gpus)])];
        let pod = injected(&policies, &pod, &context(&objects));
        assert_eq!(pod["metadata"]["annotations"][NODES].is_string(), fits, "{pod}");
    }
}
