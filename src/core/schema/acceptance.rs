//! The checks of the tables against the validation of the API server: for each value of the sample pods, both accept
//! and refuse the same replacements. `tests/control-plane/declarations` asks the API server.

use serde_json::{Map, Value};

use super::{Object, Shape, check_new, pod};

const SAMPLES: &str = include_str!("../../../tests/control-plane/declarations/pods.json");
const ANSWERS: &str = include_str!("../../../tests/control-plane/declarations/kubernetes.json");

/// Whether the tables accept a whole pod.
fn accepted(value: &Value) -> bool {
    check_new(value, &Shape::Object(pod())).is_ok() && !excluded(value, pod(), value)
}

/// Whether a field of an object or of the objects in it is excluded by another field of the pod.
fn excluded(value: &Value, object: &Object, root: &Value) -> bool {
    let Some(fields) = value.as_object() else { return false };
    fields.iter().any(|(name, field_value)| {
        object.field(name).is_some_and(|field| {
            !field.is_absent(field_value)
                && (field.overlay.excluded_by(field_value, value, root).is_some()
                    || excluded_below(field_value, &field.shape, root))
        })
    })
}

fn excluded_below(value: &Value, shape: &Shape, root: &Value) -> bool {
    match shape {
        Shape::Object(object) | Shape::Atomic(object) => excluded(value, object, root),
        Shape::List { items, .. } => value
            .as_array()
            .is_some_and(|entries| entries.iter().any(|entry| excluded_below(entry, items, root))),
        _ => false,
    }
}

/// JSON Pointers to all values below a value.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let mut visit = |step: String, value: &Value| {
        let below = format!("{pointer}/{step}");
        found.push(below.clone());
        pointers(value, &below, found);
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| visit(name.replace('~', "~0").replace('/', "~1"), value));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| visit(index.to_string(), item))
        }
        _ => {}
    }
}

fn remove(pod: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = pod.pointer_mut(parent) {
        let name = name.replace("~1", "/").replace("~0", "~");
        *fields = std::mem::take(fields).into_iter().filter(|(key, _)| *key != name).collect::<Map<_, _>>();
    }
}

fn bit(digits: &str, index: usize) -> bool {
    let digit = digits.as_bytes()[index / 4] as char;
    digit.to_digit(16).unwrap() & (8 >> (index % 4)) != 0
}

#[test]
fn the_tables_accept_what_the_api_server_accepts() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let candidates = answers["candidates"].as_array().unwrap();
    let mut differences = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let answers = answers["accepted"][index].as_object().unwrap();
        let mut found = Vec::new();
        pointers(sample, "", &mut found);
        assert_eq!(found.len(), answers.len());
        for pointer in &found {
            let digits = answers[pointer].as_str().unwrap();
            let mut compare = |number: usize, changed: &Value, what: &str| {
                let expected = bit(digits, number);
                let actual = accepted(changed);
                if expected != actual {
                    let word = if expected { "refused" } else { "accepted" };
                    differences.push(format!("{index}{pointer}: {word} {what}"));
                }
            };
            for (number, candidate) in candidates.iter().enumerate() {
                let mut changed = sample.clone();
                *changed.pointer_mut(pointer).unwrap() = candidate.clone();
                compare(number, &changed, &candidate.to_string());
            }
            let mut changed = sample.clone();
            remove(&mut changed, pointer);
            compare(candidates.len(), &changed, "without");
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
