//! The schemas of the objects in a Pod, from the tables of its fields: of those in overlays, and of those in cases.

use serde_json::{Map, Value, json};

use fabric_policy::NETWORKS;
use fabric_policy::keys::{ATTACHED, ENTRIES};
use fabric_policy::schema::{Default, Field, Format, Object, Shape, pod};

use super::keys::{File, merge, value};
use super::strings::{INTERPOLATED, QUANTITY, WHOLE, interpolated, matching};

/// The definitions of the objects that a rule adds: `ContainerOverlay` and `Pod`, and those in them.
pub(super) fn overlays() -> Map<String, Value> {
    let mut objects = Objects::default();
    objects.reference(pod(), false);
    let mut selected = objects.definitions["Container"].clone();
    if let Some(fields) = selected["properties"].as_object_mut() {
        fields.shift_remove("name");
        // It is a key of the rule.
        fields.shift_remove("env");
    }
    objects.definitions.insert("ContainerOverlay".to_owned(), selected);
    objects.definitions
}

/// The definitions of parts of a pod: `Pod`, and the objects in it. Only the names of fields are known, since `null`
/// removes any field.
pub(super) fn parts() -> Map<String, Value> {
    let mut objects = Objects { are_parts: true, ..Objects::default() };
    objects.reference(pod(), false);
    objects.definitions
}

#[derive(Debug, std::default::Default)]
struct Objects {
    definitions: Map<String, Value>,
    /// The names of the definitions, of objects that become one field by field and of those that are one value.
    named: Vec<(&'static Object, bool, String)>,
    are_parts: bool,
}

impl Objects {
    /// A reference to the definition of an object.
    fn reference(&mut self, object: &'static Object, is_one_value: bool) -> Value {
        let known = self.named.iter().find(|(known, one, _)| *known == object && *one == is_one_value);
        if let Some((_, _, name)) = known {
            return json!({"$ref": format!("#/$defs/{name}")});
        }
        // The API has several types of one name. The tables have the parts that one place can have.
        let same = self.named.iter().filter(|(known, _, _)| known.name == object.name).count();
        let name = if same == 0 { object.name.to_owned() } else { format!("{}-{}", object.name, same + 1) };
        self.named.push((object, is_one_value, name.clone()));
        let (mut fields, are_parts) = (Map::new(), self.are_parts);
        for field in object.fields.iter().filter(|field| are_parts || field.is_settable()) {
            fields.insert(field.name.to_owned(), self.field(object, field, is_one_value));
        }
        let description = format!("{} of the Kubernetes API.", object.name);
        let mut schema =
            json!({"description": description, "properties": fields, "additionalProperties": false});
        if is_one_value {
            complete(&mut schema, object);
        }
        self.definitions.insert(name.clone(), schema);
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn field(&mut self, object: &'static Object, field: &'static Field, is_one_value: bool) -> Value {
        if self.are_parts {
            return self.schema_of_part(&field.shape);
        }
        let mut schema = self.value(&field.shape);
        match (object.name, field.name) {
            // An expression cannot yield them.
            ("Pod", "spec") => restrict(&mut schema, "object"),
            ("PodSpec", "containers" | "initContainers" | "volumes") => restrict(&mut schema, "array"),
            ("ObjectMeta", "annotations") if !is_one_value => {
                let field = r"^[^\[\]]+\[[^\[\]]+\]$";
                let listed =
                    matching(&json!("string"), field, "a key with a field, as in `example.com/list[name]`");
                schema["propertyNames"] = json!({"anyOf": [schema["propertyNames"], listed]});
                schema["properties"] = json!({NETWORKS: value(&ATTACHED, File::Whole, true)});
                schema["patternProperties"] = json!({field: value(&ENTRIES, File::Whole, true)});
            }
            _ => {}
        }
        if let Some(default @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) = field.static_default()
        {
            schema["default"] = default;
        }
        schema
    }

    /// A value of an overlay.
    fn value(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Object(object) => or_expression(self.reference(object, false), "object"),
            Shape::Atomic(object) => or_expression(self.reference(object, true), "object"),
            Shape::Map { keys, values } => {
                let names = interpolated(&json!("string"), *keys);
                or_expression(
                    json!({"propertyNames": names, "additionalProperties": self.value(values)}),
                    "object",
                )
            }
            Shape::List { items, keys } => {
                let mut entry = self.value(items);
                if let Shape::Object(_) | Shape::Atomic(_) = items {
                    restrict(&mut entry, "object");
                }
                // The first of the keys is the one without a default.
                if let Some([key, ..]) = keys {
                    entry["required"] = json!([key]);
                }
                or_expression(json!({"items": entry, "minItems": 1}), "array")
            }
            Shape::Text(format) => interpolated(&json!("string"), *format),
            Shape::Integer(least, most) => {
                let form = "a number without quotes, or an expression: `${…}`";
                bounded(matching(&json!(["integer", "string"]), INTERPOLATED, form), *least, *most)
            }
            Shape::Boolean => {
                let form = "`true` or `false` without quotes, or one expression: `${…}`";
                matching(&json!(["boolean", "string"]), WHOLE, form)
            }
            Shape::Quantity => {
                let pattern = format!("{QUANTITY}|{INTERPOLATED}");
                matching(&json!(["string", "number"]), &pattern, "a quantity, such as `64Gi`")
            }
            Shape::PortNumberOrName => {
                bounded(interpolated(&json!(["integer", "string"]), Format::PortName), 1, 65535)
            }
            Shape::Opaque => json!({}),
        }
    }

    /// A value of a part of a pod.
    fn schema_of_part(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Object(object) | Shape::Atomic(object) => self.reference(object, false),
            Shape::List { items, .. } => json!({"items": self.schema_of_part(items)}),
            Shape::Text(Format::OneOf(values)) => json!({"examples": values}),
            Shape::Boolean => json!({"examples": [true, false]}),
            _ => json!({}),
        }
    }
}

/// An object or a list, or one expression that yields it.
fn or_expression(mut schema: Value, kind: &str) -> Value {
    let form = if kind == "array" { "a list" } else { "a map" };
    merge(
        &mut schema,
        matching(&json!([kind, "string"]), WHOLE, &format!("{form}, or one expression: `${{…}}`")),
    );
    schema
}

/// Takes the expression away again.
fn restrict(schema: &mut Value, kind: &str) {
    schema["type"] = kind.into();
    for keyword in ["pattern", "patternErrorMessage"] {
        schema.as_object_mut().map(|schema| schema.shift_remove(keyword));
    }
}

fn bounded(mut schema: Value, least: i64, most: i64) -> Value {
    if least != i64::MIN {
        schema["minimum"] = least.into();
    }
    if most != i64::MAX {
        schema["maximum"] = most.into();
    }
    schema
}

/// Adds the required fields of an object, and those that exclude each other.
fn complete(schema: &mut Value, object: &Object) {
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    let has_default = |name: &&str| object.field(name).is_some_and(|field| field.default != Default::Absent);
    let (names, is_optional) = match (object.exactly_one_of, object.at_most_one_of) {
        ([], []) => return,
        ([], names) => (names, true),
        (names, _) => (names, names.iter().any(has_default)),
    };
    let names = names.iter().filter(|name| object.field(name).is_some_and(Field::is_settable));
    let mut one: Vec<Value> = names.map(|name| json!({"required": [name]})).collect();
    if is_optional {
        one.push(json!({"not": {"anyOf": one.clone()}}));
    }
    schema["oneOf"] = one.into();
}
