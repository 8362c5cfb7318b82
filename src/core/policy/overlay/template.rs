//! Values with expressions in them, and how they are built.

use serde_json::{Map, Value};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::parameter::plain;
use crate::core::quantity::Quantity;
use crate::core::schema::{Field, Format, Object, Shape, check};

use super::compile::compile_value;
use super::source::Source;

/// A value to build.
#[derive(Debug, Clone)]
pub(crate) enum Template {
    /// A value without expressions. `null` leaves it out.
    Constant(Value),
    /// The value of an expression, or a string with expressions in it.
    Computed(Interpolation, Shape),
    /// An object of the schema.
    Object(&'static Object, Vec<(&'static Field, Template)>),
    /// An object with keys of the user's choice.
    Map(Format, Vec<(Interpolation, Template)>),
    List(Vec<Element>),
}

/// An entry of a list. It is left out as soon as one of its direct fields is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element(pub(crate) Template);

impl Template {
    /// The value; `None` to leave it out.
    pub(crate) fn build(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
        match self {
            Self::Constant(Value::Null) => Ok(None),
            Self::Constant(value) => Ok(Some(value.clone())),
            Self::Computed(text, shape) => evaluate(text, shape, bindings),
            Self::Object(object, fields) => build_object(object, fields, false, bindings),
            Self::Map(keys, entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, value) in entries {
                    if let Some(key) = evaluate_key(key, *keys, bindings)?
                        && let Some(value) = value.build(bindings)?
                    {
                        map.insert(key, value);
                    }
                }
                // A map that the author wrote empty is meant to be there; one that became empty is not.
                Ok((!map.is_empty() || entries.is_empty()).then_some(Value::Object(map)))
            }
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(item.build(bindings)?);
                }
                Ok((!list.is_empty() || items.is_empty()).then_some(Value::Array(list)))
            }
        }
    }

    /// The string under a literal field.
    pub(crate) fn literal(&self, name: &str) -> Option<&str> {
        let value = match self {
            Self::Constant(value) => &value[name],
            Self::Object(_, fields) => match fields.iter().find(|(field, _)| field.name == name)? {
                (_, Self::Constant(value)) => value,
                _ => return None,
            },
            _ => return None,
        };
        value.as_str()
    }

    /// Calls `visit` with every interpolation.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match self {
            Self::Constant(_) => {}
            Self::Computed(text, _) => visit(text),
            Self::Object(_, fields) => fields.iter().for_each(|(_, value)| value.texts(visit)),
            Self::Map(_, entries) => {
                for (key, value) in entries {
                    visit(key);
                    value.texts(visit);
                }
            }
            Self::List(items) => items.iter().for_each(|item| item.0.texts(visit)),
        }
    }
}

impl Element {
    /// The value; `None` to leave it out.
    pub(crate) fn build(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
        match &self.0 {
            Template::Object(object, fields) => build_object(object, fields, true, bindings),
            template => template.build(bindings),
        }
    }
}

/// Builds an object. If a field that the API server requires is left out, the object is too. With `all`, that holds for
/// each of its fields.
fn build_object(
    object: &'static Object,
    fields: &[(&'static Field, Template)],
    all: bool,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<Value>, EvaluationError> {
    let mut map = Map::with_capacity(fields.len());
    for (field, template) in fields {
        match template.build(bindings)? {
            Some(value) => {
                map.insert(field.name.to_owned(), value);
            }
            None if all || field.required || object.exactly_one_of.contains(&field.name) => return Ok(None),
            None => {}
        }
    }
    if map.is_empty() && !fields.is_empty() {
        return Ok(None);
    }
    let value = Value::Object(map);
    // Each field is valid by itself; the rules over several fields depend on which of them are left.
    match check(&value, &Shape::Atomic(object)) {
        Ok(()) => Ok(Some(value)),
        Err(invalid) => Err(EvaluationError { expression: source_of(fields), message: invalid.message }),
    }
}

/// The first expression in the fields of an object, for a message.
fn source_of(fields: &[(&'static Field, Template)]) -> String {
    let mut source = None;
    fields.iter().for_each(|(_, template)| {
        template.texts(&mut |text| {
            source.get_or_insert_with(|| text.source());
        })
    });
    source.unwrap_or_default()
}

/// Evaluates a value for a field of this shape.
fn evaluate(
    text: &Interpolation,
    shape: &Shape,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<Value>, EvaluationError> {
    let value = text.evaluate(bindings)?;
    let failed = |message: String| EvaluationError { expression: text.source(), message };
    if !is_structure(shape) {
        return accept(&value, shape).map_err(failed);
    }
    let Some(source) = Source::of_value(&value) else { return Ok(None) };
    let template = compile_value(&source, shape).map_err(|error| failed(error.message))?;
    template.build(bindings)
}

/// Evaluates a key of a map.
pub(crate) fn evaluate_key(
    key: &Interpolation,
    format: Format,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<String>, EvaluationError> {
    if let Interpolation::Literal(text) = key {
        return Ok(Some(text.clone()));
    }
    let value = key.evaluate(bindings)?;
    let accepted = accept(&value, &Shape::Text(format));
    accepted
        .map(|value| value.map(|value| plain(&value)))
        .map_err(|message| EvaluationError { expression: key.source(), message })
}

/// Returns whether a field of this shape holds an object or a list.
pub(crate) fn is_structure(shape: &Shape) -> bool {
    matches!(shape, Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. } | Shape::List { .. })
}

/// Brings the result of an expression into the form of a scalar field: `None` for `null`, which leaves out the field.
pub(crate) fn accept(value: &Value, shape: &Shape) -> Result<Option<Value>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let accepted = match shape {
        Shape::Text(format) => match value {
            Value::Object(_) | Value::Array(_) => None,
            value => {
                let text = plain(value);
                format.check(&text).map_err(|problem| format!("the result is `{text}`: {problem}"))?;
                Some(Value::String(text))
            }
        },
        Shape::Integer(least, most) => value
            .as_i64()
            .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
            .filter(|number| (*least..=*most).contains(number))
            .map(Value::from),
        Shape::Boolean => value.as_bool().map(Value::Bool),
        Shape::Quantity => Quantity::from_value(value).map(|_| Value::String(plain(value))),
        Shape::PortNumberOrName => (value.is_i64() || value.is_string()).then(|| value.clone()),
        _ => None,
    };
    let wanted = || format!("the result is `{}` where the field needs {}", plain(value), describe(shape));
    accepted.map(Some).ok_or_else(wanted)
}

/// The values that a field of this shape takes, for a message.
pub(crate) fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. } => "a map".to_owned(),
        Shape::List { .. } => "a list".to_owned(),
        Shape::Text(_) => "a string".to_owned(),
        Shape::Integer(i64::MIN, i64::MAX) => "a whole number".to_owned(),
        Shape::Integer(least, i64::MAX) => format!("a whole number of at least {least}"),
        Shape::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Shape::Boolean => "`true` or `false`".to_owned(),
        Shape::Quantity => "a quantity such as `64Gi`".to_owned(),
        Shape::PortNumberOrName => "a whole number or a string".to_owned(),
        Shape::Opaque => "another value".to_owned(),
    }
}

/// Two templates are equal if they are written in the same way.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Constant(one), Self::Constant(other)) => one == other,
            (Self::Computed(one, _), Self::Computed(other, _)) => one == other,
            (Self::Object(_, one), Self::Object(_, other)) => {
                let names =
                    |fields: &[(&Field, _)]| fields.iter().map(|(field, _)| field.name).collect::<Vec<_>>();
                let values = one.iter().map(|(_, value)| value).eq(other.iter().map(|(_, value)| value));
                values && names(one) == names(other)
            }
            (Self::Map(_, one), Self::Map(_, other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            _ => false,
        }
    }
}
