//! What an editor needs of a schema.

use serde_json::Value;

use crate::helpers::{cases_schema, policy_schema};

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
    assert!(schema["$defs"]["spec"]["properties"]["extends"].is_object());
}
