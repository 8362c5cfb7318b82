//! Lists of objects that the text of an annotation holds, as JSON or YAML, and changes to them that keep the form.

use serde_json::{Map, Value};

use crate::core::yaml;

/// A list of objects in a text.
#[derive(Debug)]
pub(super) struct ObjectList<'t> {
    text: &'t str,
    is_json: bool,
    entries: Vec<Map<String, Value>>,
}

impl<'t> ObjectList<'t> {
    /// Reads a text; `None` if it is no list of objects.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        if let Ok(entries) = serde_json::from_str(text) {
            return Some(Self { text, is_json: true, entries });
        }
        let manifest = yaml::read_value(text).ok().filter(|manifest| manifest.duplicate_key.is_none())?;
        let Some(Value::Array(items)) = manifest.root else { return None };
        let entry = |item: Value| if let Value::Object(entry) = item { Some(entry) } else { None };
        let entries = items.into_iter().map(entry).collect::<Option<_>>()?;
        Some(Self { text, is_json: false, entries })
    }

    pub(super) fn entries(&self) -> &[Map<String, Value>] {
        &self.entries
    }

    /// The text with some entries replaced and others appended.
    pub(super) fn with(
        &self,
        replaced: &[(usize, Map<String, Value>)],
        added: &[Map<String, Value>],
    ) -> String {
        let mut entries = self.entries.clone();
        for (at, entry) in replaced {
            entries[*at].clone_from(entry);
        }
        let list = entries.into_iter().chain(added.iter().cloned()).map(Value::Object).collect();
        let after = Value::Array(list);
        if self.is_json { yaml::edit_json(self.text, &after) } else { yaml::edit(self.text, &after).text }
    }
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
        Some(ObjectList::parse(text)?.with(&[], &[object(json!({"i": "eth1", "net": "r1"}))]))
    }

    fn replaced(text: &str) -> Option<String> {
        Some(ObjectList::parse(text)?.with(&[(0, object(json!({"i": "eth0", "net": "new"})))], &[]))
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
    fn yaml_keeps_its_layout() {
        for (before, after) in [
            ("[{i: eth0}]", "[{i: eth0}, {i: eth1, net: r1}]"),
            (
                "[\n  {\"i\":\"eth0\"},\n]\n",
                "[\n  {\"i\":\"eth0\"},\n  {\"i\":\"eth1\",\"net\":\"r1\"},\n]\n",
            ),
            ("- i: eth0\n  net: r0\n", "- i: eth0\n  net: r0\n- i: eth1\n  net: r1\n"),
            ("  - i: eth0", "  - i: eth0\n  - i: eth1\n    net: r1"),
            ("# a\n- i: eth0 # b\n", "# a\n- i: eth0 # b\n- i: eth1\n  net: r1\n"),
            ("---\n- i: eth0\n...\n", "---\n- i: eth0\n- i: eth1\n  net: r1\n...\n"),
            ("- i: eth0\n# end\n", "- i: eth0\n- i: eth1\n  net: r1\n# end\n"),
            ("-\n  i: eth0\n", "-\n  i: eth0\n- i: eth1\n  net: r1\n"),
            // In a text, it is no comment.
            ("- i: |\n    # x\n", "- i: |\n    # x\n- i: eth1\n  net: r1\n"),
            ("--- [{i: eth0}]", "--- [{i: eth0}, {i: eth1, net: r1}]"),
            ("# a\n[{i: eth0}]\n...\n", "# a\n[{i: eth0}, {i: eth1, net: r1}]\n...\n"),
            ("[{i: eth0}] # ]", "[{i: eth0}, {i: eth1, net: r1}] # ]"),
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
            ("[{i: eth0}]", "[{i: eth0, net: new}]"),
            ("- i: eth0\n", "- i: eth0\n  net: new\n"),
        ] {
            assert_eq!(replaced(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_none() {
        for text in ["", "eth0", "[1]", "{}", "[{", "- a", "- {a: 1, a: 2}", "[{}]x", "- a: 1\n---\n- a: 2"] {
            assert!(ObjectList::parse(text).is_none(), "{text}");
        }
    }
}
