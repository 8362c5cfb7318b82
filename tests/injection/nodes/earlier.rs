//! Annotations of an earlier injection.

use super::*;

#[test]
fn annotations_of_an_earlier_injection_that_the_pod_contradicts_count_as_absent() {
    let policies = all_policies();
    let (a3, p5) = ("a3-megagpu-8g", json!({TYPE: "p5.48xlarge"}));
    let of_gke = json!({TYPE: a3, "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"});
    let of_p4d =
        json!([{"labels": {TYPE: "p4d.24xlarge"}, "gpus": 8, "resources": {"vpc.amazonaws.com/efa": 4}}]);
    let of_any = json!([{"labels": {}, "gpus": 8, "resources": {"vpc.amazonaws.com/efa": 4}}]);
    let with = |selector: &Value, annotations: Value| {
        let mut pod = pod(selector.clone());
        for (key, value) in annotations.as_object().unwrap() {
            pod["metadata"]["annotations"][key] = value.clone();
        }
        pod
    };
    let stamp = "aws-efa@000000000000";
    let nodes = [aws(), gke("mega", a3), clusters()[1][0].clone()];
    for context in [&PodContext::default(), &context(&nodes)] {
        // A manifest of AWS for nodes of Google Cloud, and one of p4d for p5.
        for (selector, annotations, policy) in [
            (&of_gke, json!({STAMP: stamp}), "gcp-tcpxo"),
            (&of_gke, json!({STAMP: stamp, NODES: of_p4d.to_string()}), "gcp-tcpxo"),
            (&p5, json!({STAMP: stamp, NODES: of_p4d.to_string()}), "aws-efa"),
            // No injection writes one of them alone.
            (&p5, json!({NODES: of_p4d.to_string()}), "aws-efa"),
            (&p5, json!({NODES: of_any.to_string()}), "aws-efa"),
            (
                &json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
                json!({NODES: of_p4d.to_string(), "fabric-injector.io/provider": "aws"}),
                "aws-efa",
            ),
            (
                &json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
                json!({STAMP: stamp, NODES: of_p4d.to_string(), "fabric-injector.io/provider": "aws"}),
                "aws-efa",
            ),
        ] {
            let pod = with(selector, annotations);
            let (codes, injected) = settled(policies, pod.clone(), context);
            assert_eq!(codes.first().map(String::as_str), Some("annotation_contradicted"), "{codes:?}");
            let fresh = self::pod(selector.clone());
            let fresh = with(&fresh["spec"]["nodeSelector"], json!({}));
            let mut fresh = fresh;
            if let Some(provider) = pod["metadata"]["annotations"].get("fabric-injector.io/provider") {
                fresh["metadata"]["annotations"]["fabric-injector.io/provider"] = provider.clone();
            }
            assert_eq!(injected, settled(policies, fresh, context).1, "{context:?}");
            let new = injected["metadata"]["annotations"][STAMP].as_str().unwrap();
            assert!(new.starts_with(policy), "{new}");
        }
        // Each alternative of the affinity excludes the nodes.
        let excludes = |operator: &str| {
            let mut pod = with(
                &json!({}),
                json!({STAMP: stamp, NODES: of_p4d.to_string(), "fabric-injector.io/provider": "aws"}),
            );
            let term = json!({"matchExpressions": [{"key": TYPE, "operator": operator, "values": ["p4d.24xlarge"]}]});
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
                json!([term, term]);
            settled(policies, pod, context).0
        };
        assert_eq!(excludes("NotIn")[0], "annotation_contradicted");
        assert!(!excludes("In").contains(&"annotation_contradicted".to_owned()));
        // Skipped, where the machine has no fabric.
        let pod = with(&json!({TYPE: "g5.48xlarge"}), json!({STAMP: stamp, NODES: of_p4d.to_string()}));
        assert_eq!(settled(policies, pod, context).0[0], "annotation_contradicted");
        let small = with(&json!({TYPE: "p3.16xlarge"}), json!({STAMP: stamp, NODES: of_p4d.to_string()}));
        let (codes, skipped) = settled(policies, small, context);
        assert_eq!(codes, ["annotation_contradicted", "injected_before"]);
        let keys: Vec<&String> = skipped["metadata"]["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["nmp.nvidia.com/enable-multi-node-networking", "fabric-injector.io/skipped"]);
    }
}

#[test]
fn annotations_that_the_pod_may_still_have_are_kept() {
    let policies = all_policies();
    let p5 = &context(&clusters()[1]);
    let (_, injected) = settled(policies, pod(json!({TYPE: "p5.48xlarge"})), p5);
    // Whatever the nodes are now, and whatever other labels the pod selects since.
    for selector in
        [json!({TYPE: "P5.48xlarge"}), json!({TYPE: "p5.48xlarge", "pool": "x"}), json!({"pool": "x"})]
    {
        let mut pod = injected.clone();
        pod["spec"]["nodeSelector"] = selector;
        for context in [&PodContext::default(), p5, &context(&[gke("mega", "a3-megagpu-8g")])] {
            let again = mutate(policies, pod.clone(), context);
            assert!(
                matches!(again.outcome, Outcome::Unchanged { .. }) && again.warnings.is_empty(),
                "{again:?}"
            );
        }
    }
    // A pod that names its provider, and one that is bound to a node.
    let mut named = pod(json!({TYPE: "a3-megagpu-8g"}));
    named["metadata"]["annotations"]["fabric-injector.io/provider"] = json!("aws");
    assert!(!settled(policies, named, p5).0.contains(&"annotation_contradicted".to_owned()));
    let mut bound = injected.clone();
    bound["spec"]["nodeName"] = json!("a");
    bound["spec"]["nodeSelector"] = json!({TYPE: "p4d.24xlarge"});
    assert!(matches!(mutate(policies, bound, p5).outcome, Outcome::Unchanged { .. }));
}
