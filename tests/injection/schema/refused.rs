//! What the schema refuses: every policy here is refused by the parser, too.

use serde_json::{Value, json};

use super::keys::{MAPS, load, policy};
use super::{errors, validator};
use crate::helpers::policy_schema;

/// The sample with the value at a JSON Pointer replaced.
fn with(place: &str, value: Value) -> Value {
    let mut policy = policy();
    if let Some(known) = policy.pointer_mut(place) {
        *known = value;
        return policy;
    }
    let (map, key) = place.rsplit_once('/').unwrap();
    let map = policy.pointer_mut(map).unwrap_or_else(|| panic!("the policy has no {place}"));
    map[key.replace("~1", "/")] = value;
    policy
}

fn without(place: &str, key: &str) -> Value {
    let mut policy = policy();
    policy.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(key);
    policy
}

#[test]
fn unknown_keys() {
    let validator = validator(&policy_schema());
    for (_, place) in MAPS {
        let policy = with(&format!("{place}/descriptions"), "x".into());
        assert!(load(&policy).is_err() && !validator.is_valid(&policy), "{place}");
    }
}

#[test]
fn missing_keys() {
    let schema = policy_schema();
    let validator = validator(&schema);
    let mut checked = 0;
    for (part, place) in MAPS {
        let required = schema.pointer(part).unwrap()["required"].as_array().into_iter().flatten();
        for key in required {
            let policy = without(place, key.as_str().unwrap());
            assert!(load(&policy).is_err(), "the parser does not need {key} of {place}");
            assert!(!validator.is_valid(&policy), "{key} of {place}");
            checked += 1;
        }
    }
    assert!(checked >= 17, "{checked}");
}

const CONTAINER: &str = "/spec/rules/0/container";
const ENV: &str = "/spec/rules/0/env";
const POD: &str = "/spec/rules/0/pod";

/// Values that are wrong by themselves outside of overlays, and their place.
fn wrong_values() -> Vec<(String, Value)> {
    let at = |place: &str, value: Value| (place.to_owned(), value);
    vec![
        at("/kind", "Policy".into()),
        at("/apiVersion", "v1".into()),
        at("/metadata/name", "Not_A_Label".into()),
        at("/spec/provider", json!(1)),
        at("/spec/gpus/resources", json!("example.com/gpu")),
        at("/spec/gpus/claims", json!({"a": "8x"})),
        at("/spec/gpus/claims", json!(["a"])),
        at("/spec/gpus/claims", json!({"a": -1})),
        at("/spec/gpus/claims", json!({"a=1": 1})),
        at("/spec/devices/add/0", json!({"name": "nothing"})),
        at("/spec/devices/add/0/resources", json!(["example.com/nic"])),
        at("/spec/devices/add/1/claims", json!({})),
        at("/spec/devices/resources", json!("rdma/ib")),
        at("/spec/match", json!({})),
        at("/spec/match", json!({"when": "totalGpus > 0"})),
        at("/spec/match/anyAnnotation", json!({"a": "*"})),
        at("/spec/match/anyAnnotation", json!({"a": true})),
        at("/spec/match/ownerKinds", json!(["batch/v1 Job"])),
        at("/spec/match/when", "${totalGpus > 0}".into()),
        at("/spec/variables/table", json!({"byNode": {"pool": {"a": 1}}})),
        at("/spec/parameters/nics/type", "int".into()),
        at("/spec/parameters/nics/default", "2".into()),
        at("/spec/parameters/nics/default", json!(0.5)),
        at("/spec/parameters/nics/enum", json!(["a"])),
        at("/spec/parameters/nics/minItems", json!(1)),
        at("/spec/parameters/nics/fromNodes", json!({"ratio": "example.com/nic"})),
        at("/spec/parameters/nics/fromNetworks", json!("example.com/nic")),
        at("/spec/parameters/networks/fromNodes", json!("example.com/nic")),
        at("/spec/parameters/networks/fromNetworks", json!("rail-0")),
        at("/spec/machines", json!({"pool": 4})),
        at("/spec/machines", json!({"default": {"a": {"nics": 4}}})),
        at("/spec/machines/pool", json!({})),
        at("/spec/machines/pool", json!({"a": 4})),
        at("/spec/machines/pool", json!({"a": {}})),
        at("/spec/machines/pool", json!({"a": {"nics": null}})),
        at("/spec/machines/pool", json!({"*": {"nics": 4}})),
        at("/spec/machines/pool", json!({"a, *": {"nics": 4}})),
        at("/spec/machines/pool", json!({"a,,b": {"nics": 4}})),
        at("/spec/machines/pool", json!({"*-*": {"nics": 4}})),
        at("/spec/parameters/links/default", json!("eth1")),
        at("/spec/parameters/links/maximum", json!(-1)),
        at("/spec/parameters/mode/minimum", json!(1)),
        at("/spec/parameters", json!({"enabled": {"type": "string", "description": "x"}})),
        at("/spec/parameters", json!({"gpus": {"type": "string", "description": "x"}})),
        at("/spec/variables", json!({"a-b": "x"})),
        at("/spec/variables", json!({"container": "x"})),
        at("/spec/variables", json!(["x"])),
        at("/spec/checks/0/name", "Own-Value".into()),
        at("/spec/checks/0/when", json!(1)),
        at("/spec/checks/0/action", "deny".into()),
        at("/spec/files", json!([])),
        at("/spec/files/~1etc~1nccl.conf/variables", json!(["A B"])),
        at("/spec/files/etc~1nccl.conf", json!({"variables": ["A"]})),
        at("/spec/files/~1etc~1nccl.conf/maxValue", json!(100)),
        at("/spec/rules", json!([])),
        at("/spec/rules/0/name", "Two Words".into()),
        at("/spec/rules/0/when", " ${true}".into()),
        at("/spec/rules/0/onConflict", "Replace".into()),
        at("/spec/rules/0", json!({"name": "nothing"})),
    ]
}

/// Values that are wrong by themselves in overlays, and their place.
fn wrong_overlays() -> Vec<(String, Value)> {
    let at = |place: &str, value: Value| (place.to_owned(), value);
    let container = |field: &str, value: Value| (format!("{CONTAINER}/{field}"), value);
    let spec = |value: Value| (format!("{POD}/spec"), value);
    vec![
        at(CONTAINER, "x".into()),
        at(POD, json!([])),
        container("name", "main".into()),
        container("resources", " ${x} ".into()),
        container("envs", json!([])),
        container("env", json!([{"name": "A", "value": "b"}])),
        at(ENV, json!([{"name": "A", "value": "b"}])),
        at(ENV, json!({})),
        at(ENV, "${ {'A': 'b'} }".into()),
        at(ENV, json!({"A": true})),
        at(ENV, json!({"A": 1.5})),
        at(ENV, json!({"A": null})),
        at(ENV, json!({"A": ""})),
        at(ENV, json!({"A": {"value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}})),
        at(ENV, json!({"A": {"valueFrom": {}}})),
        at(ENV, json!({"A": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodename"}}}})),
        at(ENV, json!({"A": {"$append": "x", "$prepend": "y"}})),
        at(ENV, json!({"A": {"$append": "x"}})),
        at(ENV, json!({"A": {"$prepend": "x"}})),
        at(ENV, json!({"$replace": [{"name": "A"}]})),
        container("args", json!({"$replace": ["a"]})),
        container("args", json!({"$append": ["a"]})),
        container("image", json!(null)),
        container("imagePullPolicy", "always".into()),
        container("ports", json!([{"containerPort": 0}])),
        container("ports", json!([{"containerPort": 80, "hostPort": 80}])),
        container("resources", json!({"limits": {"gpu": 1}})),
        container("resources", json!({"limits": {"memory": "4 GB"}})),
        container("securityContext", json!({"privileged": "yes"})),
        container("securityContext", json!({"capabilities": {"add": "IPC_LOCK"}})),
        container("securityContext", json!({"capabilities": {"add": []}})),
        container("volumeMounts", json!([{"name": "shm"}])),
        container("livenessProbe", json!({"httpGet": {}})),
        at(&format!("{POD}/status"), json!({})),
        at(&format!("{POD}/metadata/name"), "x".into()),
        at(&format!("{POD}/metadata/annotations"), json!({"a b": "x"})),
        at(&format!("{POD}/metadata/annotations"), json!({"a[b]": "a"})),
        at(&format!("{POD}/metadata/annotations"), json!({"a": {"$append": [{"name": "a"}]}})),
        at(&format!("{POD}/metadata/annotations"), json!({"k8s.v1.cni.cncf.io/networks": ["A"]})),
        spec(json!({"hostNetwork": "true"})),
        spec(json!({"serviceAccountName": "x"})),
        spec(json!({"dnsPolicy": "None"})),
        spec(json!({"tolerations": [{"operator": "exists"}]})),
        spec(json!({"tolerations": {"$replace": []}})),
        spec(json!({"volumes": "${[]}"})),
        spec(json!({"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "many"}}]})),
        spec(json!({"volumes": [{"emptyDir": {}}]})),
        spec(json!({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]})),
        spec(json!({"volumes": [{"name": "a", "hostPath": {}}]})),
        spec(json!({"containers": [{"image": "x"}]})),
        spec(json!({"resourceClaims": [{"name": "a"}]})),
        spec(json!("${{}}")),
    ]
}

#[test]
fn wrong_values_are_refused() {
    let validator = validator(&policy_schema());
    for (place, value) in wrong_values().into_iter().chain(wrong_overlays()) {
        let shown = format!("{place}: {value}");
        let policy = with(&place, value);
        assert!(load(&policy).is_err(), "the parser accepts {shown}");
        assert!(!validator.is_valid(&policy), "the schema accepts {shown}");
    }
}

/// Unusual values that are right.
#[test]
fn right_values_are_accepted() {
    let validator = validator(&policy_schema());
    let at = |place: &str, value: Value| (place.to_owned(), value);
    let container = |field: &str, value: Value| (format!("{CONTAINER}/{field}"), value);
    let right = [
        at("/spec/gpus/claims", json!({"${links}": "${2}"})),
        at("/spec/gpus/claims", json!({"a": 1, "class:${links}": 0})),
        at("/spec/match/when", "\n  totalGpus > 0\n".into()),
        at("/spec/variables/port", json!({"a": {"b": [null, 0.5, {"c": "${mode}"}]}})),
        at("/spec/rules/0/when", json!(true)),
        at("/spec/rules/0/containers", "'$' in ['$']".into()),
        at(ENV, json!({"A_${mode}": "${mode}/x", "B": -1})),
        container("args", "${links}".into()),
        container("image", "registry/${mode}:1".into()),
        container("imagePullPolicy", "${mode == 'a' ? 'Always' : 'Never'}".into()),
        container("resources", json!({"limits": {"example.com/${mode}": "${nics}", "memory": "1.5Gi"}})),
        container("resources", "${ {'limits': {'example.com/nic': 1}} }".into()),
        container("securityContext", json!({"privileged": "${mode == 'a'}", "runAsUser": "${nics}"})),
        container("securityContext", json!({"capabilities": {"add": "${links}"}})),
        container("ports", json!([{"containerPort": "${nics + 1}", "name": "p${nics}"}])),
        at(&format!("{POD}/metadata/annotations"), "${ {'a': 'b'} }".into()),
        at(&format!("{POD}/metadata/annotations"), json!({"example.com/${mode}": "$${literal}"})),
        at(&format!("{POD}/metadata/annotations"), json!({"a[b]": "${[]}"})),
        at(&format!("{POD}/spec"), json!({"volumes": [{"name": "scratch"}]})),
        at(&format!("{POD}/spec"), json!({"initContainers": [{"name": "${mode}", "image": "x"}]})),
    ];
    for (place, value) in right {
        let shown = format!("{place}: {value}");
        let policy = with(&place, value);
        load(&policy).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(errors(&validator, &policy), "", "{shown}");
    }
}
