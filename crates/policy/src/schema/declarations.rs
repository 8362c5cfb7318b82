//! The tables against the declarations of the Kubernetes API: those of the `k8s-openapi` crate and those of the API
//! server that the end-to-end tests run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Default, Field, ListMerge, Object, Overlay, Shape, complete, pod, same};

#[path = "../../../../tests/injection/properties/generator/api_types.rs"]
mod api_types;

const ANSWERS: &str = include_str!("../../../../tests/control-plane/declarations/kubernetes.json");

fn answers() -> Value {
    serde_json::from_str(ANSWERS).unwrap()
}

/// Compares a shape and the shapes in it, and reports each difference with its path.
fn compare(path: &str, shape: &Shape, schema: &Value, differences: &mut BTreeSet<String>) {
    match shape {
        Shape::Opaque => {}
        Shape::Object(object) | Shape::Atomic(object) => {
            compare_fields(path, object, schema, differences);
        }
        Shape::Map { values, .. } => {
            compare(&format!("{path}.*"), values, &schema["additionalProperties"], differences);
        }
        Shape::List { items, .. } => {
            compare(&format!("{path}[]"), items, &schema["items"], differences);
        }
        _ => {}
    }
    let declared = match (schema["type"].as_str(), schema["properties"].is_object()) {
        (Some("object"), true) => "fields",
        (Some("object"), false) => "map",
        (Some(other), _) => other,
        (None, _) => "any",
    };
    let described = match shape {
        Shape::Opaque => return,
        Shape::Object(_) | Shape::Atomic(_) => "fields",
        Shape::Map { .. } => "map",
        Shape::List { .. } => "array",
        Shape::Text(_) => "string",
        Shape::Integer(..) => "integer",
        Shape::Boolean => "boolean",
        Shape::Quantity => "any",
        Shape::PortNumberOrName => "any",
    };
    if declared != described {
        differences.insert(format!("{path}: {described}, declared as {declared}"));
    }
}

fn compare_fields(path: &str, object: &Object, schema: &Value, differences: &mut BTreeSet<String>) {
    let declared: BTreeMap<&str, &Value> = schema["properties"]
        .as_object()
        .map(|fields| fields.iter().map(|(name, field)| (name.as_str(), field)).collect())
        .unwrap_or_default();
    for name in declared.keys().filter(|name| object.field(name).is_none()) {
        differences.insert(format!("{path}.{name}: not in the tables"));
    }
    for field in object.fields {
        match declared.get(field.name) {
            Some(schema) => {
                compare(&format!("{path}.{}", field.name), &field.shape, schema, differences);
            }
            None => {
                differences.insert(format!("{path}.{}: not declared", field.name));
            }
        }
    }
}

#[test]
fn the_fields_are_those_of_the_crate() {
    let mut differences = BTreeSet::new();
    compare("Pod", &Shape::Object(pod()), &api_types::pod_schema(), &mut differences);
    assert_eq!(differences, BTreeSet::new());
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

/// Lists that the API declares as one value. Their order has no meaning and their entries do not contradict each other,
/// so the overlay's entries are added.
const SETS: &[&str] = &[
    "Capabilities.add",
    "Capabilities.drop",
    "Container.envFrom",
    "NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "PodAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "PodAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "PodSecurityContext.supplementalGroups",
    "PodSpec.tolerations",
];

#[test]
fn the_keys_of_lists_are_those_that_the_api_declares() {
    let answers = answers();
    let mut sets = BTreeSet::new();
    each_settable(pod(), &mut BTreeSet::new(), &mut |object, field| {
        let Shape::List { merge, .. } = field.shape else { return };
        let name = format!("{}.{}", object.name, field.name);
        let declared = &answers["types"][object.name][field.name];
        let keys: Vec<&str> =
            declared["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        match merge {
            ListMerge::Keyed(described) => assert_eq!(described, keys, "{name}"),
            ListMerge::Atomic => assert!(keys.is_empty(), "{name} has the keys {keys:?}"),
            ListMerge::Set => {
                assert!(keys.is_empty(), "{name} has the keys {keys:?}");
                sets.insert(name);
            }
        }
    });
    assert_eq!(sets, SETS.iter().map(|name| (*name).to_owned()).collect());
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
