//! Which pods the API server asks about, and what a server changes in the objects that it looks after.
//!
//! Whether the API server understands the text is seen in the end-to-end tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use fabric_injector::core::policy::Definition;
use fabric_injector::core::policy_set::PolicySet;
use fabric_injector::core::registration::{
    Condition, ConditionOwner, MATCHES, ca_bundle, guard_changes, guard_conditions, service, webhook_changes,
    webhook_condition,
};
use fabric_injector::shell::builtin;
use serde_json::{Value, json};

fn policy(name: &str, r#match: &Value) -> Definition {
    let policy = json!({
        "apiVersion": "fabric-injector.io/v1alpha1",
        "kind": "FabricPolicy",
        "metadata": {"name": name},
        "spec": {
            "provider": "lab",
            "description": "For a test",
            "gpuResources": ["nvidia.com/gpu", "lab.io/gpu"],
            "match": r#match,
            "rules": [{"name": "env", "container": {"env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}}],
        },
    });
    Definition::read(name, &policy.to_string()).unwrap()
}

fn set(definitions: Vec<Definition>) -> PolicySet {
    PolicySet::new(definitions.into_iter().map(|definition| (definition, BTreeMap::new())).collect()).unwrap()
}

fn webhook(r#match: &Value) -> String {
    webhook_condition(&set(vec![policy("one", r#match)])).expression
}

#[test]
fn the_built_in_policies_ask_for_pods_with_either_annotation_that_did_not_opt_out() {
    for policy in builtin::POLICIES {
        let condition = webhook_condition(&set(vec![policy.definition().unwrap()]));
        assert_eq!(condition.name, MATCHES);
        assert_eq!(
            condition.expression,
            "has(object.metadata.annotations) && (\"nhx.nvidia.com/enable-multi-node-networking\" in \
             object.metadata.annotations || \"nmp.nvidia.com/enable-multi-node-networking\" in \
             object.metadata.annotations) && !(has(object.metadata.annotations) && \"disable-rdma-injection\" in \
             object.metadata.annotations && object.metadata.annotations[\"disable-rdma-injection\"] == \"true\")"
        );
    }
}

#[test]
fn every_part_of_a_match_is_a_part_of_the_condition() {
    assert_eq!(
        webhook(&json!({"anyAnnotation": {"a": "1"}})),
        "has(object.metadata.annotations) && \"a\" in object.metadata.annotations"
    );
    assert_eq!(
        webhook(&json!({"labels": {"b": "2", "a": "1"}})),
        "has(object.metadata.labels) && \"a\" in object.metadata.labels && object.metadata.labels[\"a\"] == \"1\" && \
         has(object.metadata.labels) && \"b\" in object.metadata.labels && object.metadata.labels[\"b\"] == \"2\""
    );
    assert_eq!(webhook(&json!({"namespaces": ["b", "a"]})), "request.namespace in [\"b\", \"a\"]");
    assert_eq!(
        webhook(&json!({"ownerKinds": ["Job"]})),
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, owner.kind in [\"Job\"])"
    );
}

#[test]
fn a_group_of_an_owner_and_any_value_of_an_annotation_are_asked_for() {
    assert_eq!(
        webhook(&json!({"ownerKinds": ["Job.batch", "Any", "RayCluster.ray.io", "Other"]})),
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, owner.kind in \
         [\"Any\", \"Other\"] || owner.kind == \"Job\" && owner.apiVersion.startsWith(\"batch/\") || owner.kind == \
         \"RayCluster\" && owner.apiVersion.startsWith(\"ray.io/\"))"
    );
    assert_eq!(
        webhook(&json!({"namespaces": ["a"], "exceptAnnotation": {"b": "*"}})),
        "request.namespace in [\"a\"] && !(has(object.metadata.annotations) && \"b\" in object.metadata.annotations)"
    );
}

#[test]
fn a_condition_of_a_policy_is_not_for_the_api_server() {
    let conditional = json!({"namespaces": ["a"], "when": "${hostNetwork}"});
    assert_eq!(webhook(&conditional), "request.namespace in [\"a\"]");
    let [matches, _] = guard_conditions(&set(vec![policy("one", &conditional)]));
    assert_eq!(matches.expression, "request.namespace in [\"a\"]");
}

#[test]
fn policies_are_joined_by_or_in_the_order_of_their_names_and_equal_ones_stand_once() {
    let one = |name, namespace| policy(name, &json!({"namespaces": [namespace]}));
    let condition = webhook_condition(&set(vec![one("c", "z"), one("a", "y"), one("b", "z")]));
    assert_eq!(condition.expression, "(request.namespace in [\"y\"]) || (request.namespace in [\"z\"])");
}

#[test]
fn what_a_policy_says_cannot_end_a_string() {
    let text = "\" || true || \"\\\u{2028}";
    let expression = webhook(&json!({"anyAnnotation": {"a": "1"}, "exceptAnnotation": {"e": text}}));
    assert!(
        expression.contains(r#"object.metadata.annotations["e"] == "\" || true || \"\\\u2028""#),
        "{expression}"
    );
}

#[test]
fn the_guard_looks_for_the_value_as_well_and_for_gpus_of_every_kind() {
    let [matches, gpus] =
        guard_conditions(&set(vec![policy("one", &json!({"anyAnnotation": {"b": "2", "a": "1"}}))]));
    assert_eq!(
        matches.expression,
        "has(object.metadata.annotations) && (\"a\" in object.metadata.annotations && \
         object.metadata.annotations[\"a\"] == \"1\" || \"b\" in object.metadata.annotations && \
         object.metadata.annotations[\"b\"] == \"2\")"
    );
    assert_eq!(gpus.name, "requests-gpus");
    assert_eq!(gpus.expression.matches("[\"lab.io/gpu\", \"nvidia.com/gpu\"].exists(gpu, ").count(), 2);
    assert_eq!(gpus.expression.matches("size(container.resources.claims) > 0").count(), 2);
    let class = "name.startsWith(\"deviceclass.resource.kubernetes.io/\")";
    assert_eq!(gpus.expression.matches(class).count(), 2);
}

fn condition(expression: &str) -> Condition {
    Condition { name: MATCHES, expression: expression.to_owned() }
}

fn configuration() -> Value {
    json!({
        "metadata": {"name": "fabric-injector", "resourceVersion": "7", "labels": {"a": "b"}},
        "webhooks": [{
            "name": "pods.fabric-injector.io",
            "clientConfig": {"service": {"name": "injector", "namespace": "gpu", "path": "/mutate", "port": 443}},
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "of-the-operator", "expression": "true"}],
        }],
    })
}

/// The object after the changes, as the API server makes it.
fn changed(object: &Value, patch: &json_patch::Patch) -> Value {
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch.0).unwrap();
    object
}

#[test]
fn a_configuration_gets_the_cas_and_the_condition_and_keeps_all_else() {
    let before = configuration();
    let patch = webhook_changes(&before, "PEM", Some(&condition("x")));
    let after = changed(&before, &patch);
    assert_eq!(ca_bundle(&after).unwrap(), "PEM");
    let mut expected = before.clone();
    expected["webhooks"][0]["clientConfig"]["caBundle"] = json!("UEVN");
    expected["webhooks"][0]["matchConditions"] =
        json!([{"name": "of-the-operator", "expression": "true"}, {"name": MATCHES, "expression": "x"}]);
    expected["metadata"]["annotations"] = after["metadata"]["annotations"].clone();
    assert_eq!(after, expected);
    assert!(webhook_changes(&after, "PEM", Some(&condition("x"))).0.is_empty());
    assert_eq!(service(&after), Some(("injector", "gpu")));
}

#[test]
fn a_change_holds_for_the_version_that_was_read_only() {
    let before = configuration();
    let patch = webhook_changes(&before, "PEM", None);
    let version = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"});
    assert_eq!(serde_json::to_value(&patch).unwrap()[0], version);
    assert!(webhook_changes(&changed(&before, &patch), "PEM", None).0.is_empty());
    assert!(changed(&before, &patch)["metadata"].get("annotations").is_none());
}

#[test]
fn every_entry_of_a_configuration_is_put_right() {
    let mut before = configuration();
    let mut second = before["webhooks"][0].clone();
    second["name"] = json!("second");
    second.as_object_mut().unwrap().remove("matchConditions");
    before["webhooks"].as_array_mut().unwrap().push(second);
    let after = changed(&before, &webhook_changes(&before, "PEM", Some(&condition("x"))));
    assert_eq!(after["webhooks"][1]["matchConditions"], json!([{"name": MATCHES, "expression": "x"}]));
    assert_eq!(after["webhooks"][1]["clientConfig"]["caBundle"], "UEVN");
    let mut half = after.clone();
    half["webhooks"][1]["clientConfig"]["caBundle"] = json!("");
    assert_eq!(ca_bundle(&half), None);
    assert_eq!(ca_bundle(&before), None);
}

#[test]
fn whose_condition_is_registered_is_known() {
    let (ours, theirs) = (condition("x"), condition("y"));
    let before = configuration();
    assert_eq!(ConditionOwner::of(&before, &ours), ConditionOwner::Unmanaged);
    let after = changed(&before, &webhook_changes(&before, "PEM", Some(&theirs)));
    assert_eq!(ConditionOwner::of(&after, &theirs), ConditionOwner::ThisReplica);
    assert_eq!(ConditionOwner::of(&after, &ours), ConditionOwner::OtherReplica);
    let mut tampered = after.clone();
    tampered["webhooks"][0]["matchConditions"][1]["expression"] = json!("false");
    assert_eq!(ConditionOwner::of(&tampered, &ours), ConditionOwner::Unmanaged);
    assert_eq!(ConditionOwner::of(&tampered, &theirs), ConditionOwner::Unmanaged);
    let mended = changed(&tampered, &webhook_changes(&tampered, "PEM", Some(&theirs)));
    assert_eq!(mended, after);
}

#[test]
fn a_guard_gets_its_conditions_and_keeps_those_of_others() {
    let guard = json!({
        "metadata": {"resourceVersion": "1"},
        "spec": {"matchConditions": [
            {"name": "not-on-windows", "expression": "w"},
            {"name": "requests-gpus", "expression": "old"},
        ]},
    });
    let wanted = guard_conditions(&set(vec![policy("one", &json!({"namespaces": ["a"]}))]));
    let after = changed(&guard, &guard_changes(&guard, &wanted));
    let names: Vec<_> =
        after["spec"]["matchConditions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["not-on-windows", "requests-gpus", MATCHES]);
    assert_eq!(after["spec"]["matchConditions"][1]["expression"], json!(wanted[1].expression));
    assert!(guard_changes(&after, &wanted).0.is_empty());
    let bare = json!({"metadata": {"resourceVersion": "1"}, "spec": {}});
    let after = changed(&bare, &guard_changes(&bare, &wanted));
    assert_eq!(after["spec"]["matchConditions"].as_array().unwrap().len(), 2);
}

#[test]
fn objects_of_any_shape_are_no_reason_to_panic() {
    for object in [json!(null), json!({}), json!({"webhooks": 3}), json!({"webhooks": [null, 3]}), json!([])]
    {
        assert_eq!(service(&object), None);
        assert_eq!(ca_bundle(&object), None);
        let _ = webhook_changes(&object, "PEM", Some(&condition("x")));
        let _ = guard_changes(&object, &[condition("x")]);
        let _ = ConditionOwner::of(&object, &condition("x"));
    }
}
