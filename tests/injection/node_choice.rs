//! What a rule says about nodes next to what the pod says: the engine adds nothing by which the pod fits no node.

use fabric_engine::policy_set::PolicySet;
use fabric_policy::PodContext;
use serde_json::{Value, json};

use crate::helpers::{INSTANCE_TYPE, Served, TRIGGER, policy, serve_as, set, with, worker};

const OLD_INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";

fn rules(rules: &str) -> PolicySet {
    set(vec![policy("lab", &format!("anyAnnotation: {{{TRIGGER}: 'true'}}"), &format!("  rules:\n{rules}"))])
}

/// A rule that selects nodes by a label.
fn selecting(key: &str, value: &str) -> PolicySet {
    rules(&format!("    - {{name: fabric, pod: {{spec: {{nodeSelector: {{{key}: {value}}}}}}}}}\n"))
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

/// The pod with these fields as it is served, and the warnings. Serving it again changes nothing.
#[track_caller]
fn served(policies: &PolicySet, spec: &Value) -> (Value, Vec<(String, String)>) {
    let mut pod = worker(8);
    pod["spec"] = with(pod["spec"].take(), spec);
    let Served { pod, warnings } = Served::of(serve_as(policies, pod, &PodContext::default()));
    let warnings = warnings.iter().map(|one| (one.code().to_owned(), one.to_string())).collect();
    (pod["spec"].clone(), warnings)
}

/// The sentence about a label that is left out.
fn left_out(setting: &str, against: &str) -> Vec<(String, String)> {
    let sentence = format!(
        "`{setting}` of rule `fabric` is left out, because the pod has `{against}`: the nodes that the pod fits may lack \
         the fabric"
    );
    vec![("other_nodes".to_owned(), sentence)]
}

#[test]
fn a_label_that_the_affinity_excludes_is_left_out() {
    let fabric = selecting("pool", "'7'");
    let one = |operator: &str, values: Value| json!({"key": "pool", "operator": operator, "values": values});
    let term = |requirements: Value| json!({"matchExpressions": requirements});
    let (zone, other) =
        (json!({"key": "zone", "operator": "In", "values": ["a"]}), one("In", json!(["8", "9"])));
    let of = |requirement: Value| json!([term(json!([requirement]))]);
    let exists = json!({"key": "pool", "operator": "DoesNotExist"});
    for (terms, against) in [
        (of(json!(other)), Some("pool In 8, 9")),
        (of(one("In", json!(["7", "8"]))), None),
        (of(one("NotIn", json!(["7"]))), Some("pool NotIn 7")),
        (of(one("NotIn", json!(["8"]))), None),
        (of(json!({"key": "pool", "operator": "Exists"})), None),
        (of(exists), Some("pool DoesNotExist")),
        (of(one("Gt", json!(["7"]))), Some("pool Gt 7")),
        (of(one("Gt", json!(["6"]))), None),
        (of(one("Lt", json!(["7"]))), Some("pool Lt 7")),
        (of(one("Lt", json!(["8"]))), None),
        // All requirements of a term have to hold, and one of the terms.
        (json!([term(json!([zone, other]))]), Some("pool In 8, 9")),
        (json!([term(json!([other])), term(json!([zone]))]), None),
        (json!([term(json!([other])), term(json!([zone, one("Lt", json!(["3"]))]))]), Some("pool In 8, 9")),
        // A term without requirements matches no node, and one with a name may match a node of the fabric.
        (json!([{}, term(json!([other]))]), Some("pool In 8, 9")),
        (
            json!([term(json!([other])), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]),
            None,
        ),
        // The pod has no node before.
        (json!([{}]), None),
    ] {
        let affinity = required(&terms);
        let (spec, warnings) = served(&fabric, &json!({"affinity": affinity}));
        let selector = against.map_or(json!({"pool": "7"}), |_| Value::Null);
        let said = against.map(|against| left_out("pool: 7", &format!("nodeAffinity: {against}")));
        assert_eq!((&spec["nodeSelector"], warnings), (&selector, said.unwrap_or_default()), "{terms}");
        assert_eq!(spec["affinity"], affinity);
    }
}

#[test]
fn other_choices_of_a_pod_exclude_a_label_too() {
    let fabric = selecting("pool", "fabric");
    // The preference of a pod excludes no node.
    let preferred = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
        "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["other"]}]}}]}});
    assert_eq!(served(&fabric, &json!({"affinity": preferred})).1, []);
    // The kubelet refuses a pod whose node lacks the label.
    let (spec, warnings) = served(&fabric, &json!({"nodeName": "node-1"}));
    assert_eq!(
        (&spec["nodeSelector"], warnings),
        (&Value::Null, left_out("pool: fabric", "nodeName: node-1"))
    );
    // One of the terms is left for nodes of the zone that the pod selects.
    let in_zone = |zone: &str, pool: &str| {
        json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]},
            {"key": "pool", "operator": "In", "values": [pool]}]})
    };
    let terms = required(&json!([in_zone("b", "fabric"), in_zone("a", "other")]));
    let (spec, warnings) = served(&fabric, &json!({"nodeSelector": {"zone": "a"}, "affinity": terms}));
    assert_eq!(
        (&spec["nodeSelector"], warnings),
        (&json!({"zone": "a"}), left_out("pool: fabric", "nodeAffinity: pool In other"))
    );
    // Two labels of one fact.
    let machine = selecting(INSTANCE_TYPE, "fabric-8");
    let setting = format!("{INSTANCE_TYPE}: fabric-8");
    let by_old_name = required(&json!([{"matchExpressions": [
        {"key": OLD_INSTANCE_TYPE, "operator": "NotIn", "values": ["fabric-8"]}]}]));
    let against = format!("nodeAffinity: {OLD_INSTANCE_TYPE} NotIn fabric-8");
    assert_eq!(served(&machine, &json!({"affinity": by_old_name})).1, left_out(&setting, &against));
    let (spec, warnings) = served(&machine, &json!({"nodeSelector": {OLD_INSTANCE_TYPE: "small"}}));
    assert_eq!(warnings, left_out(&setting, &format!("{OLD_INSTANCE_TYPE}: small")));
    assert_eq!(spec["nodeSelector"], json!({OLD_INSTANCE_TYPE: "small"}));
    assert_eq!(served(&machine, &json!({"nodeSelector": {OLD_INSTANCE_TYPE: "fabric-8"}})).1, []);
}

#[test]
fn a_label_that_replaces_another_has_to_meet_the_affinity_too() {
    let rule = |conflict: &str| {
        rules(&format!(
            "    - {{name: fabric, onConflict: {conflict}, pod: {{spec: {{nodeSelector: {{pool: fabric}}}}}}}}\n"
        ))
    };
    let own = json!({"nodeSelector": {"pool": "other"}, "affinity":
        required(&json!([{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["other"]}]}]))});
    let (spec, warnings) = served(&rule("replace"), &own);
    assert_eq!(warnings, left_out("pool: fabric", "nodeAffinity: pool In other"));
    assert_eq!(spec["nodeSelector"], json!({"pool": "other"}));
    let (spec, warnings) = served(&rule("keep"), &own);
    assert_eq!((warnings[0].0.as_str(), warnings.len()), ("kept_field", 1));
    assert_eq!(spec["nodeSelector"], json!({"pool": "other"}));
}

#[test]
fn an_affinity_that_the_node_selector_excludes_is_left_out() {
    let terms = json!([{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["fabric"]}]}]);
    let fabric =
        rules(&format!("    - {{name: fabric, pod: {{spec: {{affinity: {}}}}}}}\n", required(&terms)));
    let (spec, warnings) = served(&fabric, &json!({"nodeSelector": {"pool": "fabric"}}));
    assert_eq!((&spec["affinity"], warnings), (&required(&terms), vec![]));
    for (own, against) in [
        (json!({"nodeSelector": {"pool": "other"}}), "pool: other"),
        (json!({"nodeName": "a"}), "nodeName: a"),
    ] {
        let (spec, warnings) = served(&fabric, &own);
        assert_eq!(spec["affinity"], Value::Null);
        assert_eq!(warnings[0].0, "other_nodes");
        assert!(warnings[0].1.contains(&format!("because the pod has `{against}`")), "{warnings:?}");
    }
}
