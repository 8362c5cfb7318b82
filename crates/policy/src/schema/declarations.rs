//! The tables against the declarations of the Kubernetes API: those of the `k8s-openapi` crate and those of the API
//! server that the end-to-end tests run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::refused::UNDESCRIBED;
use super::tables::{DECLARED, has};
use super::{Default, Field, Object, Overlay, Shape, complete, pod, same};

#[path = "../../../../tests/injection/properties/generator/api_types.rs"]
mod api_types;

const ANSWERS: &str = include_str!("../../../../tests/control-plane/declarations/kubernetes.json");

fn answers() -> Value {
    serde_json::from_str(ANSWERS).unwrap()
}

/// Writes the declaration of a type, and those of the types of its fields that the tables describe.
fn declare(schema: &Value, answers: &Value, types: &mut BTreeMap<String, String>) {
    let name = schema["title"].as_str().unwrap();
    let Some(fields) = schema["properties"].as_object().filter(|_| !types.contains_key(name)) else { return };
    types.insert(name.to_owned(), String::new());
    let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
    let fields = sorted.into_iter().map(|(field, schema_of_field)| {
        let answer = answers["types"].get(name).map(|fields| &fields[field]);
        let newer = answer.is_some_and(Value::is_null);
        let described = !newer && !UNDESCRIBED.iter().any(|row| has(row.0, name) && has(row.1, field));
        let dropped = answer.is_some_and(|answer| answer["dropsEmpty"] == true);
        let required = schema["required"].as_array().unwrap().iter().any(|one| one == field) && !dropped;
        let mut item = schema_of_field;
        while item["items"].is_object() {
            item = &item["items"];
        }
        if described && item["properties"].is_object() {
            declare(item, answers, types);
        }
        let kind = if newer { "any".to_owned() } else { kind_of(schema_of_field, described, answer) };
        format!("{field}{} {kind}{}", if required { "!" } else { "" }, if dropped { "?" } else { "" })
    });
    let fields: Vec<String> = fields.collect();
    types.insert(name.to_owned(), fields.join(", "));
}

fn kind_of(schema: &Value, described: bool, answer: Option<&Value>) -> String {
    let keys = answer.into_iter().flat_map(|answer| answer["keys"].as_array().into_iter().flatten());
    let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
    let by = if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(" ")) };
    match schema["type"].as_str() {
        Some("array") => format!("[{}{by}]", kind_of(&schema["items"], described, None)),
        _ if !described => "any".to_owned(),
        Some("object") if schema["properties"].is_object() => schema["title"].as_str().unwrap().to_owned(),
        Some("object") => format!("{{{}}}", kind_of(&schema["additionalProperties"], described, None)),
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None if schema["format"] == "quantity" => "quantity".to_owned(),
        None => "port".to_owned(),
    }
}

/// A paragraph with lines of at most 110 characters.
fn paragraph(text: &str) -> String {
    let mut lines = vec![String::new()];
    for field in text.split_inclusive(", ") {
        if lines[lines.len() - 1].len() + field.trim_end().len() > 110 {
            lines.push("    ".to_owned());
        }
        lines.last_mut().unwrap().push_str(field);
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

/// `UPDATE_DECLARED=1` writes them again.
#[test]
fn the_declarations_are_those_of_the_api() {
    let mut types = BTreeMap::new();
    declare(&api_types::pod_schema(), &answers(), &mut types);
    let paragraphs: Vec<String> =
        types.iter().map(|(name, fields)| paragraph(&format!("{name}: {fields}"))).collect();
    let text = paragraphs.join("\n");
    if std::env::var_os("UPDATE_DECLARED").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/declared.txt"), &text).unwrap();
    }
    assert_eq!(DECLARED, text, "`UPDATE_DECLARED=1 cargo test -p fabric-policy schema` writes declared.txt");
}

/// Calls for each field that an overlay can set, with its type, and for the fields below it.
fn each_settable(
    object: &'static Object,
    seen: &mut BTreeSet<*const Object>,
    call: &mut impl FnMut(&Object, &Field),
) {
    if !seen.insert(object) {
        return;
    }
    for field in object.fields.iter().filter(|field| !matches!(field.overlay, Overlay::Refused(_))) {
        call(object, field);
        let mut shape = &field.shape;
        while let Shape::List { items, .. } = shape {
            shape = items;
        }
        if let Shape::Object(object) | Shape::Atomic(object) = shape {
            each_settable(object, seen, call);
        }
    }
}

#[test]
fn the_answers_are_those_of_the_api_server_of_the_tests() {
    let modules = include_str!("../../../../tests/control-plane/go.mod");
    let version = modules.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let version = version.and_then(|rest| rest.split(' ').next());
    assert_eq!(
        answers()["version"].as_str(),
        version,
        "run the program of tests/control-plane/declarations again"
    );
}

/// A field of a Go type that is not a pointer has one value for "absent" and "empty".
#[test]
fn an_empty_value_is_none_where_the_api_server_drops_it() {
    let answers = answers();
    each_settable(pod(), &mut BTreeSet::new(), &mut |object, field| {
        // Metadata of claims and pods: only labels and annotations can be set.
        let Some(declared) = answers["types"][object.name].get(field.name) else {
            assert!(
                ["ObjectMeta", "LabelSelector", "LabelSelectorRequirement"].contains(&object.name),
                "{}",
                object.name
            );
            return;
        };
        let empty = match field.shape {
            Shape::Text(_) => Value::from(""),
            Shape::Integer(..) => Value::from(0),
            Shape::Boolean => Value::from(false),
            _ => return,
        };
        let drops = declared["dropsEmpty"] == true;
        // An empty value of a field that is required is refused in any case.
        if !field.required {
            assert_eq!(field.is_absent(&empty), drops, "{}.{}", object.name, field.name);
        }
    });
}

/// Paths of the fields that one of two values has and the other has not, or that differ.
fn differences(path: &str, left: &Value, right: &Value, found: &mut BTreeSet<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            for name in left.keys().chain(right.keys()) {
                let (left, right) = (left.get(name), right.get(name));
                let path = format!("{path}.{name}");
                differences(&path, left.unwrap_or(&Value::Null), right.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter()
                .zip(right)
                .for_each(|(left, right)| differences(&format!("{path}[]"), left, right, found));
        }
        (left, right) if left == right => {}
        _ => _ = found.insert(path.to_owned()),
    }
}

#[test]
fn the_defaults_are_those_that_the_api_server_fills_in() {
    for sample in answers()["defaults"].as_array().unwrap() {
        let (before, after) = (&sample["before"], &sample["after"]);
        let (mut completed, mut after_completed) = (before.clone(), after.clone());
        complete(&mut completed, &Shape::Object(pod()));
        // Go writes some fields that are empty.
        complete(&mut after_completed, &Shape::Object(pod()));
        let mut found = BTreeSet::new();
        differences("", &completed, &after_completed, &mut found);
        let computed = [
            ".spec.containers[].imagePullPolicy",
            ".spec.initContainers[].imagePullPolicy",
            ".spec.volumes[].image.pullPolicy",
        ];
        assert_eq!(found, computed.map(str::to_owned).into());
        assert!(same(after, before, &Shape::Object(pod())), "a pod after defaulting is the pod before");
    }
}

#[test]
fn a_field_that_the_api_server_computes_is_marked() {
    let mut computed = BTreeSet::new();
    each_settable(pod(), &mut BTreeSet::new(), &mut |object, field| {
        if field.default == Default::Computed {
            computed.insert(format!("{}.{}", object.name, field.name));
        }
    });
    let expected =
        ["Container.imagePullPolicy", "ImageVolumeSource.pullPolicy", "ResourceRequirements.requests"];
    assert_eq!(computed, expected.map(str::to_owned).into());
}
