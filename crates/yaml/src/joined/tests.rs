use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{self as yaml, Span};

fn read(text: &str) -> Value {
    yaml::read_value(text).unwrap_or_else(|error| panic!("{error}\n{text}")).root.unwrap_or_default()
}

fn refused(text: &str) -> yaml::Error {
    yaml::read_value(text).expect_err("kubectl refuses it, too")
}

#[test]
fn brackets_can_close_below_their_key() {
    let wanted = json!({"spec": {"command": ["sh", "-c"], "args": [], "limits": {"a/b": 8}}});
    for text in [
        "spec:\n  command: [\n    \"sh\",\n    \"-c\"\n  ]\n  args: [\n  ]\n  limits: {\n    \"a/b\": 8\n  }\n",
        "spec:\n  command: [\n\"sh\",\n\"-c\",\n]\n  args: [ # none\n  # at all ]\n  ]\n  limits: {\n\"a/b\": 8}\n",
        "spec:\r\n  command: [\r\n    'sh', # \"the shell\r\n    \"-c\"\r\n  ]\r\n  args: []\r\n  limits: {'a/b': 8\r\n  }\r\n",
        "spec: {\n  \"command\": [\n    sh,\n-c\n], \"args\": [\n], \"limits\": {\n\"a/b\":8\n}\n}\n",
        "spec:\n  command: &c [\n    \"sh\",\n    \"-c\"\n  ]\n  args: !!seq [\n  ]\n  limits: {\n    \"a/b\": 8\n  }\n",
    ] {
        assert_eq!(read(text), wanted, "{text}");
    }
    assert_eq!(read("- [\n  \"a\"\n]\n- - {\n  \"b\": c\n}\n"), json!([["a"], [{"b": "c"}]]));
}

#[test]
fn texts_in_brackets_keep_their_line_ends() {
    let text = "a:\n  b: [\n    \"one\n     two\", 'three\n\n     four', five\n     six, x\"y,\n    \"\\\"]\"\n  ]\n";
    assert_eq!(read(text), json!({"a": {"b": ["one two", "three\nfour", "five six", "x\"y", "\"]"]}}));
}

#[test]
fn tabs_can_follow_a_colon() {
    assert_eq!(
        read("kind:\tPod\nmetadata: {name:\t\tp}\nx: \tz\n"),
        json!({"kind": "Pod", "metadata": {"name": "p"}, "x": "z"})
    );
    refused("a:\t- b\n");
}

#[test]
fn other_indentation_stays_an_error() {
    for text in
        ["a:\n    b: 1\n  c: [\n  ]\n", "a:\n  - x\n y: [1]\n", "a: [\n\"b\"\n", "a: [\"b\"\n]: c\n d\n"]
    {
        refused(text);
    }
}

#[test]
fn places_are_those_of_the_text() {
    let error = refused("a: [\n  \"é\" # é\n]\nb: {\n  \"c\": \"d\"\n}\n\"é\": é: f\n");
    assert_eq!((error.span.line, error.span.column), (7, 7), "{error}");
    let root = yaml::read_node_with_duplicates("a: [\n  \"é\"\n]\nb: [\n  c, \"dd\"\n]\n").unwrap().unwrap();
    let yaml::Content::Map(entries) = &root.content else { panic!("a map") };
    let yaml::Content::List(items) = &entries[1].value.content else { panic!("a list") };
    assert_eq!(entries[1].span, Span { line: 4, column: 1, length: 1 });
    assert_eq!(items[1].span, Span { line: 5, column: 6, length: 4 });
}

#[test]
fn an_error_names_the_brackets_that_it_is_within() {
    for (text, line) in [
        ("a: 1\nb: [\"x\", \"y\"\nc: {d: 1}\n", 2),
        ("a: [\n  \"é\" # é\n]\nb: [\n  \"x\"\nc: {d: 1}\n", 4),
        ("a: [\n]\nb: {\n  c: 1\n", 3),
    ] {
        let error = refused(text);
        let message = error.explained(0);
        assert!(message.ends_with(&format!(", within the brackets that begin on line {line}")), "{message}");
        let message = error.explained(10);
        assert!(message.ends_with(&format!(" on line {}", line + 10)), "{message}");
    }
    assert!(!refused("a: [1]\nb: c: d\n").explained(0).contains("brackets"));
}

/// The places of brackets and quotes are found in one pass: there can be any number of them.
#[test]
fn a_file_can_have_thousands_of_brackets_and_quotes_with_lines() {
    let entry =
        |at: usize| format!("  - k{at}: [\n    \"é\",\n  ]\n    q: \"x\ny\"\n    b: |\n      [\n      'it\n");
    let text: String = (0..3_000).map(entry).collect();
    let root = read(&format!("a:\n{text}"));
    let items = root["a"].as_array().unwrap();
    assert_eq!(items.len(), 3_000);
    assert_eq!(items[2_999], json!({"k2999": ["é"], "q": "x y", "b": "[\n'it\n"}));
}

#[test]
fn quoted_texts_can_have_lines_that_are_not_indented() {
    for (text, wanted) in [
        (
            "a:\n  b: \"one\ntwo\n\n  three \\\n four\"\n  c: d\n",
            json!({"a": {"b": "one two\nthree four", "c": "d"}}),
        ),
        ("- 'it''s\n\n# no comment'\n- x\n", json!(["it's\n# no comment", "x"])),
        ("a: [\"b\nc\", {\nd: 'e\n'}]\n", json!({"a": ["b c", {"d": "e "}]})),
        ("a: it's\n  \"b\n  c'\nd: |\n  \"\n", json!({"a": "it's \"b c'", "d": "\"\n"})),
        ("a: !!str &x\n  \"b\nc\"\nd: *x\n", json!({"a": "b c", "d": "b c"})),
    ] {
        assert_eq!(read(text), wanted, "{text}");
    }
    refused("a: \"b\n---\nc\"\n");
    refused("a: \"b\nc\nd: e\n");
}

#[test]
fn a_comment_can_follow_a_quote_or_a_bracket() {
    assert_eq!(
        read("a: \"b\"#c\nd: [e,#f\n'g'#h\n]#i\nj: {}# k\nl: m#n\no: |#p\n  q\nr: \"it\\'s\"\n"),
        json!({"a": "b", "d": ["e", "g"], "j": {}, "l": "m#n", "o": "q\n", "r": "it's"})
    );
}

#[test]
fn edits_keep_such_brackets() {
    let text = "a:\n  command: [\n    \"sh\" # the shell\n  ]\n  limits: {\n    \"x\": 8\n  }\n";
    let edited = yaml::edit(text, &json!({"a": {"command": ["sh"], "limits": {"x": 8, "y": 9}, "z": "new"}}));
    assert_eq!(read(&edited.text), json!({"a": {"command": ["sh"], "limits": {"x": 8, "y": 9}, "z": "new"}}));
    assert!(edited.text.contains("command: [\n    \"sh\" # the shell\n  ]\n"), "{}", edited.text);
}

/// A value in brackets, with this white space between its tokens.
fn written(value: &Value, space: &mut dyn FnMut() -> String) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{}{}{}", space(), written(item, space), space())).collect();
            format!("[{}]", if items.is_empty() { space() } else { items.join(",") })
        }
        Value::Object(map) => {
            let entry = |(key, item): (&String, &Value)| {
                format!("{}{}: {}{}", space(), Value::from(key.as_str()), written(item, space), space())
            };
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("{{{}}}", if entries.is_empty() { space() } else { entries.join(",") })
        }
        value => value.to_string(),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["", "a", "#", " # b", "]", "[", "'", "\"", ": ", "é", "-", "\\"]);
    let scalar = prop_oneof![text.prop_map(Value::from), any::<i8>().prop_map(Value::from)];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn white_space_between_tokens_means_nothing(
        value in prop::collection::vec(value(), 0..4),
        spaces in prop::collection::vec(
            prop::sample::select(vec!["", " ", "\n", "\n  ", "\n      ", " # \"[\n", "\r\n", "\n\n # ]\n"]), 1..40),
    ) {
        let mut spaces = spaces.iter().cycle();
        let mut space = || spaces.next().copied().unwrap_or_default().to_owned();
        let list = written(&Value::from(value.clone()), &mut space);
        let text = format!("a:\n  - b:\n      c: {list}\n    d: |\n      [\n  - {list}\n");
        prop_assert_eq!(read(&text), json!({"a": [{"b": {"c": value}, "d": "[\n"}, value]}), "{}", text);
    }
}
