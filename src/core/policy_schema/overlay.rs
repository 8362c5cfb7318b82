//! The schemas of overlays, from the tables of the fields of a Pod.
//!
//! An object is merged field by field or is one value, as in [`crate::core::policy::overlay`]: an object that is one
//! value has all the fields that the API server requires.

mod edits;

use serde_json::{Map, Value, json};

use crate::core::policy::NETWORKS;
use crate::core::policy::overlay::can_replace;
use crate::core::schema::{Default, Field, Format, ListMerge, Object, Overlay, Shape, container, pod};

use super::keys::Schema;
use super::names;
use super::strings::{EXPRESSION, INTERPOLATED};

/// The way in which an object of an overlay joins that of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Merged,
    Whole,
}

/// The definitions of the types that overlays use.
#[derive(Debug, Default)]
pub(super) struct Overlays {
    definitions: Map<String, Value>,
    /// The name of the definition of each type.
    named: Vec<(*const Object, Mode, String)>,
}

impl Overlays {
    /// All definitions. Those of a rule's overlays are `ContainerOverlay` and `PodOverlay`.
    pub(super) fn definitions() -> Map<String, Value> {
        let mut overlays = Self { definitions: edits::definitions(), named: Vec::new() };
        let selected = overlays.container(false);
        overlays.define("ContainerOverlay", selected.described("The fields to add to a container."));
        let named = overlays.container(true);
        overlays.define("NamedContainerOverlay", named.described(NAMED));
        let pod = overlays.pod();
        overlays.define("PodOverlay", pod.described("The fields to add to a pod."));
        overlays.definitions
    }

    fn define(&mut self, name: &str, schema: Schema) {
        self.definitions.insert(name.to_owned(), schema.into());
    }

    /// A container that a rule selects, or a container of the pod that has a name.
    fn container(&mut self, named: bool) -> Schema {
        let fields = self.fields(container(), Mode::Merged, |field| named || field.name != "name");
        let schema = object_of(fields).with("type", "object");
        if named { schema.with("required", json!(["name"])) } else { schema }
    }

    fn pod(&mut self) -> Schema {
        let mut fields = Map::new();
        for field in pod().fields.iter().filter(|field| settable(field)) {
            let schema = match field.shape {
                Shape::Object(spec) if field.name == "spec" => {
                    let fields = self.fields(spec, Mode::Merged, |_| true);
                    object_of(fields).with("type", "object")
                }
                _ => self.merged(pod(), field),
            };
            fields.insert(field.name.to_owned(), schema.into());
        }
        object_of(fields).with("type", "object")
    }

    /// The definition of a type; a reference to it.
    fn reference(&mut self, object: &'static Object, mode: Mode) -> Schema {
        let known = self.named.iter().find(|(known, how, _)| std::ptr::eq(*known, object) && *how == mode);
        if let Some((_, _, name)) = known {
            return Schema::reference(name);
        }
        let name = self.free_name(object.name);
        self.named.push((object, mode, name.clone()));
        let fields = self.fields(object, mode, |_| true);
        let schema = object_of(fields);
        let schema = if mode == Mode::Whole { complete(schema, object) } else { schema };
        self.define(&name, schema.described(&format!("{} of the Kubernetes API.", object.name)));
        Schema::reference(&name)
    }

    /// The API has several types of one name, of which the tables have the parts that one place can have.
    fn free_name(&self, name: &str) -> String {
        let is_free = |name: &String| self.named.iter().all(|(_, _, known)| known != name);
        let mut numbered = (2..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned()).chain(&mut numbered).find(is_free).unwrap_or_default()
    }

    /// The fields of a type that an overlay can set.
    fn fields(
        &mut self,
        object: &'static Object,
        mode: Mode,
        keep: impl Fn(&Field) -> bool,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        for field in object.fields.iter().filter(|field| settable(field) && keep(field)) {
            let schema = match mode {
                Mode::Merged => self.merged(object, field),
                Mode::Whole if (object.name, field.name) == ("EnvVar", "value") => edits::of_variable(),
                Mode::Whole => self.whole(&field.shape),
            };
            let schema = match field.static_default() {
                Some(default) if default.is_string() || default.is_number() || default.is_boolean() => {
                    schema.with("default", default)
                }
                _ => schema,
            };
            fields.insert(field.name.to_owned(), schema.into());
        }
        fields
    }

    /// A field of an object that is merged.
    fn merged(&mut self, object: &'static Object, field: &'static Field) -> Schema {
        match (object.name, field.name, &field.shape) {
            ("PodSpec", "containers" | "initContainers", _) => {
                Schema::list(Schema::reference("NamedContainerOverlay")).with("minItems", 1)
            }
            ("PodSpec", "volumes", Shape::List { items, .. }) => {
                Schema::list(self.entry(items, &["name"])).with("minItems", 1)
            }
            ("ObjectMeta", "annotations", Shape::Map { keys, .. }) => {
                let networks: Value = edits::of_networks().into();
                map(*keys, edits::of_annotation()).with("properties", json!({NETWORKS: networks}))
            }
            // Capabilities are added and dropped one by one.
            ("Capabilities", _, shape) => self.whole(shape),
            (_, _, Shape::Object(within)) => or_expression(self.reference(within, Mode::Merged), "object"),
            (_, _, shape @ Shape::List { .. }) if can_replace(object, field) => {
                let list: Value = self.whole(shape).into();
                replaceable(list)
            }
            (_, _, shape) => self.whole(shape),
        }
    }

    /// A value that is not merged further.
    fn whole(&mut self, shape: &Shape) -> Schema {
        match shape {
            Shape::Object(object) | Shape::Atomic(object) => {
                or_expression(self.reference(object, Mode::Whole), "object")
            }
            Shape::Map { keys, values } => map(*keys, self.whole(values)),
            Shape::List { items, merge } => {
                let keys = if let ListMerge::Keyed(keys) = merge { keys } else { &[][..] };
                let list = Schema::list(self.entry(items, keys)).with("minItems", 1);
                or_expression(list, "array")
            }
            Shape::Text(Format::OneOf(values)) => {
                let form = Format::OneOf(values).description();
                let expression = Schema::default().matching(INTERPOLATED, &form);
                let known = Schema::default().with("enum", values.to_vec());
                Schema::any_of([known, expression]).with("type", "string")
            }
            Shape::Text(format) => interpolated(Schema::of(&["string"]), *format),
            Shape::Integer(least, most) => number(*least, *most).matching(INTERPOLATED, NUMBER),
            Shape::Boolean => Schema::of(&["boolean", "string"])
                .matching(EXPRESSION, "`true` or `false` without quotes, or one expression: `${…}`"),
            Shape::Quantity => {
                let pattern = format!("{}|{INTERPOLATED}", names::QUANTITY);
                Schema::of(&["string", "number"]).matching(pattern, "a quantity, such as `64Gi`")
            }
            Shape::PortNumberOrName => interpolated(number(1, 65535), Format::PortName),
            Shape::Opaque => Schema::default(),
        }
    }

    /// An entry of a list. The first of its keys is the one without a default.
    fn entry(&mut self, items: &Shape, keys: &[&str]) -> Schema {
        let (Shape::Object(object) | Shape::Atomic(object)) = items else { return self.whole(items) };
        let entry = self.reference(object, Mode::Whole).with("type", "object");
        match keys.first() {
            Some(key) => entry.with("required", json!([key])),
            None => entry,
        }
    }
}

const NUMBER: &str = "a number without quotes, or an expression: `${…}`";
const NAMED: &str =
    "A container of the pod by its name. If the pod has none and the overlay has an image, it is added.";

fn settable(field: &Field) -> bool {
    !matches!(field.overlay, Overlay::Refused(_))
}

/// An object without a type, so that a reference to it can allow an expression.
fn object_of(fields: Map<String, Value>) -> Schema {
    Schema::default().with("properties", fields).with("additionalProperties", false)
}

/// The schema of an object or a list, or one expression that yields it.
fn or_expression(schema: Schema, kind: &str) -> Schema {
    let form = if kind == "array" {
        "a list, or one expression: `${…}`"
    } else {
        "a map, or one expression: `${…}`"
    };
    schema.with("type", json!([kind, "string"])).matching(EXPRESSION, form)
}

fn map(keys: Format, values: Schema) -> Schema {
    let schema = or_expression(Schema::map(values), "object");
    match names::pattern(keys) {
        Some(pattern) => {
            let names = Schema::default();
            let pattern = format!("{pattern}|{INTERPOLATED}");
            schema.with("propertyNames", names.matching(pattern, &keys.description()))
        }
        None => schema,
    }
}

/// A list, or `$replace` with the list that takes the place of the pod's.
fn replaceable(list: Value) -> Schema {
    let Value::Object(mut list) = list else { return Schema::default() };
    let mut replacement = list.clone();
    replacement.remove("minItems");
    replacement.insert("description".to_owned(), "The list that takes the place of the pod's.".into());
    list.insert("type".to_owned(), json!(["array", "string", "object"]));
    let schema = list.into_iter().fold(Schema::default(), |schema, (key, value)| schema.with(&key, value));
    schema
        .with("properties", json!({"$replace": replacement}))
        .with("required", json!(["$replace"]))
        .with("additionalProperties", false)
}

/// A scalar whose text has this form or an expression in it.
fn interpolated(schema: Schema, format: Format) -> Schema {
    match names::pattern(format) {
        Some(pattern) => schema.matching(format!("{pattern}|{INTERPOLATED}"), &format.description()),
        None => schema,
    }
}

fn number(least: i64, most: i64) -> Schema {
    let mut schema = Schema::of(&["integer", "string"]);
    if least != i64::MIN {
        schema = schema.with("minimum", least);
    }
    if most != i64::MAX {
        schema = schema.with("maximum", most);
    }
    schema
}

/// The fields that an object has to have, and those that exclude each other.
fn complete(schema: Schema, object: &Object) -> Schema {
    let is_settable = |name: &&&str| object.field(name).is_some_and(settable);
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let schema = if required.is_empty() { schema } else { schema.with("required", required) };
    let has_default = |name: &&str| object.field(name).is_some_and(|field| field.default != Default::Absent);
    let (names, optional) = match (object.exactly_one_of, object.at_most_one_of) {
        ([], []) => return schema,
        ([], [one, other]) => return schema.with("not", json!({"required": [one, other]})),
        ([], names) => (names, true),
        (names, _) => (names, names.iter().any(has_default)),
    };
    let one: Vec<Value> = names.iter().filter(is_settable).map(|name| json!({"required": [name]})).collect();
    let none = json!({"not": {"anyOf": one.clone()}});
    schema.with("oneOf", one.into_iter().chain(optional.then_some(none)).collect::<Vec<_>>())
}
