//! The files of the schemas, and the lines by which editors find them.

use std::fs;

use serde_json::Value;

use super::root;
use crate::helpers::{cases_schema, policy_schema};

const MARK: &str = "# yaml-language-server: $schema=";

/// The editor of somebody who opens a file finds its schema.
fn every_file_names(folder: &str, copy: &str) {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let policies: Vec<_> = entries.filter(|path| path.is_file()).collect();
    assert!(policies.len() > 10);
    for policy in policies {
        let text = fs::read_to_string(&policy).unwrap();
        let named = text.lines().next().and_then(|line| line.strip_prefix(MARK));
        let named = named.unwrap_or_else(|| panic!("{} does not begin with {MARK}", policy.display()));
        let found = policy.parent().unwrap().join(named).canonicalize().unwrap();
        assert_eq!(found, root().join(copy).canonicalize().unwrap(), "{}", policy.display());
    }
}

#[test]
fn every_policy_of_the_repository_names_its_schema() {
    every_file_names("policies", "schemas/policy.json");
}

#[test]
fn every_file_of_cases_of_the_repository_names_its_schema() {
    every_file_names("policies/tests", "schemas/cases.json");
}

#[test]
fn the_schemas_are_small() {
    for schema in [policy_schema(), cases_schema()] {
        let length = schema.to_string().len();
        assert!(length < 128 * 1024, "{length} bytes");
    }
}

/// The forms that patterns describe are words in an editor, which otherwise shows the pattern.
#[test]
fn each_pattern_has_its_form_in_words() {
    fn patterns(schema: &Value, seen: &mut usize) {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            let form = schema["patternErrorMessage"].as_str().unwrap_or_else(|| panic!("{pattern}"));
            assert!(form.starts_with("write ") && !form.contains("[a-z"), "{form}");
            *seen += 1;
        }
        let children: Vec<&Value> = match schema {
            Value::Object(map) => map.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => return,
        };
        for child in children {
            patterns(child, seen);
        }
    }
    let mut seen = 0;
    patterns(&policy_schema(), &mut seen);
    assert!(seen > 100, "{seen}");
}

/// An editor offers the keys of the schema that a file without `extends` has to match.
#[test]
fn a_policy_without_extends_is_offered_the_key() {
    let schema = policy_schema();
    assert!(schema["properties"]["spec"]["properties"]["extends"].is_object());
}
