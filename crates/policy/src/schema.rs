//! The fields of a Pod: their types, the keys of their lists, the defaults that the API server fills in, and which of
//! them an overlay can set.
//!
//! The tables list every field that the Kubernetes API declares for a Pod. A field that no Pod has is therefore an error
//! when a policy is loaded, and merging finds an entry to which the API server has added defaults. `tables` makes them of
//! the declarations and of what this program says about types (`types`), values (`values`), and what an overlay cannot
//! set (`refused`, `excluded`).

#[cfg(test)]
mod acceptance;
mod covers;
#[cfg(test)]
mod declarations;
mod defaults;
mod exclusion;
mod exclusion_table;
mod format;
mod refused;
mod rules;
mod tables;
mod types;
mod validity;
mod values;

use serde_json::{Map, Value};

use fabric_yaml::pointer::unescape;

use exclusion_table::HOST_NETWORK;
use tables::TABLES;

pub use covers::covers;
pub use defaults::{complete, requests_of, same};
pub use format::{Format, SETTINGS_DOMAIN};
pub use rules::{AMOUNT_LISTS, can_overcommit, is_extended_resource, resource_amount, resource_pair};
pub(crate) use validity::check_port;

/// The type `Pod`.
pub fn pod() -> &'static Object {
    TABLES.pod
}

/// The type of an entry of `spec.containers` and `spec.initContainers`.
pub fn container() -> &'static Object {
    TABLES.container
}

/// The type of `resources` of a container.
pub fn resources() -> &'static Object {
    TABLES.resources
}

/// The type of an entry of `env` of a container.
pub(crate) fn variable() -> &'static Object {
    TABLES.variable
}

/// The value of a pod next to which the API server refuses `hostNetwork: true`.
pub fn excludes_host_network(pod: &Value) -> Option<String> {
    let spec = pod["spec"].as_object()?;
    let excluded = HOST_NETWORK.iter().find(|one| one.applies(&Value::Bool(true), spec, pod));
    excluded.map(Exclusion::describe)
}

/// The type of an entry of `spec.volumes`.
pub fn volume() -> &'static Object {
    TABLES.volume
}

/// The shape of the value at a JSON Pointer from the pod; `None` where the tables have none.
pub fn shape_at(pointer: &str) -> Option<Shape> {
    pointer.split('/').skip(1).try_fold(Shape::Object(pod()), |shape, token| shape.inner(&unescape(token)))
}

/// A rule about several fields of one object. It receives the object and returns its fault.
pub(crate) type Rule = fn(&Map<String, Value>) -> Result<(), String>;

/// A type of the Kubernetes API, such as `Container`.
#[derive(Debug)]
pub struct Object {
    /// Its name in the API.
    pub name: &'static str,
    /// All of its fields.
    pub fields: &'static [Field],
    /// Fields, exactly one of which an object has, such as the source of a volume.
    pub exactly_one_of: &'static [&'static str],
    /// Fields, at most one of which an object has.
    pub at_most_one_of: &'static [&'static str],
    /// Any other rule about several of its fields.
    pub(crate) rule: Option<Rule>,
}

/// A field of an [`Object`].
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// If true, the API server refuses an object without the field.
    pub required: bool,
    /// The value that the API server fills in.
    pub default: Default,
    pub overlay: Overlay,
}

/// The type of the value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// An object with the fields of a type. Two objects become one field by field.
    Object(&'static Object),
    /// An object with the fields of a type that is one value: kept or replaced as a whole.
    Atomic(&'static Object),
    /// An object with keys of the user's choice. Two of them become one key by key.
    Map {
        /// The form of a key.
        keys: Format,
        values: &'static Shape,
    },
    List {
        items: &'static Shape,
        /// The fields with whose values an entry of an overlay and one of the pod are the same entry; without fields,
        /// equal entries are. `None` for a list that is one value.
        keys: Option<&'static [&'static str]>,
    },
    Text(Format),
    /// A whole number within inclusive bounds.
    Integer(i64, i64),
    /// `true` or `false`.
    Boolean,
    /// A resource quantity: a string or a number.
    Quantity,
    /// A port: a number or a name.
    PortNumberOrName,
    /// A value that this program does not look into.
    Opaque,
}

impl Shape {
    /// The shape of a field, of the value of a key or of an item; `None` where the tables have none.
    pub fn inner(&self, key: &str) -> Option<Self> {
        match self {
            Self::Object(object) | Self::Atomic(object) => Some(object.field(key)?.shape),
            Self::Map { values, .. } => Some(**values),
            Self::List { items, .. } => Some(**items),
            _ => None,
        }
    }
}

/// The value that the API server fills in where a pod has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// None: the field stays absent.
    Absent,
    /// The empty value of the type: `""`, `0` or `false`. The API server leaves a field with that value out.
    Empty,
    Text(&'static str),
    /// A string, which also replaces `""`.
    TextForEmpty(&'static str),
    Integer(i64),
    /// A number, which also replaces `0`.
    IntegerForZero(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// An object without fields of its own; its fields may have defaults.
    EmptyObject,
    /// A value that depends on other fields or on the cluster.
    Computed,
}

/// The condition under which an overlay can set a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overlay {
    /// An overlay can set it, and every valid pod stays valid.
    Settable,
    /// An overlay can set it, unless the pod has one of these values in another field.
    Unless(&'static [Exclusion]),
    /// No overlay can set it, for this reason, which follows "an overlay cannot set `x`: ".
    Refused(&'static str),
}

/// A value that excludes a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exclusion {
    /// The value of the field that is excluded; any value if `None`.
    pub(crate) value: Option<Literal>,
    /// JSON Pointer to the other field. It starts at the pod if it has a leading `/`, else at the object that has this
    /// field. A `*` at the end of a segment matches any rest: `containers/*/ports` are the ports of all containers.
    pub(crate) path: &'static str,
    /// The value of the other field; any value if `None`.
    pub(crate) is: Option<Literal>,
}

/// A scalar of an [`Exclusion`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Literal {
    Text(&'static str),
    Boolean(bool),
    /// Containers, or one of them, with ports that cannot all be ports of the node.
    PortsOffTheNode,
}

/// There is one table for each type.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Object {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field whose object has a field of this name.
    pub(crate) fn field_with(&self, name: &str) -> Option<&'static Field> {
        let has_it = |field: &&Field| match &field.shape {
            Shape::Object(within) | Shape::Atomic(within) => within.field(name).is_some(),
            _ => false,
        };
        self.fields.iter().find(has_it)
    }
}

impl Field {
    /// The default that does not depend on other fields.
    pub fn static_default(&self) -> Option<Value> {
        match self.default {
            Default::Absent | Default::Empty | Default::Computed => None,
            Default::Text(text) | Default::TextForEmpty(text) => Some(Value::from(text)),
            Default::Integer(number) | Default::IntegerForZero(number) => Some(Value::from(number)),
            Default::Boolean(value) => Some(Value::from(value)),
            Default::EmptyObject => Some(Value::Object(Map::new())),
        }
    }
}
