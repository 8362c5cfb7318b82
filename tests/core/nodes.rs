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
