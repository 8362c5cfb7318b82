//! Counterexamples of rules that meet on one value: with the pod, with each other, and with what they did before.

use serde_json::json;

use super::cases::{holds, main_container, one, refused};

/// A mount of the pod's own volume that is there as the policy wants it is no conflict.
#[test]
fn a_mount_that_is_there_is_no_conflict() {
    let mounts = json!([{"name": "scratch", "mountPath": "/opt/lib"}]);
    for on_conflict in ["replace", "keep"] {
        let rules = json!([{"name": "r", "onConflict": on_conflict, "container": {"volumeMounts": mounts}}]);
        let mut pod = one(&json!({"volumeMounts": mounts}));
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        let injection = holds(&rules, &pod);
        assert_eq!(main_container(&injection)["volumeMounts"], mounts, "{on_conflict}");
        assert!(injection.warnings.is_empty(), "{:?}", injection.warnings);
    }
}

/// Two values for one field of one container do not take turns.
#[test]
fn a_rule_does_not_replace_what_it_set_itself() {
    let memory = |amount: &str| json!({"limits": {"memory": amount}});
    let rules = json!([{
        "name": "r", "onConflict": "replace", "container": {"resources": memory("2Gi")},
        "pod": {"spec": {"containers": [{"name": "main", "resources": memory("8Gi")}]}},
    }]);
    holds(&rules, &one(&json!({})));
    let env = |value: &str| json!({"env": [{"name": "A", "value": value}]});
    let rules = json!([
        {"name": "one", "onConflict": "replace", "container": env("1")},
        {"name": "two", "onConflict": "replace", "container": env("2")},
    ]);
    holds(&rules, &one(&json!({})));
}

/// An edit of a list in a variable whose value comes from elsewhere.
#[test]
fn an_edit_next_to_a_source_happens_once() {
    let edit = |text: &str| json!({"env": [{"name": "LD_LIBRARY_PATH", "value": {"$append": text}}]});
    let rules = json!([
        {"name": "one", "container": edit("/a")},
        {"name": "two", "onConflict": "replace", "container": edit("/b")},
    ]);
    let own = json!({"env": [{"name": "LD_LIBRARY_PATH", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]});
    holds(&rules, &one(&own));
}

/// What one rule edits is another value to the rule that sets it, which may keep it and not insist on its own.
#[test]
fn a_rule_that_insists_on_a_value_and_one_that_edits_it() {
    for on_conflict in ["replace", "keep"] {
        for order in [[0, 1], [1, 0]] {
            let edit = json!({"$append": "/usr/lib"});
            let both = [
                json!({"name": "sets", "onConflict": on_conflict, "when": "${podNamespace == 'default'}",
                    "container": {"env": [{"name": "LD_LIBRARY_PATH", "value": "/own"}]}}),
                json!({"name": "edits", "container": {"env": [{"name": "LD_LIBRARY_PATH", "value": edit}]}}),
            ];
            let rules = json!([both[order[0]], both[order[1]]]);
            if on_conflict == "keep" {
                holds(&rules, &one(&json!({})));
                holds(&rules, &one(&json!({"env": [{"name": "LD_LIBRARY_PATH", "value": "/mine"}]})));
            } else {
                refused(&rules, "edits `LD_LIBRARY_PATH`, for which rule `sets` allows only one value");
            }
        }
    }
}

/// Two rules that replace the amount of one resource, one of them by a computed key, come to rest.
#[test]
fn two_amounts_of_one_resource_come_to_rest() {
    let amount = |key: &str, amount: i64| json!({"resources": {"limits": {key: amount}}});
    let rules = json!([
        {"name": "one", "onConflict": "replace", "container": amount("rdma/hca", 8)},
        {"name": "two", "onConflict": "replace", "container": amount("${'rdma/hca'}", 4)},
    ]);
    holds(&rules, &one(&json!({})));
}

/// A source of a value is the same with the API server's defaults.
#[test]
fn two_sources_of_one_variable_come_to_rest() {
    let source = json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    let rules = json!([
        {"name": "r", "onConflict": "replace", "container": {"env": [{"name": "A", "value": "1"}]}},
        {"name": "s", "onConflict": "replace", "container": {"env": source}},
    ]);
    holds(&rules, &one(&json!({})));
}

/// The API server takes an empty text for none, and puts its default in.
#[test]
fn an_empty_text_is_no_value() {
    for on_conflict in ["keep", "replace"] {
        let empty = "${pod.metadata.?labels[?'none'].orValue('')}";
        let rules =
            json!([{"name": "r", "onConflict": on_conflict, "pod": {"spec": {"schedulerName": empty}}}]);
        holds(&rules, &one(&json!({})));
    }
}
