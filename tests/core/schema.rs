//! The JSON Schema of policy files against the parser, with a validator that knows neither.

mod cases;
mod copies;
mod corpus;
mod files;
mod keys;
mod refused;

use std::fs;
use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::Value;

use crate::helpers::root;

/// The validator of a schema, which is one itself.
fn validator(schema: &Value) -> Validator {
    assert!(jsonschema::draft202012::meta::is_valid(schema), "not a schema of draft 2020-12");
    jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// The validator of a part of a schema.
fn validator_of(schema: &Value, part: &str) -> Validator {
    let mut part = schema.pointer(part).unwrap_or_else(|| panic!("the schema has no {part}")).clone();
    part["$defs"] = schema["$defs"].clone();
    validator(&part)
}

/// The errors of the validator; empty for a valid value.
fn errors(validator: &Validator, value: &Value) -> String {
    let errors = validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
    errors.collect::<Vec<_>>().join("\n")
}

/// A YAML document as its JSON value.
fn value(text: &str) -> Value {
    let document = fabric_injector::core::yaml::read_value(text);
    document.unwrap_or_else(|error| panic!("{error} in\n{text}")).root.unwrap_or_default()
}

/// The files below a folder of the repository whose names end so.
fn files_below(folder: &str, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
