//! Edits of small texts, and of generated ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{edit_json, read_value};
use super::edit;

mod forms;

#[track_caller]
fn edited(text: &str, after: &Value) -> String {
    let edited = edit(text, after, false);
    edited.unwrap_or_else(|| panic!("all of this must be written again:\n{text}")).text
}

#[test]
fn an_edit_changes_only_the_lines_of_its_value() {
    let table = [
        ("a: 1 # one\nb: 2\n", json!({"a": 1, "b": 3}), "a: 1 # one\nb: 3\n"),
        ("a: 1\n", json!({"a": 1, "b": {"c": [1]}}), "a: 1\nb:\n  c:\n  - 1\n"),
        ("a:\n    b: 1\n", json!({"a": {"b": 1}, "c": {"d": 2}}), "a:\n    b: 1\nc:\n    d: 2\n"),
        ("a: {} # none\nb: 1\n", json!({"a": {"c": 1}, "b": 1}), "a: # none\n  c: 1\nb: 1\n"),
        ("a: # to come\n# next\nb: 1\n", json!({"a": [1], "b": 1}), "a: # to come\n- 1\n# next\nb: 1\n"),
        ("a:\n  - 1 # x\n  # y\nb: 1\n", json!({"a": [1, 2], "b": 1}), "a:\n  - 1 # x\n  # y\n  - 2\nb: 1\n"),
        ("a:\n- 1\n# about b\nb: 1\n", json!({"a": [1, 2], "b": 1}), "a:\n- 1\n- 2\n# about b\nb: 1\n"),
        ("a:\n  # one\n  - 1\n", json!({"a": [0, 1]}), "a:\n  - 0\n  # one\n  - 1\n"),
        ("a: [1, 2] # l\n", json!({"a": [0, 1, 3, 2, 4]}), "a: [0, 1, 3, 2, 4] # l\n"),
        ("a: {b: 1}\n", json!({"a": {"b": 1, "c d": "e: f"}}), "a: {b: 1, c d: \"e: f\"}\n"),
        ("a: [\n  1, # x\n  2 # y\n]\n", json!({"a": [1, 2, 3]}), "a: [\n  1, # x\n  2, # y\n  3\n]\n"),
        ("a: 'it''s' # q\n", json!({"a": "it's not"}), "a: 'it''s not' # q\n"),
        ("a: \"x\" # q\n", json!({"a": "y\nz"}), "a: \"y\\nz\" # q\n"),
        ("a: |- # b\n    x\n    y\nb: 1\n", json!({"a": "x\nz", "b": 1}), "a: |- # b\n    x\n    z\nb: 1\n"),
        ("a: |\n  x\nb: 1\n", json!({"a": "y", "b": 1}), "a: |-\n  y\nb: 1\n"),
        ("a: x # c\n", json!({"a": "y\nz\n"}), "a: \"y\\nz\\n\" # c\n"),
        ("a: 1", json!({"a": 1, "b": 2}), "a: 1\nb: 2"),
        ("a: 1\r\n", json!({"a": 1, "b": "x\ny\n"}), "a: 1\r\nb: |\r\n  x\r\n  y\r\n"),
        ("a: 1 # ä\nb: [ö]\n", json!({"a": 1, "b": ["ö", 1]}), "a: 1 # ä\nb: [ö, 1]\n"),
        ("? a\n: 1\n", json!({"a": 1}), "? a\n: 1\n"),
        ("a: b\n", json!({"a": {"c": 1}}), "a:\n  c: 1\n"),
        ("a:\n  b: 1\n  # c\n", json!({"a": "x"}), "a: x\n  # c\n"),
        ("- a: 1\n- b: 1\n", json!([{"a": 1, "c": 2}, {"b": 1}]), "- a: 1\n  c: 2\n- b: 1\n"),
    ];
    for (before, after, expected) in table {
        assert_eq!(edited(before, &after), expected);
    }
}

#[test]
fn an_anchor_and_its_aliases_stay_if_they_still_agree() {
    let table = [
        (
            "a: &x {b: 1}\nc: *x # same\n",
            json!({"a": {"b": 1, "d": 2}, "c": {"b": 1, "d": 2}}),
            "a: &x {b: 1, d: 2}\nc: *x # same\n",
        ),
        (
            "a: &x {b: 1}\nc: *x # same\n",
            json!({"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
            "a: &x {b: 1}\nc: # same\n  b: 1\n  d: 2\n",
        ),
        (
            "a: &x {b: 1}\nc: *x # same\n",
            json!({"a": {"b": 1, "d": 2}, "c": {"b": 1}}),
            "a: &x {b: 1, d: 2}\nc: # same\n  b: 1\n",
        ),
        ("a: &x\nc: [*x]\n", json!({"a": 1, "c": [null]}), "a: 1\nc: [null]\n"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n  d: 1 # d\n",
            json!({"a": {"b": 1}, "c": {"b": 2, "d": 1}}),
            "a: &x {b: 1}\nc:\n  <<: *x\n  d: 1 # d\n  b: 2\n",
        ),
        (
            "a: &x {b: 1}\nc:\n  <<: *x # m\n  d: 1 # d\n",
            json!({"a": {"b": 1, "e": 1}, "c": {"b": 1, "d": 1}}),
            "a: &x {b: 1, e: 1}\nc:\n  b: 1 # m\n  d: 1 # d\n",
        ),
        (
            "a: &x {b: 1}\nc: {<<: *x}\n",
            json!({"a": {"b": 1, "e": 1}, "c": {"b": 1, "e": 1}}),
            "a: &x {b: 1, e: 1}\nc: {<<: *x}\n",
        ),
    ];
    for (before, after, expected) in table {
        assert_eq!(edited(before, &after), expected);
    }
}

#[test]
fn json_keeps_its_layout() {
    let table = [
        ("{\"a\":1}", json!({"a": 1, "b": [1, "x"]}), "{\"a\":1,\"b\":[1,\"x\"]}"),
        ("{\"a\": 1}\n", json!({"a": 1, "b": {"c": 2}}), "{\"a\": 1,\"b\": {\"c\": 2}}\n"),
        (
            "{\n\t\"a\": []\n}",
            json!({"a": [{"b": 1}]}),
            "{\n\t\"a\": [\n\t\t{\n\t\t\t\"b\": 1\n\t\t}\n\t]\n}",
        ),
        (
            "{\n  \"a\": [\"\\ud83d\\ude80\\/\"]\n}",
            json!({"a": ["\u{1f680}/"], "b": 1}),
            "{\n  \"a\": [\"\\ud83d\\ude80\\/\"],\n  \"b\": 1\n}",
        ),
        (
            "{\n  \"a\": [\n    {\"b\": 1}\n  ]\n}",
            json!({"a": [{"b": 1}, {"b": 2}]}),
            "{\n  \"a\": [\n    {\"b\": 1},\n    {\"b\": 2}\n  ]\n}",
        ),
        ("{\n  \"a\": 1,\n  \"b\": 2\n}\n", json!({"b": 2}), "{\n  \"b\": 2\n}\n"),
    ];
    for (before, after, expected) in table {
        assert_eq!(edit_json(before, &after), expected);
    }
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| json!(number)),
        "[ -~]{0,8}".prop_map(Value::String),
        "[a-z#:\n -]{0,12}".prop_map(Value::String),
    ]
}

fn any_map() -> impl Strategy<Value = Value> {
    any_scalar()
        .prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-e]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
        .prop_map(|value| json!({"a": value}))
}

/// A value with all entries and items of both.
fn joined(before: &Value, added: &Value) -> Value {
    match (before, added) {
        (Value::Object(before), Value::Object(added)) => {
            let mut map = before.clone();
            for (key, value) in added {
                let value = before.get(key).map_or_else(|| value.clone(), |old| joined(old, value));
                map.insert(key.clone(), value);
            }
            Value::Object(map)
        }
        (Value::Array(before), Value::Array(added)) => before.iter().chain(added).cloned().collect(),
        (before, _) => before.clone(),
    }
}

/// The text with a comment at the end of some lines and above others. Lines of a block scalar cannot have one.
fn commented(text: &str, seed: u64) -> String {
    if text.contains(['|', '"', '\'']) {
        return text.to_owned();
    }
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        let blanks = &line[..line.len() - line.trim_start().len()];
        match (seed >> (at * 2 % 62)) & 3 {
            0 => out.push_str(&format!("{line} # c{at}\n")),
            1 => out.push_str(&format!("{blanks}# c{at}\n{line}\n")),
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn assert_reads(text: &str, value: &Value) -> Result<(), TestCaseError> {
    let read = read_value(text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    prop_assert!(read.root.as_ref() == Some(value), "{value}\n{text}");
    prop_assert!(read.ambiguity.is_none(), "{text}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]

    #[test]
    fn additions_keep_every_line(before in any_map(), added in any_map(), seed in any::<u64>()) {
        let text = commented(&super::super::write(&before), seed);
        let after = joined(&before, &added);
        let edited = edit(&text, &after, false).ok_or_else(|| TestCaseError::fail(format!("{after}\n{text}")))?.text;
        assert_reads(&edited, &after)?;
        let mut lines = edited.lines();
        for line in text.lines() {
            // An empty list or map is replaced, and its comment stays.
            let kept = line.replace(" []", "").replace(" {}", "");
            let found = lines.any(|new| new == line || new == kept || new.replace("- - ", "").contains(kept.trim_start_matches(['-', ' '])));
            prop_assert!(found, "`{line}` is lost in\n{edited}from\n{text}");
        }
    }

    #[test]
    fn any_change_reads_as_it_should(before in any_map(), after in any_map(), seed in any::<u64>()) {
        let text = commented(&super::super::write(&before), seed);
        if let Some(edited) = edit(&text, &after, false) {
            assert_reads(&edited.text, &after)?;
        }
        let text = serde_json::to_string_pretty(&before).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&edit_json(&text, &after)).unwrap(), after);
    }
}

#[test]
fn the_marker_of_a_document_is_no_item_of_a_list() {
    let edited = edit("---\n- 'é'\n", &json!(["é", "b"]), false).unwrap();
    assert_eq!(edited.text, "---\n- 'é'\n- b\n");
}
