//! The schema of files of cases against their parser.

use std::fs;

use fabric_tools::policy_test::CaseFile;
use serde_json::{Value, json};

use super::files::blocks;
use super::{errors, files_below, root, validator, value};
use crate::helpers::cases_schema;

/// A file of cases with every map of the format in it.
fn sample() -> Value {
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1",
        "kind": "PolicyTest",
        "policy": ["aws-efa"],
        "pod": {"spec": {"containers": [{"name": "a"}]}},
        "cases": [
            {
                "name": "every key of a pod",
                "policy": "aws-efa",
                "values": {"aws": {"enabled": true}},
                "parameters": {"ipcLock": false},
                "context": {"namespace": "team", "owner": "Job.batch", "nodes": [{
                    "labels": {"pool": "a"}, "capacity": {"example.com/gpu": 8}, "providerID": "lab://a",
                    "taints": [{"key": "a", "effect": "NoSchedule"}],
                }]},
                "pod": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"x/y": 1}}}]}},
                "with": {"spec": {"nodeSelector": null}},
                "expect": {
                    "outcome": "mutated", "reason": "mutated", "warnings": [],
                    "has": {"metadata": {"annotations": {"a": "b"}}}, "lacks": ["spec.nodeSelector"],
                    "object": {}, "patch": [{"op": "add"}], "template": "/spec/template", "document": 1,
                },
            },
            {"name": "a workload", "workload": "job.yaml", "expect": [{"outcome": "unchanged"}]},
        ],
    })
}

fn read(file: &Value) -> Result<(), String> {
    CaseFile::read("cases.yaml", &file.to_string()).map(|_| ()).map_err(|error| error.to_string())
}

/// Where the schema has the keys of the maps of the format.
const MAPS: [&str; 5] = [
    "",
    "/properties/cases/items",
    "/properties/cases/items/properties/context",
    "/properties/cases/items/properties/context/properties/nodes/items",
    "/properties/cases/items/properties/expect/anyOf/0",
];

#[test]
fn the_sample_is_read_and_valid() {
    read(&sample()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(errors(&validator(&cases_schema()), &sample()), "");
}

#[test]
fn every_key_is_documented() {
    let schema = cases_schema();
    let documented = fs::read_to_string(root().join("docs/testing-policies.md")).unwrap();
    for part in MAPS {
        for key in schema.pointer(part).unwrap()["properties"].as_object().unwrap().keys() {
            let known = documented.contains(&format!("`{key}`")) || documented.contains(&format!("{key}:"));
            assert!(known, "{part} {key}");
        }
    }
}

#[test]
fn what_the_schema_refuses_the_parser_refuses() {
    let wrong = [
        ("/kind", json!("FabricPolicy")),
        ("/policy", json!(1)),
        ("/pod/spec/container", json!([])),
        ("/cases", json!([])),
        ("/cases/0/name", Value::Null),
        ("/cases/0/workload", json!("job.yaml")),
        ("/cases/0/with/spec", json!({"containers": [{"name": "a", "resource": {}}]})),
        ("/cases/0/parameters", json!(["a"])),
        ("/cases/0/context", json!({"namespaces": "team"})),
        ("/cases/0/expect", json!({})),
        ("/cases/0/expect", json!([])),
        ("/cases/0/expect", json!({"document": 1})),
        ("/cases/0/expect/outcome", json!("injected")),
        ("/cases/0/expect/warnings", json!("kept_env")),
        ("/cases/0/expect/has", json!({})),
        ("/cases/0/expect/has", json!({"spec": {"hostnetwork": true}})),
        ("/cases/0/expect/lacks", json!([])),
        ("/cases/0/expect/document", json!(0)),
        ("/cases/1/expect", Value::Null),
    ];
    let validator = validator(&cases_schema());
    for (place, value) in wrong {
        let mut file = sample();
        let (map, key) = place.rsplit_once('/').unwrap();
        let shown = format!("{place}: {value}");
        file.pointer_mut(map).unwrap()[key] = value;
        assert!(read(&file).is_err(), "the parser accepts {shown}");
        assert!(!validator.is_valid(&file), "the schema accepts {shown}");
    }
}

#[test]
fn every_file_of_cases_is_valid() {
    let validator = validator(&cases_schema());
    let mut checked = 0;
    for path in ["policies", "tests"].into_iter().flat_map(|folder| files_below(folder, ".yaml")) {
        let text = fs::read_to_string(&path).unwrap();
        let is_template = text.contains("{name}");
        if text.lines().any(|line| line == "kind: PolicyTest") && !is_template {
            assert_eq!(errors(&validator, &value(&text)), "", "{}", path.display());
            checked += 1;
        }
    }
    for block in blocks(&fs::read_to_string(root().join("docs/testing-policies.md")).unwrap()) {
        if block.lines().any(|line| line == "kind: PolicyTest") {
            assert_eq!(errors(&validator, &value(&block)), "", "{block}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
}
