//! The checks of the tables against the validation of the API server: for each value of the sample pods, both accept
//! and refuse the same replacements. `tests/control-plane/declarations` asks the API server.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use fabric_yaml::pointer::unescape;

use super::{Field, Object, Overlay, Shape, pod};
use crate::overlay::{Tree, check_value};

const SAMPLES: &str = include_str!("../../../../tests/control-plane/declarations/pods.json");
const EXISTING: &str = include_str!("../../../../tests/control-plane/declarations/existing.json");
const ANSWERS: &str = include_str!("../../../../tests/control-plane/declarations/kubernetes.json");

/// Returns whether the check of overlays accepts the whole pod.
fn accepted(value: &Value) -> bool {
    let shape = Shape::Object(pod());
    let written = Tree::of_value(without_absent(value, &shape));
    written.is_some_and(|written| check_value(&written, &shape).is_ok()) && !excluded(value, pod(), value)
}

/// A value without the fields that count as absent, which no overlay has.
fn without_absent(value: &Value, shape: &Shape) -> Value {
    match (shape, value) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(fields)) => {
            let is_present = |(name, value): &(&String, &Value)| {
                object.field(name).is_none_or(|field| !field.is_absent(value))
            };
            let within = |(name, value): (&String, &Value)| {
                let shape = object.field(name).map_or(Shape::Opaque, |field| field.shape);
                (name.clone(), without_absent(value, &shape))
            };
            fields.iter().filter(is_present).map(within).collect::<Map<_, _>>().into()
        }
        (Shape::List { items, .. }, Value::Array(entries)) => {
            entries.iter().map(|entry| without_absent(entry, items)).collect()
        }
        // An entry of a list stays, and no entry has such a value.
        (_, Value::Null) => Value::Object(Map::from_iter([("null".to_owned(), true.into())])),
        (_, other) => other.clone(),
    }
}

/// Returns whether another field of the pod excludes a field of an object or of the objects in it.
fn excluded(value: &Value, object: &Object, root: &Value) -> bool {
    let Some(fields) = value.as_object() else { return false };
    fields.iter().any(|(name, field_value)| {
        object.field(name).is_some_and(|field| {
            !field.is_absent(field_value)
                && (field.overlay.excluded_by(field_value, fields, root).is_some()
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
            for (name, value) in fields {
                visit(name.replace('~', "~0").replace('/', "~1"), value);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(index.to_string(), item);
            }
        }
        _ => {}
    }
}

fn remove(pod: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = pod.pointer_mut(parent) {
        let name = unescape(name).into_owned();
        *fields = std::mem::take(fields).into_iter().filter(|(key, _)| *key != name).collect::<Map<_, _>>();
    }
}

fn bit(digits: &str, index: usize) -> bool {
    let digit = digits.as_bytes()[index / 4] as char;
    digit.to_digit(16).unwrap() & (8 >> (index % 4)) != 0
}

/// Values whose validity depends on other entries of the pod. The engine upholds those rules; the tables accept more.
const RULES_OF_THE_ENGINE: &[&str] = &[
    // A request is at most the limit, and huge pages need memory or CPUs.
    "2/spec/containers/0/resources/limits",
    "2/spec/containers/0/resources/limits/cpu",
    "2/spec/containers/0/resources/limits/hugepages-2Mi",
    "2/spec/containers/0/resources/limits/memory",
    "2/spec/containers/0/resources/limits/nvidia.com~1gpu",
    "2/spec/containers/0/resources/requests/cpu",
    "2/spec/containers/0/resources/requests/hugepages-2Mi",
    "2/spec/containers/0/resources/requests/memory",
    "2/spec/containers/0/resources/requests/nvidia.com~1gpu",
    // A container names claims and volumes of the pod.
    "2/spec/containers/0/resources/claims/0/name",
    "2/spec/containers/0/volumeMounts/0/name",
    "2/spec/containers/0/volumeMounts/1/name",
    "2/spec/containers/0/volumeMounts/2/name",
    "2/spec/resourceClaims",
    "2/spec/resourceClaims/0/name",
    "2/spec/volumes",
    "2/spec/volumes/0/name",
    // A container that ends before the others start has no probes.
    "2/spec/initContainers/0/restartPolicy",
];

/// Values that the API server accepts and the tables reject.
fn refused_on_purpose(pointer: &str, candidate: &str) -> bool {
    // A quantity without a digit is 0 for the API server (apimachinery, `api/resource/quantity.go`).
    let quantity =
        ["/divisor", "/cpu", "/memory", "/storage", "/sizeLimit"].iter().any(|end| pointer.ends_with(end));
    // `None` needs a name server in `dnsConfig`, which the sample has.
    quantity && ["\"-\"", "\".\""].contains(&candidate)
        // An entry has the field that tells it from the others of its list.
        || pointer.starts_with("0/spec/imagePullSecrets/0")
        || (pointer, candidate) == ("0/spec/dnsPolicy", "\"None\"")
}

#[test]
fn the_tables_accept_what_the_api_server_accepts() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let candidates = answers["candidates"].as_array().unwrap();
    let names: Vec<String> = candidates.iter().map(Value::to_string).collect();
    let mut differences = Vec::new();
    let mut rules_met = BTreeSet::new();
    for (index, sample) in samples.iter().enumerate() {
        let answers = answers["accepted"][index].as_object().unwrap();
        let mut found = Vec::new();
        pointers(sample, "", &mut found);
        assert_eq!(found.len(), answers.len(), "run the program of tests/control-plane/declarations again");
        for pointer in &found {
            let digits = answers[pointer].as_str().unwrap();
            let place = format!("{index}{pointer}");
            let mut compare = |number: usize, changed: &Value, what: &str| {
                let (expected, actual) = (bit(digits, number), accepted(changed));
                let rule = RULES_OF_THE_ENGINE.iter().find(|rule| **rule == place);
                match (expected, actual, rule) {
                    (false, true, Some(rule)) => _ = rules_met.insert(*rule),
                    (false, true, None) => differences.push(format!("{place}: accepted {what}")),
                    (true, false, _) if !refused_on_purpose(&place, what) => {
                        differences.push(format!("{place}: refused {what}"));
                    }
                    _ => {}
                }
            };
            let mut changed = sample.clone();
            let scalar = !matches!(sample.pointer(pointer), Some(Value::Object(_) | Value::Array(_)));
            for (number, candidate) in candidates.iter().enumerate() {
                // One string is enough to find that a list or an object is none.
                if !scalar && candidate.is_string() && number > 1 {
                    continue;
                }
                *changed.pointer_mut(pointer).unwrap() = candidate.clone();
                compare(number, &changed, &names[number]);
            }
            changed.clone_from(sample);
            remove(&mut changed, pointer);
            compare(candidates.len(), &changed, "no value");
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(rules_met, RULES_OF_THE_ENGINE.iter().copied().collect(), "rules that nothing needs");
}

/// All fields of the tables that an overlay can set, as `Type.field`.
fn settable(object: &Object, found: &mut BTreeSet<String>) {
    for field in object.fields {
        let new = !matches!(field.overlay, Overlay::Refused(_))
            && found.insert(format!("{}.{}", object.name, field.name));
        if new && let Some(object) = object_in(&field.shape) {
            settable(object, found);
        }
    }
}

fn object_in(shape: &Shape) -> Option<&'static Object> {
    match shape {
        Shape::Object(object) | Shape::Atomic(object) => Some(object),
        Shape::List { items, .. } => object_in(items),
        _ => None,
    }
}

fn used(value: &Value, shape: &Shape, found: &mut BTreeSet<String>) {
    match (shape, value) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(fields)) => {
            for (name, value) in fields {
                found.insert(format!("{}.{name}", object.name));
                used(value, &object.field(name).unwrap().shape, found);
            }
        }
        (Shape::List { items, .. }, Value::Array(entries)) => {
            for entry in entries {
                used(entry, items, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_samples_have_all_fields_that_an_overlay_can_set() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let (mut wanted, mut found) = (BTreeSet::new(), BTreeSet::new());
    settable(pod(), &mut wanted);
    for sample in &samples {
        used(sample, &Shape::Object(pod()), &mut found);
    }
    assert_eq!(found, wanted);
}

/// The fields on the path to a place of a pod, each with the object that has it.
fn fields_on_the_way<'a>(pointer: &str, pod_value: &'a Value) -> Vec<(&'static Field, &'a Value)> {
    let mut fields = Vec::new();
    let (mut shape, mut value) = (Shape::Object(pod()), pod_value);
    for step in pointer.split('/').skip(1) {
        match shape {
            Shape::Object(object) => {
                let field = object.field(step).unwrap();
                fields.push((field, value));
                shape = field.shape;
            }
            Shape::List { items, .. } => shape = *items,
            _ => panic!("{step} of {pointer} is no field"),
        }
        value = value.pointer(&format!("/{step}")).unwrap_or(&Value::Null);
    }
    fields
}

/// The exclusions cover each value that the API server refuses in an otherwise valid pod, and each exclusion is needed.
#[test]
fn what_a_pod_refuses_is_excluded() {
    let existing: Vec<Value> = serde_json::from_str(EXISTING).unwrap();
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let refused = answers["refused"].as_array().unwrap();
    assert_eq!(existing.len(), refused.len(), "run the program of tests/control-plane/declarations again");
    let (mut met, empty) = (BTreeSet::new(), Map::new());
    for (pod, additions) in existing.iter().zip(refused) {
        for addition in additions.as_array().unwrap() {
            let (pointer, value) = (addition["pointer"].as_str().unwrap(), &addition["value"]);
            let fields = fields_on_the_way(pointer, pod);
            // The engine upholds that only containers that go on running have probes.
            let mut excluded = pointer.starts_with("/spec/initContainers/0/");
            for (field, object) in fields {
                let Overlay::Unless(exclusions) = field.overlay else { continue };
                for exclusion in exclusions
                    .iter()
                    .filter(|exclusion| exclusion.applies(value, object.as_object().unwrap_or(&empty), pod))
                {
                    excluded = true;
                    met.insert(format!("{}: {exclusion:?}", field.name));
                }
            }
            assert!(excluded, "{pod} with {pointer} = {value}");
        }
    }
    let mut all = BTreeSet::new();
    exclusions(pod(), &mut BTreeSet::new(), &mut all);
    // Ports of two containers meet on the node, and a pod of the samples has one.
    all.retain(|exclusion| !exclusion.starts_with("ports: "));
    assert_eq!(met, all);
}

fn exclusions(object: &'static Object, seen: &mut BTreeSet<*const Object>, found: &mut BTreeSet<String>) {
    if !seen.insert(object) {
        return;
    }
    for field in object.fields {
        if let Overlay::Unless(exclusions) = field.overlay {
            found.extend(exclusions.iter().map(|exclusion| format!("{}: {exclusion:?}", field.name)));
        }
        if let Some(object) = object_in(&field.shape) {
            exclusions(object, seen, found);
        }
    }
}
