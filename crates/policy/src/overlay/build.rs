//! Building the values of templates for a pod.

use serde_json::{Map, Value};

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, text_of};
use crate::schema::{Field, Format, Object, Shape, validate};

use super::scalars::{accept, is_structure};
use super::source::Source;
use super::template::{Element, Template};
use super::values;

impl Template {
    /// The value; `None` to leave it out.
    pub fn build(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
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
                // A map that the author wrote as empty is intended; one that became empty is not.
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
}

impl Element {
    /// The value; `None` to leave it out.
    pub fn build(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
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
    match validate(&value, &Shape::Atomic(object)) {
        Ok(()) => Ok(Some(value)),
        Err(invalid) => {
            let texts = |visit: &mut dyn FnMut(&Interpolation)| {
                for (_, template) in fields {
                    template.texts(visit);
                }
            };
            Err(EvaluationError::about(texts, invalid.message))
        }
    }
}

/// Evaluates a value for a field of this shape.
fn evaluate(
    text: &Interpolation,
    shape: &Shape,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<Value>, EvaluationError> {
    let value = text.evaluate(bindings)?;
    if !is_structure(shape) {
        return accept(&value, shape).map_err(|message| text.failed(message));
    }
    let Some(source) = Source::of_value(&value) else { return Ok(None) };
    let template = values::value(&source, shape).map_err(|error| text.invalid(error))?;
    template.build(bindings)
}

/// Evaluates a key of a map.
pub fn evaluate_key(
    key: &Interpolation,
    format: Format,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<String>, EvaluationError> {
    if let Interpolation::Literal(text) = key {
        return Ok(Some(text.clone()));
    }
    let value = key.evaluate(bindings)?;
    let accepted = accept(&value, &Shape::Text(format));
    accepted.map(|value| value.map(|value| text_of(&value))).map_err(|message| key.failed(message))
}
