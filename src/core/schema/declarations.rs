//! The tables against the declarations of the Kubernetes API: those of the `k8s-openapi` crate and those of the API
//! server that the end-to-end tests run.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Object, Shape, pod};

/// The types of the API by name.
struct Declarations {
    definitions: Value,
    prefix: &'static str,
}

impl Declarations {
    fn of_crate() -> Self {
        let root =
            schemars::generate::SchemaSettings::draft07().into_generator().into_root_schema_for::<Pod>();
        let root = root.to_value();
        let mut definitions = root["definitions"].clone();
        definitions["Pod"] = root;
        Self { definitions, prefix: "#/definitions/" }
    }

    /// The declaration that a schema refers to, or the schema itself.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        reference.map_or(schema, |reference| &self.definitions[reference.trim_start_matches(self.prefix)])
    }
}

/// Compares a shape and the shapes in it, and reports each difference with its path.
fn compare(
    declarations: &Declarations,
    path: &str,
    shape: &Shape,
    schema: &Value,
    differences: &mut BTreeSet<String>,
) {
    let schema = declarations.resolve(schema);
    match shape {
        Shape::Opaque => {}
        Shape::Object(object) | Shape::Atomic(object) => {
            compare_fields(declarations, path, object, schema, differences);
        }
        Shape::Map { values, .. } => {
            compare(declarations, &format!("{path}.*"), values, &schema["additionalProperties"], differences);
        }
        Shape::List { items, .. } => {
            compare(declarations, &format!("{path}[]"), items, &schema["items"], differences);
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

fn compare_fields(
    declarations: &Declarations,
    path: &str,
    object: &Object,
    schema: &Value,
    differences: &mut BTreeSet<String>,
) {
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
                compare(declarations, &format!("{path}.{}", field.name), &field.shape, schema, differences);
            }
            None => {
                differences.insert(format!("{path}.{}: not declared", field.name));
            }
        }
    }
}

#[test]
fn the_fields_are_those_of_the_crate() {
    let declarations = Declarations::of_crate();
    let mut differences = BTreeSet::new();
    compare(&declarations, "Pod", &Shape::Object(pod()), &declarations.definitions["Pod"], &mut differences);
    assert_eq!(differences, BTreeSet::new());
}
