//! The schemas of the maps of the language.

use serde_json::{Map, Value, json};

use fabric_policy::ParameterType;
use fabric_policy::interpolation::BUILT_IN;
use fabric_policy::keys::{self, Kind, PARAMETER};
use fabric_policy::parameter::OLD_KEYS;

use super::strings::{CONDITION, QUANTITY, matching, text};

/// The file of which a map is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Whole,
    /// It extends others, which can have the other keys of some maps.
    Extension,
}

/// The schema of a map.
pub(super) fn map(map: &'static keys::Map, file: File) -> Value {
    let whole = file == File::Whole || !map.is_extended;
    let mut properties = Map::new();
    for key in map.keys {
        let mut schema = json!({"description": key.description});
        merge(&mut schema, value(&key.kind, file, whole));
        properties.insert(key.name.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let required: Vec<&str> = map.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    if whole && !required.is_empty() {
        schema["required"] = required.into();
    }
    if whole && !map.some_of.is_empty() {
        merge(&mut schema, has(map.some_of.iter().copied()));
    }
    if !map.exclusive.is_empty() {
        let both: Value = map.exclusive.iter().map(|keys| json!({"required": keys})).collect();
        schema["not"] = json!({"anyOf": both});
    }
    schema
}

pub(super) fn merge(schema: &mut Value, other: Value) {
    if let (Value::Object(schema), Value::Object(other)) = (schema, other) {
        schema.extend(other);
    }
}

pub(super) fn value(kind: &'static Kind, file: File, whole: bool) -> Value {
    match kind {
        Kind::Any => json!({"not": {"type": "null"}}),
        Kind::Object => json!({"type": "object"}),
        Kind::Constant(text) => json!({"const": text}),
        Kind::Text(format) => text(*format),
        Kind::Like(pattern, form) => matching(&json!("string"), pattern, form),
        Kind::Except(kind, texts) => except(value(kind, file, whole), texts),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::Identifier(taken) => {
            let taken: Vec<&str> =
                BUILT_IN.iter().map(|known| known.name).chain(taken.iter().copied()).collect();
            let form = "letters, digits and `_`, a letter first";
            except(matching(&json!("string"), "^[A-Za-z][A-Za-z0-9_]*$", form), &taken)
        }
        Kind::Expression => json!({
            "anyOf": [matching(&json!("string"), CONDITION, "a condition without `${` and `}`"), {"type": "boolean"}]
        }),
        Kind::Count(least) => json!({"type": "integer", "minimum": least}),
        Kind::Amount => json!({"type": ["number", "string"]}),
        Kind::List(items, least) => {
            json!({"type": "array", "items": value(items, file, whole), "minItems": if whole { *least } else { 0 }})
        }
        Kind::Map(names, values, least) => json!({
            "type": "object", "propertyNames": value(names, file, whole), "additionalProperties": value(values, file, whole),
            "minProperties": least,
        }),
        Kind::Either(kinds) => {
            json!({"anyOf": kinds.iter().map(|kind| value(kind, file, whole)).collect::<Value>()})
        }
        Kind::Fields(fields) => map(fields, file),
        Kind::Spec => json!({
            "if": {"anyOf": [has(["extends"]), {"not": {"anyOf": [has(["provider"]), has(["description"])]}}]},
            "then": {"$ref": "#/$defs/extension"},
            "else": {"$ref": "#/$defs/spec"},
        }),
        Kind::Parameter if whole => parameter(File::Whole),
        Kind::Parameter => {
            json!({"if": {"type": "object"}, "then": parameter(File::Extension), "else": {"not": {"type": "null"}}})
        }
        Kind::Variable => {
            json!({"if": {"type": "object"}, "then": {"not": has(OLD_KEYS)}})
        }
        Kind::Env => json!({
            "type": "object", "propertyNames": {"$ref": "#/$defs/EnvVar/properties/name"}, "minProperties": 1,
            "additionalProperties": {"anyOf": [
                {"type": "string", "minLength": 1}, {"type": if file == File::Whole { json!("integer") } else { json!(["integer", "null"]) }},
                {
                    "type": "object", "required": ["valueFrom"], "additionalProperties": false,
                    "properties": {"valueFrom": {"$ref": "#/$defs/EnvVar/properties/valueFrom"}},
                },
            ]},
        }),
        Kind::Container => json!({"type": "object", "$ref": "#/$defs/ContainerOverlay"}),
        Kind::Pod => json!({"type": "object", "$ref": "#/$defs/Pod"}),
        Kind::Resources => {
            json!({"type": "object", "$ref": "#/$defs/ResourceRequirements/properties/limits"})
        }
        Kind::Annotations => {
            json!({"type": "object", "$ref": "#/$defs/ObjectMeta/properties/annotations"})
        }
        Kind::PartOfPod(least) => json!({"$ref": "#/$defs/Pod", "minProperties": least}),
    }
}

/// Maps with one of these keys.
fn has(keys: impl IntoIterator<Item = &'static str>) -> Value {
    json!({"anyOf": keys.into_iter().map(|key| json!({"required": [key]})).collect::<Value>()})
}

fn except(mut schema: Value, texts: &[&str]) -> Value {
    schema["not"] = json!({"enum": texts});
    schema
}

fn parameter(file: File) -> Value {
    let mut schema = map(&PARAMETER, file);
    schema["allOf"] = ParameterType::WRITTEN.map(|kind| of_type(kind.name(), kind)).to_vec().into();
    schema
}

/// The values and the keys of a parameter with this type.
fn of_type(name: &str, kind: ParameterType) -> Value {
    let mut keys = Map::new();
    for key in PARAMETER.names() {
        let is_length = kind == ParameterType::StringList && key != "default";
        let schema = match key {
            _ if !kind.goes_with(key) => Value::Bool(false),
            "fromNodes" | "fromNetworks" if kind.fact(key).is_none() => Value::Bool(false),
            "minimum" | "maximum" if is_length => json!({"type": "integer", "minimum": 0}),
            "default" | "minimum" | "maximum" => constant(kind),
            _ => continue,
        };
        keys.insert(key.to_owned(), schema);
    }
    json!({"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": {"properties": keys}})
}

fn constant(kind: ParameterType) -> Value {
    match kind {
        ParameterType::Integer => json!({"type": "integer"}),
        ParameterType::Number => json!({"type": "number"}),
        ParameterType::String => json!({"type": "string"}),
        ParameterType::Boolean => json!({"type": "boolean"}),
        ParameterType::Quantity => {
            matching(&json!(["string", "number"]), QUANTITY, "a quantity, such as `64Gi`")
        }
        ParameterType::StringList => json!({"type": "array", "items": {"type": "string"}}),
        ParameterType::Any => json!({}),
    }
}
