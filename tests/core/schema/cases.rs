//! The schema of files of cases against their parser.

use std::collections::BTreeSet;
use std::fs;

use fabric_injector::core::policy_test::CaseFile;
use serde_json::{Value, json};

use super::files::blocks;
use super::keys::{UNKNOWN, listed};
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

/// The maps of the format: where the schema has their keys, and where the sample has one.
const MAPS: [(&str, &str); 5] = [
    ("", ""),
    ("/$defs/case", "/cases/0"),
    ("/$defs/case/properties/context", "/cases/0/context"),
    ("/$defs/case/properties/context/properties/nodes/items", "/cases/0/context/nodes/0"),
    ("/$defs/expectation", "/cases/0/expect"),
];

#[test]
fn the_sample_is_read_and_valid() {
    read(&sample()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(errors(&validator(&cases_schema()), &sample()), "");
}

#[test]
fn every_map_has_the_keys_that_the_parser_knows() {
    let schema = cases_schema();
    let documented = fs::read_to_string(root().join("docs/testing-policies.md")).unwrap();
    for (part, place) in MAPS {
        let mut file = sample();
        file.pointer_mut(place).unwrap()[UNKNOWN] = "x".into();
        let properties = schema.pointer(part).unwrap()["properties"].as_object().unwrap();
        let keys: BTreeSet<String> = properties.keys().cloned().collect();
        assert_eq!(keys, listed(&read(&file).expect_err(place)), "{part}");
        for key in keys {
            assert!(
                documented.contains(&format!("`{key}`")) || documented.contains(&format!("{key}:")),
                "{key}"
            );
        }
    }
    let mut file = sample();
    file["cases"][0]["expect"]["outcome"] = UNKNOWN.into();
    let outcomes = schema["$defs"]["expectation"]["properties"]["outcome"]["enum"].as_array().unwrap();
    let outcomes: BTreeSet<String> =
        outcomes.iter().map(|outcome| outcome.as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes, listed(&read(&file).expect_err("an unknown outcome")));
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
