//! A policy with every key of the language: it loads, it is valid, and the reference describes its keys.

use std::collections::BTreeSet;
use std::fs;

use fabric_policy::Definition;
use serde_json::{Value, json};

use super::{LANGUAGE, errors, root, validator};
use crate::helpers::policy_schema;

/// A policy with each map of the language in it.
pub(crate) fn policy() -> Value {
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1",
        "kind": "FabricPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "provider": "lab",
            "nodes": {"providerIDs": ["lab://*"], "labels": {"example.com/lab": "*"}},
            "description": "Every key of the language",
            "gpus": {"resources": ["example.com/gpu"], "claims": {"*-gpus": 8, "team": "${8}"}},
            "devices": {
                "resources": ["example.com/nic"], "claims": {"*-nics": 1},
                "add": [{
                    "name": "nics", "when": "totalGpus > 0", "resources": {"example.com/nic": "${nics}", "${['example.com/a']}": 1},
                    "networks": "rail-0",
                }, {"name": "claim", "claims": {"nic": "nics"}}],
            },
            "match": {
                "anyAnnotation": {"example.com/fabric": "true"},
                "exceptAnnotation": {"example.com/no-fabric": "*"},
                "labels": {"role": "worker"},
                "namespaces": ["team"],
                "ownerKinds": ["Job", "Job.batch"],
                "when": "node[?'pool'].orValue('') != 'slow'",
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
                "networks": {
                    "type": "stringList", "description": "Networks", "fromNetworks": ["example.com/*"],
                },
                "network": {"type": "string", "description": "Network", "fromNetworks": "example.com/a"},
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
            "checks": [
                {"name": "own_value", "when": "value != ''", "env": "A", "containers": "gpus > 0", "message": "`A` is ${value}"},
                {"name": "no_gpus", "when": "totalGpus == 0", "action": "refuse", "message": "ask for GPUs"},
                {"name": "one_gpu", "when": "totalGpus == 1", "action": "skip", "message": "one GPU needs no fabric"},
            ],
            "files": {"/etc/nccl.conf": {
                "variables": ["NCCL_*"], "when": "totalGpus > 0", "env": "NCCL_CONF_FILE",
            }},
            "rules": [{
                "name": "all", "when": "totalGpus > 0", "containers": "gpus > 0",
                "onConflict": "keep",
                "env": {
                    "A": "b", "B": 1, "PATH": "$(PATH):/opt/bin", "LIBRARIES": "/opt/lib:$(LIBRARIES)",
                    "NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                },
                "container": {"args": ["a"]},
                "pod": {
                    "metadata": {"annotations": {
                        "example.com/plain": "${mode}",
                        "k8s.v1.cni.cncf.io/networks": ["rail-0"],
                        "example.com/entries[name]": [{"name": "a"}],
                    }},
                },
            }],
        },
    })
}

pub(crate) fn load(policy: &Value) -> Result<Definition, String> {
    Definition::read("policy.yaml", &policy.to_string()).map_err(|error| error.to_string())
}

/// The keys of the schema at a pointer.
fn properties(pointer: &str) -> BTreeSet<String> {
    let schema = policy_schema();
    let part = schema.pointer(pointer).unwrap_or_else(|| panic!("the schema has no {pointer}"));
    part["properties"].as_object().unwrap().keys().cloned().collect()
}

/// The maps of the language: where the schema has their keys, and where the policy has one.
pub(crate) const MAPS: [(&str, &str); 17] = [
    ("", ""),
    ("/properties/metadata", "/metadata"),
    ("/$defs/spec", "/spec"),
    ("/$defs/spec/properties/gpus", "/spec/gpus"),
    ("/$defs/spec/properties/devices", "/spec/devices"),
    ("/$defs/spec/properties/devices/properties/add/items", "/spec/devices/add/0"),
    ("/$defs/spec/properties/devices/properties/add/items", "/spec/devices/add/1"),
    ("/$defs/spec/properties/match", "/spec/match"),
    ("/$defs/spec/properties/nodes", "/spec/nodes"),
    ("/$defs/spec/properties/checks/items", "/spec/checks/0"),
    ("/$defs/spec/properties/checks/items", "/spec/checks/1"),
    ("/$defs/spec/properties/checks/items", "/spec/checks/2"),
    ("/$defs/spec/properties/files/additionalProperties", "/spec/files/~1etc~1nccl.conf"),
    ("/$defs/spec/properties/rules/items", "/spec/rules/0"),
    ("/$defs/spec/properties/parameters/additionalProperties", "/spec/parameters/nics"),
    ("/$defs/spec/properties/parameters/additionalProperties", "/spec/parameters/mode"),
    ("/$defs/spec/properties/parameters/additionalProperties", "/spec/parameters/networks"),
];

#[test]
fn the_sample_loads_and_is_valid() {
    load(&policy()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(errors(&validator(&policy_schema()), &policy()), "");
}

/// The sample uses every key, so that what the parser does with it is seen.
#[test]
fn the_sample_has_every_key() {
    for (schema, _) in MAPS {
        for key in
            properties(schema).into_iter().filter(|key| !["extends", "without"].contains(&key.as_str()))
        {
            let used = MAPS.iter().filter(|(other, _)| *other == schema);
            let has = used.clone().any(|(_, place)| policy().pointer(place).unwrap().get(&key).is_some());
            assert!(has, "{schema} {key}");
        }
    }
}

#[test]
fn every_built_in_part_is_documented() {
    let text = fs::read_to_string(root().join("docs/extending.md")).unwrap();
    for part in fabric_injector::builtin::PARTS {
        assert!(
            text.contains(&format!("`{}`", part.name)),
            "docs/extending.md does not name the part `{}`",
            part.name
        );
    }
}

/// The reference describes each key.
#[test]
fn every_key_is_documented() {
    let text = LANGUAGE.map(|page| fs::read_to_string(root().join("docs").join(page)).unwrap()).concat();
    for (schema, _) in MAPS {
        for key in properties(schema) {
            let known = text.contains(&format!("`{key}`")) || text.contains(&format!("{key}:"));
            assert!(known, "no page about the language names `{key}` of {schema}");
        }
    }
}
