//! The keys of the schema are those that the parser knows, in both directions: an unknown key is an error of the
//! parser, which lists those that it knows.

use std::collections::BTreeSet;
use std::fs;

use fabric_injector::core::policy::{Definition, PolicyFile, definitions};
use serde_json::{Value, json};

use super::{errors, root, validator};
use crate::helpers::policy_schema;

/// A key or value that is like none of the language.
pub(crate) const UNKNOWN: &str = "zzzzzzzzzzzzzzzz";

/// A policy with each map of the language in it.
pub(crate) fn policy() -> Value {
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1",
        "kind": "FabricPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "provider": "lab",
            "description": "Every key of the language",
            "gpus": {"resources": ["example.com/gpu"], "claims": {"names": ["*-gpus"], "gpus": 8}},
            "devices": {
                "own": {"resources": ["example.com/nic"], "networks": ["rail-0"], "claims": ["*-nics"]},
                "add": [{
                    "name": "nics", "when": "${totalGpus > 0}", "resources": {"example.com/nic": "${nics}", "${['example.com/a']}": 1},
                    "networks": "rail-0", "claims": {"nic": "nics"},
                }],
            },
            "match": {
                "anyAnnotation": {"example.com/fabric": "true"},
                "exceptAnnotation": {"example.com/no-fabric": "*"},
                "labels": {"role": "worker"},
                "namespaces": ["team"],
                "ownerKinds": ["Job", "Job.batch"],
                "nodes": {"providerIDs": ["lab://*"], "labels": {"example.com/lab": "*"}},
                "when": "${node[?'pool'].orValue('') != 'slow'}",
            },
            "parameters": {
                "nics": {
                    "type": "integer", "description": "NICs", "default": 2, "minimum": 0, "maximum": 8,
                    "fromNodes": "example.com/nic",
                },
                "mode": {"type": "string", "description": "Mode", "enum": ["a", "b"], "default": "a",
                    "fromNodes": ["example.com/a", "example.com/b*"],
                },
                "links": {
                    "type": "stringList", "description": "Links", "minimum": 1, "maximum": 2, "default": ["eth1"],
                    "fromNodes": "example.com/*",
                },
                "linksPerGPU": {
                    "type": "number", "description": "Links", "fromNodes": ["example.com/*=1"],
                },
            },
            "variables": {
                "lists": {"a": ["x", 1, true, null]}, "port": "${mode}0",
                "table": null,
            },
            "machines": {
                "pool": {
                    "fast, fast-*": {"nics": 4, "table": ["x", 1]}, "mixed": {"nics": {"1": 1, "2-8": 2}},
                    "*-a": {"table": {"a": 1}},
                },
            },
            "warnings": [{"code": "own_value", "when": "${value != ''}", "env": "A", "message": "`A` is ${value}", "action": "warn"}],
            "settings": [
                {
                    "name": "file", "variables": ["NCCL_*"], "when": "${totalGpus > 0}", "containers": "${gpus > 0}",
                    "file": {"path": "/etc/nccl.conf", "maxValue": 100, "exceptVariables": ["NCCL_CONF_FILE"]},
                },
            ],
            "rules": [{
                "name": "all", "when": "${totalGpus > 0}", "containers": "${gpus > 0}",
                "onConflict": "keep",
                "container": {
                    "env": [
                        {"name": "A", "value": "b"},
                        {"name": "PATH", "value": {"$append": "/opt/bin", "$separator": ":"}},
                    ],
                    "args": {"$replace": ["a"]},
                },
                "pod": {
                    "metadata": {"annotations": {
                        "example.com/plain": "${mode}",
                        "example.com/list": {"$prepend": "a"},
                        "k8s.v1.cni.cncf.io/networks": {"$append": ["rail-0"]},
                        "example.com/entries": {"$append": [{"name": "a"}], "$key": "name"},
                    }},
                },
            }],
        },
    })
}

pub(crate) fn load(policy: &Value) -> Result<Definition, String> {
    Definition::read("policy.yaml", &policy.to_string()).map_err(|error| error.to_string())
}

/// The names that the hint of an error lists.
pub(crate) fn listed(error: &str) -> BTreeSet<String> {
    let (_, hint) = error.split_once("hint: known here: ").unwrap_or_else(|| panic!("no list in\n{error}"));
    assert!(!hint.contains('…'), "{hint}");
    hint.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names that the parser knows at a place of the policy.
fn known(policy: &Value, place: &str) -> BTreeSet<String> {
    let mut policy = policy.clone();
    let map = policy.pointer_mut(place).unwrap_or_else(|| panic!("the policy has no {place}"));
    map[UNKNOWN] = "x".into();
    listed(&load(&policy).expect_err(place))
}

/// The keys of the schema at a pointer.
fn properties(pointer: &str) -> BTreeSet<String> {
    let schema = policy_schema();
    let part = schema.pointer(pointer).unwrap_or_else(|| panic!("the schema has no {pointer}"));
    part["properties"].as_object().unwrap().keys().cloned().collect()
}

/// The maps of the language: where the schema has their keys, and where the policy has one.
pub(crate) const MAPS: [(&str, &str); 16] = [
    ("", ""),
    ("/properties/metadata", "/metadata"),
    ("/$defs/spec", "/spec"),
    ("/$defs/spec/properties/gpus", "/spec/gpus"),
    ("/$defs/spec/properties/gpus/properties/claims", "/spec/gpus/claims"),
    ("/$defs/spec/properties/devices", "/spec/devices"),
    ("/$defs/spec/properties/devices/properties/own", "/spec/devices/own"),
    ("/$defs/device", "/spec/devices/add/0"),
    ("/$defs/match", "/spec/match"),
    ("/$defs/match/properties/nodes", "/spec/match/nodes"),
    ("/$defs/warning", "/spec/warnings/0"),
    ("/$defs/settings", "/spec/settings/0"),
    ("/$defs/settings/properties/file", "/spec/settings/0/file"),
    ("/$defs/rule", "/spec/rules/0"),
    ("/$defs/parameter", "/spec/parameters/nics"),
    ("/$defs/parameter", "/spec/parameters/mode"),
];

#[test]
fn the_sample_loads_and_is_valid() {
    load(&policy()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(errors(&validator(&policy_schema()), &policy()), "");
}

#[test]
fn every_map_has_the_keys_that_the_parser_knows() {
    for (schema, place) in MAPS.iter().filter(|(schema, _)| *schema != "/$defs/parameter") {
        let mut known = known(&policy(), place);
        if *place == "/spec" {
            assert!(known.remove("extends"), "a key of extensions");
        }
        assert_eq!(properties(schema), known, "{schema}");
    }
}

/// The sample uses every key, so that what the parser does with it is seen.
#[test]
fn the_sample_has_every_key() {
    for (schema, _) in MAPS {
        for key in properties(schema) {
            let used = MAPS.iter().filter(|(other, _)| *other == schema);
            let has = used.clone().any(|(_, place)| policy().pointer(place).unwrap().get(&key).is_some());
            assert!(has, "{schema} {key}");
        }
    }
}

#[test]
fn a_parameter_has_the_keys_that_the_parser_knows_for_its_type() {
    let schema = policy_schema();
    let all = properties("/$defs/parameter");
    let mut types = BTreeSet::new();
    for of_type in schema["$defs"]["parameter"]["allOf"].as_array().unwrap() {
        let kind = &of_type["if"]["properties"]["type"]["const"];
        let mut sample = policy();
        sample["spec"]["parameters"]["links"] = json!({"type": kind, "description": "x"});
        // For the others, the parser says why it does not go with them.
        let allowed =
            |key: &&String| of_type["then"]["properties"][key.as_str()] != false || *key == "fromNodes";
        let allowed: BTreeSet<String> = all.iter().filter(allowed).cloned().collect();
        assert_eq!(allowed, known(&sample, "/spec/parameters/links"), "{kind}");
        types.insert(kind.as_str().unwrap().to_owned());
    }
    let named = |value: &Value| value.as_str().unwrap().to_owned();
    let enumerated = &schema["$defs"]["parameter"]["properties"]["type"]["enum"];
    assert_eq!(types, enumerated.as_array().unwrap().iter().map(named).collect());
}

/// Values that are one of a few words are those that the parser lists for another one.
#[test]
fn words_are_those_that_the_parser_knows() {
    let schema = policy_schema();
    let words = [
        ("/$defs/parameter/properties/type", "/spec/parameters/nics/type"),
        ("/$defs/rule/properties/onConflict", "/spec/rules/0/onConflict"),
    ];
    for (part, place) in words {
        let mut sample = policy();
        *sample.pointer_mut(place).unwrap() = UNKNOWN.into();
        let enumerated = schema.pointer(part).unwrap()["enum"].as_array().unwrap();
        let enumerated: BTreeSet<String> =
            enumerated.iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        assert_eq!(enumerated, listed(&load(&sample).expect_err(place)), "{part}");
    }
}

#[test]
fn the_keys_of_edits_are_those_that_the_parser_knows() {
    let edits = ["ListEdit", "NetworksEdit", "EntriesEdit"];
    let keys: BTreeSet<String> =
        edits.iter().flat_map(|edit| properties(&format!("/$defs/{edit}"))).collect();
    let annotation = "/spec/rules/0/pod/metadata/annotations/example.com~1list";
    assert_eq!(keys, known(&policy(), annotation));
}

#[test]
fn an_extension_has_the_keys_that_the_parser_knows() {
    let base = PolicyFile::read("all.yaml", &policy().to_string()).unwrap();
    let mut extension = json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy", "metadata": {"name": "more"},
        "spec": {"extends": "all"},
    });
    extension["spec"][UNKNOWN] = "x".into();
    let file = PolicyFile::read("more.yaml", &extension.to_string()).unwrap();
    let error = definitions(&[file], &[base]).expect_err("an unknown key").to_string();
    assert_eq!(properties("/$defs/extension"), listed(&error));
}

#[test]
fn every_built_in_part_is_documented() {
    let text = fs::read_to_string(root().join("docs/policy.md")).unwrap();
    for part in fabric_injector::shell::builtin::PARTS {
        assert!(
            text.contains(&format!("`{}`", part.name)),
            "docs/policy.md does not name the part `{}`",
            part.name
        );
    }
}

/// The reference describes each key.
#[test]
fn every_key_is_documented() {
    let text = fs::read_to_string(root().join("docs/policy.md")).unwrap();
    for (schema, _) in MAPS {
        for key in properties(schema) {
            let known = text.contains(&format!("`{key}`")) || text.contains(&format!("{key}:"));
            assert!(known, "docs/policy.md does not name `{key}` of {schema}");
        }
    }
}
