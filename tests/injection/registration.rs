//! Which pods the API server asks about, and what a server changes in its webhook configuration.
//!
//! Whether the API server understands the text is seen in the end-to-end tests.

use fabric_engine::registration::{
    ASKS, MATCHES, advice_condition, ca_bundle, ca_bundle_changes, differing_condition, guard_conditions,
    service, webhook_conditions,
};
use fabric_injector::builtin;
use fabric_policy::Definition;
use serde_json::{Value, json};

use crate::helpers::set;

fn policy(name: &str, r#match: &Value) -> Definition {
    let policy = json!({
        "apiVersion": "fabric-injector.io/v1alpha1",
        "kind": "FabricPolicy",
        "metadata": {"name": name},
        "spec": {
            "provider": "lab",
            "description": "For a test",
            "gpus": {"resources": ["nvidia.com/gpu", "lab.io/gpu"]},
            "match": r#match,
            "rules": [{"name": "env", "env": {"NCCL_DEBUG": "INFO"}}],
        },
    });
    // No YAML may hold all characters that JSON may.
    let escaped = |c: char| {
        if c.is_ascii() && c != '\u{7f}' { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
    };
    let text: String = policy.to_string().chars().map(escaped).collect();
    Definition::read(name, &text).unwrap()
}

fn webhook(r#match: &Value) -> String {
    let [_, matches] = webhook_conditions(&set(vec![policy("one", r#match)]));
    matches.expression
}

/// The first condition of the webhook and of the guard.
fn asks(definitions: Vec<Definition>) -> String {
    let policies = set(definitions);
    let ([asks, _], [asks_of_guard, ..]) = (webhook_conditions(&policies), guard_conditions(&policies));
    assert_eq!(asks, asks_of_guard);
    assert_eq!(asks.name, ASKS);
    asks.expression
}

#[test]
fn the_built_in_policies_ask_for_pods_with_either_annotation_that_did_not_opt_out() {
    let [nhx, nmp] = ["nhx", "nmp"].map(|one| format!("{one}.nvidia.com/enable-multi-node-networking"));
    let opted_out = json!({"disable-rdma-injection": "true"});
    for policy in builtin::POLICIES {
        let [asks, condition] = webhook_conditions(&set(vec![policy.definition().unwrap()]));
        assert_eq!((asks.name, condition.name), (ASKS, MATCHES));
        let annotated = annotated(&json!({nhx.as_str(): "true", nmp.as_str(): "true"}));
        assert_eq!(asks.expression, format!("({annotated})"));
        assert_eq!(
            condition.expression,
            format!(
                "({annotated} && !(has(object.metadata.annotations) && {opted_out}.exists(key, key in \
                 object.metadata.annotations && ({opted_out}[key] == \"*\" || object.metadata.annotations[key] == \
                 {opted_out}[key]))))"
            )
        );
    }
}

/// The condition that a pod has one of these annotations.
fn annotated(annotations: &Value) -> String {
    format!(
        "has(object.metadata.annotations) && {annotations}.exists(key, key in object.metadata.annotations)"
    )
}

/// The condition that a pod has the label `a: "1"`.
const LABEL: &str = "has(object.metadata.labels) && {\"a\":\"1\"}.all(key, key in object.metadata.labels && \
                     object.metadata.labels[key] == {\"a\":\"1\"}[key])";

#[test]
fn the_first_condition_is_that_a_pod_has_a_trigger_and_nothing_else() {
    let keys = policy("z", &json!({"anyAnnotation": {"b": "2", "a": "1"}, "labels": {"a": "1"}}));
    let more =
        policy("y", &json!({"anyAnnotation": {"b": "3"}, "namespaces": ["team"], "when": "hostNetwork"}));
    let labelled = |name| policy(name, &json!({"labels": {"a": "1"}, "exceptAnnotation": {"no": "*"}}));
    assert_eq!(asks(vec![labelled("one")]), format!("({LABEL})"));
    let (ys, zs) = (annotated(&json!({"b": "3"})), annotated(&json!({"a": "1", "b": "2"})));
    assert_eq!(
        asks(vec![labelled("one"), keys, labelled("two"), more]),
        format!("({LABEL}) || ({ys}) || ({zs} && {LABEL})")
    );
}

#[test]
fn every_part_of_a_match_is_a_part_of_the_condition() {
    let annotation = json!({"a": "1"});
    assert_eq!(webhook(&json!({"anyAnnotation": annotation})), format!("({})", annotated(&annotation)));
    assert_eq!(
        webhook(&json!({"labels": {"b": "2", "a": "1"}})),
        format!("({})", LABEL.replace("{\"a\":\"1\"}", "{\"a\":\"1\",\"b\":\"2\"}"))
    );
    assert_eq!(
        webhook(&json!({"labels": {"a": "1"}, "namespaces": ["b", "a"]})),
        format!("({LABEL} && request.namespace in [\"b\",\"a\"])")
    );
    assert_eq!(
        webhook(&json!({"labels": {"a": "1"}, "ownerKinds": ["Job.batch", "Any"]})),
        format!(
            "({LABEL} && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, \
             owner.kind in [\"Job.batch\",\"Any\"] || owner.kind + \".\" + owner.apiVersion.split(\"/\")[0] in \
             [\"Job.batch\",\"Any\"]))"
        )
    );
}

#[test]
fn a_condition_of_a_policy_is_not_for_the_api_server() {
    let conditional = json!({"labels": {"a": "1"}, "when": "hostNetwork"});
    assert_eq!(webhook(&conditional), format!("({LABEL})"));
    let [_, matches, _] = guard_conditions(&set(vec![policy("one", &conditional)]));
    assert_eq!(matches.expression, format!("({LABEL})"));
}

#[test]
fn policies_are_joined_by_or_in_the_order_of_their_names_and_equal_ones_stand_once() {
    let one = |name, namespace| policy(name, &json!({"labels": {"a": "1"}, "namespaces": [namespace]}));
    let [_, matches] = webhook_conditions(&set(vec![one("c", "z"), one("a", "y"), one("b", "z")]));
    assert_eq!(
        matches.expression,
        format!("({LABEL} && request.namespace in [\"y\"]) || ({LABEL} && request.namespace in [\"z\"])")
    );
}

#[test]
fn what_a_policy_says_cannot_end_a_string() {
    let text = "\" || true || \"\\\u{2028}";
    let expression = webhook(&json!({"anyAnnotation": {"a": "1"}, "exceptAnnotation": {"e": text}}));
    assert!(expression.contains(r#"== {"e":"\" || true || \"\\\u2028"}[key])"#), "{expression}");
}

#[test]
fn the_guard_looks_for_the_value_as_well_and_for_gpus_of_every_kind() {
    let [_, matches, gpus] =
        guard_conditions(&set(vec![policy("one", &json!({"anyAnnotation": {"b": "2", "a": "1"}}))]));
    let annotations = json!({"a": "1", "b": "2"});
    assert_eq!(
        matches.expression,
        format!(
            "(has(object.metadata.annotations) && {annotations}.exists(key, key in object.metadata.annotations && \
             object.metadata.annotations[key] == {annotations}[key]))"
        )
    );
    assert_eq!(gpus.name, "requests-gpus");
    assert_eq!(gpus.expression.matches("[\"lab.io/gpu\",\"nvidia.com/gpu\"].exists(gpu, ").count(), 2);
    assert_eq!(gpus.expression.matches("size(container.resources.claims) > 0").count(), 2);
    let class = "name.startsWith(\"deviceclass.resource.kubernetes.io/\")";
    assert_eq!(gpus.expression.matches(class).count(), 2);
}

#[test]
fn a_workload_concerns_the_policies_by_a_key_like_that_of_a_trigger_by_all_labels_or_by_gpus() {
    let policies = set(vec![
        policy("one", &json!({"anyAnnotation": {"lab.io/fabric": "1", "lab.io/enable-rail-network": "1"}})),
        policy("two", &json!({"labels": {"tier": "gold"}})),
    ]);
    let condition = advice_condition(&policies);
    assert_eq!(condition.name, "requests-gpus-or-asks");
    let like = "[\"^lab.io/fabric$\",\"rail-network\"].exists(name, (\"^\" + key + \"$\").contains(name))";
    assert_eq!(condition.expression.matches(like).count(), 1, "{}", condition.expression);
    let labelled = LABEL.replace("{\"a\":\"1\"}", "{\"tier\":\"gold\"}");
    assert_eq!(condition.expression.matches(&labelled).count(), 1, "{}", condition.expression);
    let [.., gpus] = guard_conditions(&policies);
    assert!(condition.expression.contains(&gpus.expression));
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
fn a_configuration_gets_the_cas_in_every_entry_and_keeps_all_else() {
    let mut before = configuration();
    let mut second = before["webhooks"][0].clone();
    second["name"] = json!("second");
    before["webhooks"].as_array_mut().unwrap().push(second);
    let after = changed(&before, &ca_bundle_changes(&before, "PEM"));
    assert_eq!(ca_bundle(&after).unwrap(), "PEM");
    let mut expected = before.clone();
    for entry in expected["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = json!("UEVN");
    }
    assert_eq!(after, expected);
    assert!(ca_bundle_changes(&after, "PEM").0.is_empty());
    assert_eq!(service(&after), Some(("injector", "gpu")));
    let mut half = after.clone();
    half["webhooks"][1]["clientConfig"]["caBundle"] = json!("");
    assert_eq!(ca_bundle(&half), None);
    assert_eq!(ca_bundle(&before), None);
}

#[test]
fn registered_conditions_are_compared_by_their_names() {
    let wanted = webhook_conditions(&set(vec![policy("one", &json!({"labels": {"a": "1"}}))]));
    let registered = |conditions: &[(&str, &str)]| {
        let mut configuration = configuration();
        configuration["webhooks"][0]["matchConditions"] = conditions
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
        differing_condition(&configuration, &wanted)
    };
    let same = [(ASKS, wanted[0].expression.as_str()), (MATCHES, wanted[1].expression.as_str())];
    assert_eq!(registered(&same), None);
    assert_eq!(registered(&[same[0], ("of-the-operator", "true")]), None);
    assert_eq!(registered(&[(ASKS, "true"), same[1]]), Some(ASKS));
    assert_eq!(registered(&[same[0], (MATCHES, "true")]), Some(MATCHES));
}

#[test]
fn a_change_holds_for_the_version_that_was_read_only() {
    let patch = ca_bundle_changes(&configuration(), "PEM");
    let version = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"});
    assert_eq!(serde_json::to_value(&patch).unwrap()[0], version);
}

#[test]
fn objects_of_any_shape_are_no_reason_to_panic() {
    for object in [json!(null), json!({}), json!({"webhooks": 3}), json!({"webhooks": [null, 3]}), json!([])]
    {
        assert_eq!(service(&object), None);
        assert_eq!(ca_bundle(&object), None);
        assert_eq!(differing_condition(&object, &[]), None);
        let _ = ca_bundle_changes(&object, "PEM");
    }
}
