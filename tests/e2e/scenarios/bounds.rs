//! The lengths for which the server refuses a pod before it evaluates it are those of the API server.

use std::collections::BTreeMap;

use fabric_engine::admission::{BOUNDS, Mode, Most, OnError, Reviewer};
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_injector::builtin;
use fabric_policy::PodContext;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";

pub(super) async fn what_the_server_refuses_for_a_length_the_api_server_refuses_too(cluster: &Cluster) {
    are_those_of(&cluster.api, |_| true).await;
}

/// Asks an API server about each length, and about one more.
pub(super) async fn are_those_of(api: &Api, has_field: impl Fn(&str) -> bool) {
    let aws = builtin::POLICIES.iter().find(|policy| policy.name == "aws-efa").unwrap();
    let policies = PolicySet::new(vec![(aws.definition().unwrap(), BTreeMap::new())]).unwrap();
    for (path, most) in BOUNDS.iter().filter(|(path, _)| has_field(path)) {
        let [longest, longer] = [0, 1].map(|more| pod(path, *most, more));
        let reply = api.post(PODS, &longest).await;
        assert_eq!(reply.status, 201, "{path}: {reply:?}");
        assert!(!refuses(&policies, &longest), "{path}");
        let reply = api.post(PODS, &longer).await;
        // It names the entry of the list, or the object, that has the field.
        let around = path.replace("[]", "[0]");
        let around = around.rsplit_once('.').map_or("", |(around, _)| around);
        assert!(reply.status == 422 && reply.message().contains(around), "{path}: {reply:?}");
        assert!(refuses(&policies, &longer), "{path}");
    }
}

/// Returns whether the server refuses a pod for a length.
fn refuses(policies: &PolicySet, pod: &Value) -> bool {
    let reviewer = Reviewer {
        policies,
        evaluate: &mutate,
        mode: Mode::Inject,
        on_error: OnError::Deny,
        has_changed: &|| false,
    };
    // A policy may concern it. The annotation takes none of the bytes of others.
    let mut pod = pod.clone();
    if pod["metadata"]["annotations"].is_null() {
        pod["metadata"]["annotations"] = json!({"nmp.nvidia.com/enable-multi-node-networking": "true"});
    } else {
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": "default", "object": pod},
    });
    let context = PodContext::default();
    let answer = reviewer.answer(review.to_string().as_bytes(), context).unwrap();
    answer.record.reason.as_deref() == Some("too_long")
}

/// A pod with the longest value at a path, or one that is longer.
fn pod(path: &str, most: Most, more: usize) -> Value {
    let container = |name: &str| json!({"name": name, "image": "i"});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bounds"},
        "spec": {
            "containers": [container("main")],
            "initContainers": [container("init")],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}},
        },
    });
    let field = path.rsplit('.').next().unwrap();
    if path.starts_with("spec.resourceClaims") {
        let other = if field == "name" { "resourceClaimName" } else { field };
        pod["spec"]["resourceClaims"] = json!([{"name": "c", other: "c"}]);
    }
    if field == "generateName" {
        pod["metadata"] = json!({});
    }
    let name = |prefix: usize| format!("{}/{}", "a".repeat(prefix), "a".repeat(63 + more));
    let value: Value = match most {
        Most::Characters(most) => "a".repeat(most + more).into(),
        Most::Name => name(253).into(),
        // An API server puts `requests.` before it.
        Most::Keys => Map::from_iter([(name(240), json!("1"))]).into(),
        Most::Labels => Map::from_iter([(name(253), json!("a".repeat(63)))]).into(),
        Most::Bytes(most) => json!({"a": "a".repeat(most - 1 + more)}),
    };
    let pointer = format!("/{}", path.replace("[]", ".0").replace('.', "/"));
    let (around, field) = pointer.rsplit_once('/').unwrap();
    // A device is in limits and requests.
    let others = ["limits", "requests"].into_iter().filter(|_| most == Most::Keys);
    let fields: Vec<&str> = [field].into_iter().chain(others).collect();
    if pod.pointer(around).is_none() {
        let (outer, inner) = around.rsplit_once('/').unwrap();
        pod.pointer_mut(outer).unwrap()[inner] = json!({});
    }
    for field in fields {
        pod.pointer_mut(around).unwrap()[field] = value.clone();
    }
    pod
}
