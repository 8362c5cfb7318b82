//! Variants of a policy that have to give the same pods.

use serde_json::{Value, json};

use super::generator::items;
use super::places::clean;

/// The policy with two neighbouring rules in the other order, if there are two that touch nothing in common.
pub(crate) fn permuted(document: &Value) -> Option<Value> {
    let rules = items(&document["spec"]["rules"]);
    let touched: Vec<Vec<Vec<String>>> = rules.iter().map(touched).collect();
    let unrelated =
        |at: &usize| touched[*at].iter().all(|one| touched[at + 1].iter().all(|other| !overlap(one, other)));
    let at = (0..rules.len().saturating_sub(1)).find(unrelated)?;
    let mut document = document.clone();
    document["spec"]["rules"].as_array_mut()?.swap(at, at + 1);
    Some(document)
}

/// The policy with a warning that never holds, and that reads all there is to read.
pub(crate) fn curious(document: &Value) -> Value {
    let mut document = document.clone();
    let when = "${size(pod) < 0 || podNamespace == '?' || totalGpus < 0 || (hostNetwork && !hostNetwork) \
                || size(node) < 0 || size(podRequests) < 0 || size(claimNames) < 0}";
    let warning = json!({"name": "never", "when": when, "message": "never"});
    match document["spec"]["checks"].as_array_mut() {
        Some(warnings) => warnings.push(warning),
        None => document["spec"]["checks"] = json!([warning]),
    }
    document
}

/// The places that a rule touches. `*` is any name.
fn touched(rule: &Value) -> Vec<Vec<String>> {
    let mut places = Vec::new();
    collect(&rule["container"], &mut vec!["container".to_owned(), "*".to_owned()], &mut places);
    collect(&rule["pod"], &mut Vec::new(), &mut places);
    places
}

fn collect(value: &Value, place: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
    // Fields that depend on each other count as one.
    let whole = [
        "resources",
        "securityContext",
        "ports",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ];
    let last = place.last().cloned().unwrap_or_default();
    match value {
        Value::Object(map) if !whole.contains(&last.as_str()) => {
            for (key, value) in map {
                place.push(if key.contains("${") { "*".to_owned() } else { key.clone() });
                collect(value, place, places);
                place.pop();
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                let name = match (last.as_str(), &entry["name"], &entry["mountPath"]) {
                    ("volumeMounts", name, Value::String(path)) => {
                        // A volume may take another name, which its mounts follow.
                        places.push(vec![
                            "spec".to_owned(),
                            "volumes".to_owned(),
                            name.as_str().unwrap_or("*").to_owned(),
                        ]);
                        if path.contains("${") { "*".to_owned() } else { clean(path) }
                    }
                    (_, Value::String(name), _) if !name.contains("${") => name.clone(),
                    _ => "*".to_owned(),
                };
                let container = last == "containers" || last == "initContainers";
                if container {
                    collect(entry, &mut vec!["container".to_owned(), name], places);
                } else if last == "env" || last == "volumeMounts" || last == "volumes" {
                    places.push([place.as_slice(), &[name]].concat());
                } else {
                    places.push(place.clone());
                }
            }
        }
        Value::Null => {}
        _ => places.push(place.clone()),
    }
}

fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other || one == "*" || other == "*")
}
