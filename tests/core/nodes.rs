//! Injection with the nodes of a cluster.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric_injector::core::engine::{NODES, Outcome, STAMP};
use fabric_injector::core::nodes::Nodes;
use fabric_injector::core::policy::PodContext;
use fabric_injector::core::policy_set::{PolicySet, mutate};
use fabric_injector::shell::builtin;
use serde_json::{Value, json};

use crate::helpers::reason;

fn all_policies() -> PolicySet {
    let definitions = builtin::POLICIES.iter().map(|policy| (policy.definition().unwrap(), BTreeMap::new()));
    PolicySet::by_nodes(definitions.collect()).unwrap()
}

fn node(name: &str, provider_id: &str, labels: Value, capacity: Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn context(nodes: &[Value]) -> PodContext {
    let nodes = Nodes::read(&json!({"kind": "NodeList", "items": nodes})).unwrap();
    PodContext { nodes: Some(Arc::new(nodes)), ..PodContext::default() }
}

fn pod(selector: Value) -> Value {
    json!({
        "metadata": {"annotations": {"nmp.nvidia.com/enable-multi-node-networking": "true"}},
        "spec": {"nodeSelector": selector, "containers": [
            {"name": "train", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
    })
}

const TYPE: &str = "node.kubernetes.io/instance-type";

/// Clusters that differ in what decides.
fn clusters() -> Vec<Vec<Value>> {
    let p5 = |name| {
        let capacity = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"});
        node(name, "aws:///use1-az4/i-1", json!({TYPE: "p5.48xlarge"}), capacity)
    };
    let p4d = |efa: u8| {
        let capacity = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa.to_string()});
        node("p4d", "aws:///use1-az4/i-2", json!({TYPE: "p4d.24xlarge"}), capacity)
    };
    let own = |resource: &str| {
        let capacity = json!({"nvidia.com/gpu": "8", resource: "8"});
        node("own", "", json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), capacity)
    };
    vec![
        vec![],
        vec![p5("a")],
        vec![p5("a"), p4d(4)],
        vec![p4d(4)],
        vec![p4d(0)],
        vec![p5("a"), p5("b"), own("rdma/ib")],
        vec![own("rdma/ib")],
        vec![own("nvidia.com/hostdev")],
    ]
}

/// The result of injecting a pod; the pod as it was if nothing changes.
fn injected(policies: &PolicySet, pod: &Value, context: &PodContext) -> Value {
    match mutate(policies, pod.clone(), context).outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        Outcome::Skipped { marked, .. } => marked.pod,
        Outcome::Unchanged { pod, .. } => pod,
        Outcome::Refused { reason } => panic!("{reason}"),
    }
}

#[test]
fn what_was_decided_stays_decided_when_the_nodes_change() {
    for policy in builtin::POLICIES {
        let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
        for first in clusters() {
            for selector in [json!({}), json!({TYPE: "p4d.24xlarge"}), json!({TYPE: "unknown"})] {
                let once = injected(&policies, &pod(selector), &context(&first));
                for then in clusters() {
                    assert_eq!(injected(&policies, &once, &context(&then)), once, "{}", policy.name);
                }
                assert_eq!(injected(&policies, &once, &PodContext::default()), once, "{}", policy.name);
            }
        }
    }
}

#[test]
fn the_stamp_does_not_depend_on_the_nodes() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let stamp = |nodes: &[Value]| {
        injected(&policies, &pod(json!({})), &context(nodes))["metadata"]["annotations"][STAMP].clone()
    };
    let stamps: Vec<Value> = clusters().iter().map(|nodes| stamp(nodes)).collect();
    assert!(stamps.iter().all(|other| other.is_string() && *other == stamps[0]), "{stamps:?}");
}

#[test]
fn a_pod_that_was_injected_without_nodes_is_not_decided_by_them() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let once = injected(&policies, &pod(json!({})), &PodContext::default());
    assert_eq!(once["metadata"]["annotations"].get(NODES), None);
    for nodes in clusters() {
        assert_eq!(injected(&policies, &once, &context(&nodes)), once);
    }
}

#[test]
fn an_annotation_of_nodes_that_cannot_be_read_leaves_the_pod_with_a_reason() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    for text in ["", "{}", "[1]", "[{}]", r#"[{"labels":{},"gpus":8,"resources":{"a":"b"}}]"#] {
        let mut pod = pod(json!({}));
        pod["metadata"]["annotations"][NODES] = json!(text);
        assert_eq!(reason(&mutate(&policies, pod, &PodContext::default())), "malformed_pod", "{text}");
    }
}

#[test]
fn the_nodes_choose_the_provider() {
    let policies = all_policies();
    let outcome = |nodes: &[Value]| {
        let mutation = mutate(&policies, pod(json!({})), &context(nodes));
        let policy = mutation.policy.clone();
        policy.unwrap_or_else(|| reason(&mutation).to_owned())
    };
    let chosen: Vec<String> = clusters().iter().map(|nodes| outcome(nodes)).collect();
    assert_eq!(chosen[0], "nodes_unknown");
    assert_eq!(chosen[1..5], ["aws-efa"; 4]);
    let without = mutate(&policies, pod(json!({})), &PodContext::default());
    assert_eq!(reason(&without), "nodes_unknown");
}

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
