//! The values that a name of an expression may have.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::expression::Step;
use crate::interpolation::{BUILT_IN, Interpolation, VALUE};
use crate::parameter::{Parameter, ParameterType, Table, Variable};
use crate::schema::{Format, Object, Shape};

/// What is known of a value before there is a pod.
#[derive(Debug, Clone)]
pub(super) enum Values {
    Any,
    /// The labels of the nodes.
    Node,
    /// A string without capital letters.
    LowerCase,
    Shape(Shape),
    /// One of these.
    Constants(HashSet<Value>),
}

/// A field or a key that no value has.
pub(super) enum Missing {
    Field(&'static Object, String),
    Key(Vec<String>, String),
    /// A part of a Node that is not a label.
    Label(String),
}

const TEXT: Shape = Shape::Text(Format::Any);

impl Values {
    /// The values of a parameter, a variable or a built-in name.
    pub(super) fn named(definition: &Definition, name: &str) -> Self {
        if let Some(parameter) = definition.parameters.iter().find(|known| known.name == name) {
            return Self::of_parameter(parameter);
        }
        if let Some(variable) = definition.variables.iter().find(|known| known.name == name) {
            return Self::of_variable(definition, variable);
        }
        match name {
            VALUE => Self::Shape(TEXT),
            "node" => Self::Node,
            "gpuCounts" => {
                let resources = definition.gpus.resources.iter().map(String::as_str).chain(["claims"]);
                let counts: Map<_, _> = resources.map(|key| (key.to_owned(), Value::Null)).collect();
                Self::constants([counts.into()])
            }
            _ => {
                let known = BUILT_IN.iter().find(|known| known.name == name);
                known.map_or(Self::Any, |known| Self::Shape((known.shape)()))
            }
        }
    }

    fn of_parameter(parameter: &Parameter) -> Self {
        match (&parameter.one_of, parameter.kind) {
            (Some(values), _) => Self::constants(values.iter().cloned().map(Value::from)),
            (None, ParameterType::Any) => Self::Any,
            (None, kind) => Self::Shape(match kind {
                ParameterType::Integer | ParameterType::Number => Shape::Integer(i64::MIN, i64::MAX),
                ParameterType::Boolean => Shape::Boolean,
                ParameterType::StringList => Shape::List { items: &TEXT, keys: None },
                _ => TEXT,
            }),
        }
    }

    /// The rows of a variable, or what it selects from another name.
    fn of_variable(definition: &Definition, variable: &Variable) -> Self {
        let rows = variable.column.iter().flat_map(|column| column.tables().flat_map(Table::values));
        let rows: Vec<Value> = rows.cloned().collect();
        let selected = match variable.value.as_text() {
            Some(Interpolation::Expression(expression)) if rows.is_empty() => expression.selected(),
            _ => None,
        };
        match (selected, variable.value.clone().into_value()) {
            (Some(used), _) => Self::named(definition, &used.root).select(&used.path).unwrap_or(Self::Any),
            (None, Some(fallback)) => Self::constants(rows.into_iter().chain([fallback])),
            (None, None) => Self::Any,
        }
    }

    /// The values at a path.
    pub(super) fn select(self, path: &[Step]) -> Result<Self, Missing> {
        path.iter().try_fold(self, Self::step)
    }

    fn step(self, step: &Step) -> Result<Self, Missing> {
        Ok(match (self, step) {
            (Self::Shape(Shape::Object(object) | Shape::Atomic(object)), Step::Field(name)) => {
                let missing = || Missing::Field(object, name.clone());
                Self::Shape(object.field(name).ok_or_else(missing)?.shape)
            }
            (Self::Node, Step::Field(name)) if ["labels", "metadata", "spec", "name"].contains(&&**name) => {
                return Err(Missing::Label(name.clone()));
            }
            (Self::Node, Step::Field(_)) => Self::LowerCase,
            (Self::Shape(Shape::Map { values, .. }), Step::Field(_)) => Self::Shape(*values),
            (Self::Shape(Shape::List { items, .. }), Step::Every) => Self::Shape(*items),
            (Self::Shape(Shape::Map { .. }), Step::Every) => Self::Shape(TEXT),
            (Self::Constants(rows), Step::Field(name)) => return of_rows(&rows, name),
            (Self::Constants(rows), Step::Every) => {
                let items = rows.into_iter().filter_map(|row| match row {
                    Value::Array(items) => Some(items),
                    Value::Object(entries) => Some(entries.into_iter().map(|(key, _)| key.into()).collect()),
                    _ => None,
                });
                Self::constants(items.flatten())
            }
            _ => Self::Any,
        })
    }

    /// The keys of tables.
    pub(super) fn keys(&self) -> Vec<String> {
        let rows = if let Self::Constants(rows) = self { rows.iter().collect() } else { Vec::new() };
        rows.into_iter().filter_map(Value::as_object).flat_map(Map::keys).cloned().collect()
    }

    fn constants(values: impl IntoIterator<Item = Value>) -> Self {
        Self::Constants(values.into_iter().map(comparable).collect())
    }
}

/// A value as CEL compares it: 8 equals 8.0.
pub(super) fn comparable(value: Value) -> Value {
    if value.is_number() { value.as_f64().into() } else { value }
}

/// The values of a key in the rows that are tables.
fn of_rows(rows: &HashSet<Value>, name: &str) -> Result<Values, Missing> {
    let rows: Vec<&Value> = rows.iter().filter(|row| !row.is_null()).collect();
    let tables: Vec<&Map<String, Value>> = rows.iter().filter_map(|row| row.as_object()).collect();
    let found: Vec<Value> = tables.iter().filter_map(|table| table.get(name)).cloned().collect();
    if found.is_empty() && !tables.is_empty() && tables.len() == rows.len() {
        let keys = tables.iter().flat_map(|table| table.keys()).cloned().collect();
        return Err(Missing::Key(keys, name.to_owned()));
    }
    Ok(if found.is_empty() { Values::Any } else { Values::constants(found) })
}
