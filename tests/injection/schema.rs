//! The JSON Schema of policy files against the parser, with a validator that knows neither.

mod cases;
mod corpus;
mod files;
mod form;
mod keys;
mod refused;

use std::fs;
use std::path::PathBuf;

use corvus_json_schema::{
    CompileOptions, JsonSchemaResultsCollector, ResultsLevel, Validator, compile, compile_from_uri,
};
use serde_json::Value;

use crate::helpers::root;

/// The pages of `docs` about the language.
const LANGUAGE: [&str; 3] = ["policy.md", "policy-values.md", "extending.md"];

/// The validator of a schema, which is one itself.
pub(crate) fn validator(schema: &Value) -> Validator {
    let draft = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(schema["$schema"], draft);
    let of_schemas = compile_from_uri(draft, &CompileOptions::default()).unwrap();
    assert_eq!(errors(&of_schemas, schema), "");
    compile(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// The errors of the validator; empty for a valid value.
pub(crate) fn errors(validator: &Validator, value: &Value) -> String {
    let mut collector = JsonSchemaResultsCollector::new(ResultsLevel::Detailed);
    if validator.evaluate(value, &mut collector).unwrap() {
        return String::new();
    }
    let results = collector.results().iter();
    let errors = results.map(|error| format!("{}: {}", error.document_evaluation_location, error.message));
    errors.collect::<Vec<_>>().join("\n")
}

/// A YAML document as its JSON value.
fn value(text: &str) -> Value {
    let document = fabric_yaml::read_value(text);
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
