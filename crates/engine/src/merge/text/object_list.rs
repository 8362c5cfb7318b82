//! Lists of objects in JSON in an annotation, and changes to them that keep the layout.

use serde_json::{Map, Value};

use fabric_yaml as yaml;

/// A list of objects.
pub(super) type ObjectList = Vec<Map<String, Value>>;

/// Reads a string; `None` if it is not a list of objects in JSON.
pub(super) fn parse(text: &str) -> Option<ObjectList> {
    serde_json::from_str(text).ok()
}

/// A text with other objects in its list.
pub(super) fn edited(text: &str, list: ObjectList) -> String {
    yaml::edit_json(text, &list.into_iter().map(Value::Object).collect())
}

/// Returns whether an object has all fields of another one, and each object in it those of the other's.
pub(super) fn covers_object(existing: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| match (existing.get(key), wanted) {
        (Some(Value::Object(existing)), Value::Object(wanted)) => covers_object(existing, wanted),
        (existing, wanted) => existing == Some(wanted),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn added(text: &str) -> Option<String> {
        let mut list = parse(text)?;
        list.push(object(json!({"i": "eth1", "net": "r1"})));
        Some(edited(text, list))
    }

    fn replaced(text: &str) -> Option<String> {
        let mut list = parse(text)?;
        list[0] = object(json!({"i": "eth0", "net": "new"}));
        Some(edited(text, list))
    }

    #[test]
    fn json_keeps_its_layout() {
        for (before, after) in [
            (r#"[{"i":"eth0"}]"#, r#"[{"i":"eth0"},{"i":"eth1","net":"r1"}]"#),
            (r#"[{"i":"eth0"}, {"i":"eth9"}]"#, r#"[{"i":"eth0"}, {"i":"eth9"}, {"i":"eth1", "net":"r1"}]"#),
            ("[]", r#"[{"i":"eth1","net":"r1"}]"#),
            ("[\n  {\"i\":\"eth0\"}\n]\n", "[\n  {\"i\":\"eth0\"},\n  {\"i\":\"eth1\",\"net\":\"r1\"}\n]\n"),
            (
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    }\n]",
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    },\n    {\n        \"i\": \"eth1\",\n        \"net\": \"r1\"\n    }\n]",
            ),
        ] {
            assert_eq!(added(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn an_entry_is_replaced_in_the_layout_of_the_text() {
        for (before, after) in [
            (r#"[ {"i":"eth0"}, {"x":1.0} ]"#, r#"[ {"i":"eth0", "net":"new"}, {"x":1.0} ]"#),
            (
                "[\n  {\n    \"i\": \"eth0\"\n  }\n]",
                "[\n  {\n    \"i\": \"eth0\",\n    \"net\": \"new\"\n  }\n]",
            ),
        ] {
            assert_eq!(replaced(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_none() {
        for text in ["", "eth0", "[1]", "{}", "[{", "- a: 1", "[{a: 1}]", "[{}]x"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
