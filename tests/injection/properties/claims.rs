//! The places that a rule names, with the values that it has for them.

use serde_json::Value;

use super::generator::expressions::plain;
use super::places::{Place, clean};

/// Lists of which each entry is a value of its own, and those of containers, in which each field is one.
const BY_NAME: [&str; 5] = ["env", "volumeMounts", "volumes", "containers", "initContainers"];

/// Notes the places of an overlay. `evaluate` gives the value of a text.
pub(crate) fn claim(
    overlay: &Value,
    evaluate: &dyn Fn(&str) -> Value,
    place: &mut Place,
    claims: &mut Vec<(Place, Value)>,
) {
    let last = place.last().cloned().unwrap_or_default();
    match overlay {
        Value::String(text) => match evaluate(text) {
            Value::String(text) => claims.push((place.clone(), text.into())),
            // What an expression yields is no text to evaluate.
            computed => claim(&computed, &|text| text.into(), place, claims),
        },
        Value::Object(map) if !map.keys().any(|key| key.starts_with('$') && !key.starts_with("${")) => {
            for (key, value) in map {
                let key = evaluate(key);
                if !key.is_null() {
                    place.push(plain(&key));
                    claim(value, evaluate, place, claims);
                    place.pop();
                }
            }
        }
        Value::Array(entries) if BY_NAME.contains(&last.as_str()) => {
            for entry in entries {
                let key = if last == "volumeMounts" { "mountPath" } else { "name" };
                place.push(clean(&plain(&evaluate(&plain(&entry[key])))));
                match last.as_str() {
                    "env" if entry["valueFrom"].is_null() => {
                        claim_variable(&entry["value"], evaluate, place, claims);
                    }
                    "containers" | "initContainers" => claim(entry, evaluate, place, claims),
                    _ => claims.push((place.clone(), entry.clone())),
                }
                place.pop();
            }
        }
        value => claims.push((place.clone(), value.clone())),
    }
}

/// An empty text leaves a variable out, as `null` does.
fn claim_variable(
    value: &Value,
    evaluate: &dyn Fn(&str) -> Value,
    place: &Place,
    claims: &mut Vec<(Place, Value)>,
) {
    let value = value.as_str().map_or_else(|| value.clone(), evaluate);
    claims.push((place.clone(), if value == "" { Value::Null } else { value }));
}
