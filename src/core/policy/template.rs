//! Overlays: pieces of a pod with expressions in them.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::core::quantity::Quantity;

use super::expression::Bindings;
use super::parameter::plain;
use super::schema::ListMerge;
use super::scope::{Names, Scope};
use super::text::{EvaluationError, Text};

/// A piece of an overlay.
#[derive(Debug, Clone)]
pub(crate) enum Template {
    /// A value without expressions. `null` leaves out the field.
    Constant(Value),
    /// A string with expressions.
    Text(Text, FieldType),
    /// An object.
    Map(Vec<(Key, Template)>),
    /// A list, and how it joins the pod's.
    List(ListMerge, Vec<Template>),
    /// A change to the list that a string holds.
    Edit(Arc<Edit>),
}

/// The key of an object's field.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    Literal(String),
    Text(Text),
}

/// What a field may hold, to bring the result of an expression into that form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    String,
    Integer,
    Boolean,
    Quantity,
    IntOrString,
    /// An object or list, as the expression gives it.
    Structure,
}

/// A change to the list in a string.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// One entry in front (or after) what a variable such as `LD_LIBRARY_PATH` lists.
    Entry { text: Text, separator: String, prepend: bool },
    /// So many attachments of one network in a Multus annotation.
    Networks { network: Text, count: Text },
}

impl FieldType {
    /// Brings the result of an expression into the form of the field: `None` for `null`, an error with what
    /// was expected if it cannot be.
    pub(crate) fn accept(self, value: &Value) -> Result<Option<Value>, &'static str> {
        if value.is_null() {
            return Ok(None);
        }
        let accepted = match self {
            Self::String if !value.is_object() && !value.is_array() => Some(Value::String(plain(value))),
            Self::Integer => {
                value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).map(Value::from)
            }
            Self::Boolean => value.as_bool().map(Value::Bool),
            Self::Quantity => Quantity::from_value(value).map(|_| Value::String(plain(value))),
            Self::IntOrString if value.is_i64() || value.is_string() => Some(value.clone()),
            Self::Structure if value.is_object() || value.is_array() => Some(value.clone()),
            Self::String | Self::IntOrString | Self::Structure => None,
        };
        accepted.map(Some).ok_or(match self {
            Self::String => "a string",
            Self::Integer => "a whole number",
            Self::Boolean => "`true` or `false`",
            Self::Quantity => "a quantity",
            Self::IntOrString => "a whole number or a string",
            Self::Structure => "a map or a list",
        })
    }
}

impl Template {
    /// The field of this name, if it is a map that has it.
    pub(crate) fn field(&self, name: &str) -> Option<&Template> {
        let Self::Map(entries) = self else { return None };
        entries
            .iter()
            .find_map(|(key, value)| matches!(key, Key::Literal(key) if key == name).then_some(value))
    }

    /// The text of a field without expressions.
    pub(crate) fn literal(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Self::Constant(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The volumes of an overlay for a pod.
    pub(crate) fn volumes(&self) -> &[Template] {
        match self.field("spec").and_then(|spec| spec.field("volumes")) {
            Some(Self::List(_, items)) => items,
            _ => &[],
        }
    }

    /// Whether both are one and the same expression, so that one evaluation serves for both.
    pub(crate) fn same_source(&self, other: &Template) -> bool {
        match (self, other) {
            (Self::Text(left, left_type), Self::Text(right, right_type)) => {
                left_type == right_type && left.same_source(right)
            }
            _ => false,
        }
    }

    /// Every text in it, for finding out what it reads.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Text)) {
        match self {
            Self::Constant(_) => {}
            Self::Text(text, _) => visit(text),
            Self::Map(entries) => {
                for (key, value) in entries {
                    if let Key::Text(text) = key {
                        visit(text);
                    }
                    value.texts(visit);
                }
            }
            Self::List(_, items) => items.iter().for_each(|item| item.texts(visit)),
            Self::Edit(edit) => match &**edit {
                Edit::Entry { text, .. } => visit(text),
                Edit::Networks { network, count } => {
                    visit(network);
                    visit(count);
                }
            },
        }
    }

    /// The template with everything evaluated that does not depend on the pod.
    pub(crate) fn fold(&self, names: &Names, fixed: &Bindings<'_, '_>) -> Result<Self, EvaluationError> {
        Ok(match self {
            Self::Constant(_) => self.clone(),
            Self::Text(text, field_type) => {
                if text.scope(names) == Scope::Fixed {
                    Self::Constant(evaluate_field(text, *field_type, fixed)?.unwrap_or(Value::Null))
                } else {
                    self.clone()
                }
            }
            Self::Map(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(key, value)| Ok((fold_key(key, names, fixed)?, value.fold(names, fixed)?)))
                    .collect::<Result<_, EvaluationError>>()?,
            ),
            Self::List(merge, items) => {
                let fold = |item: &Template| Ok(item.fold(names, fixed)?.solidified());
                Self::List(*merge, items.iter().map(fold).collect::<Result<_, EvaluationError>>()?)
            }
            Self::Edit(edit) => Self::Edit(match &**edit {
                Edit::Entry { text, separator, prepend } => Arc::new(Edit::Entry {
                    text: fold_text(text, names, fixed)?,
                    separator: separator.clone(),
                    prepend: *prepend,
                }),
                Edit::Networks { network, count } => Arc::new(Edit::Networks {
                    network: fold_text(network, names, fixed)?,
                    count: fold_text(count, names, fixed)?,
                }),
            }),
        })
    }

    /// A list entry in which nothing is left to evaluate, as the one value that it is.
    fn solidified(self) -> Self {
        let Self::Map(entries) = &self else { return self };
        let mut map = Map::with_capacity(entries.len());
        for entry in entries {
            match entry {
                (Key::Literal(key), Self::Constant(value)) if !value.is_null() => {
                    map.insert(key.clone(), value.clone());
                }
                _ => return self,
            }
        }
        Self::Constant(Value::Object(map))
    }

    /// The fields of a map, in whichever form it is.
    pub(crate) fn entries(&self) -> Cow<'_, [(Key, Template)]> {
        match self {
            Self::Map(entries) => Cow::Borrowed(entries),
            Self::Constant(Value::Object(map)) => {
                let entry = |(key, value): (&String, &Value)| {
                    (Key::Literal(key.clone()), Self::Constant(value.clone()))
                };
                Cow::Owned(map.iter().map(entry).collect())
            }
            _ => Cow::Borrowed(&[]),
        }
    }

    /// The value for a place where the pod has nothing; `None` to leave it out.
    pub(crate) fn build(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
        match self {
            Self::Constant(Value::Null) => Ok(None),
            Self::Constant(value) => Ok(Some(value.clone())),
            Self::Text(text, field_type) => evaluate_field(text, *field_type, bindings),
            Self::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, value) in entries {
                    if let Some(key) = key.evaluate(bindings)?
                        && let Some(value) = value.build(bindings)?
                    {
                        map.insert(key.into_owned(), value);
                    }
                }
                // A map that an author wrote empty is meant (`emptyDir: {}`); one that became empty is not.
                Ok((!map.is_empty() || entries.is_empty()).then_some(Value::Object(map)))
            }
            Self::List(_, items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(item.build_entry(bindings)?);
                }
                Ok((!list.is_empty() || items.is_empty()).then_some(Value::Array(list)))
            }
            Self::Edit(edit) => match &**edit {
                Edit::Entry { text, .. } => evaluate_field(text, FieldType::String, bindings),
                // Built by the engine, which knows the form of the annotation.
                Edit::Networks { .. } => Ok(None),
            },
        }
    }

    /// The value as an entry of a list: left out as soon as one of its direct fields is.
    pub(crate) fn build_entry(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
        let Self::Map(entries) = self else { return self.build(bindings) };
        let mut map = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let (Some(key), Some(value)) = (key.evaluate(bindings)?, value.build(bindings)?) else {
                return Ok(None);
            };
            map.insert(key.into_owned(), value);
        }
        Ok(Some(Value::Object(map)))
    }
}

impl Key {
    pub(crate) fn evaluate(
        &self,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Option<Cow<'_, str>>, EvaluationError> {
        match self {
            Self::Literal(text) => Ok(Some(text.into())),
            Self::Text(text) => Ok(match text.evaluate(bindings)? {
                Value::Null => None,
                value => Some(plain(&value).into()),
            }),
        }
    }
}

fn fold_key(key: &Key, names: &Names, fixed: &Bindings<'_, '_>) -> Result<Key, EvaluationError> {
    match key {
        Key::Text(text) if text.scope(names) == Scope::Fixed => {
            let value = text.evaluate(fixed)?;
            Ok(if value.is_null() { key.clone() } else { Key::Literal(plain(&value)) })
        }
        _ => Ok(key.clone()),
    }
}

/// A text that reads parameters only, as the literal that it is with these parameters.
pub(crate) fn fold_text(
    text: &Text,
    names: &Names,
    fixed: &Bindings<'_, '_>,
) -> Result<Text, EvaluationError> {
    if matches!(text, Text::Literal(_)) || text.scope(names) != Scope::Fixed {
        return Ok(text.clone());
    }
    Ok(match text.evaluate(fixed)? {
        Value::String(value) => Text::Literal(value),
        _ => text.clone(),
    })
}

pub(crate) fn evaluate_field(
    text: &Text,
    field_type: FieldType,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<Value>, EvaluationError> {
    let value = text.evaluate(bindings)?;
    field_type.accept(&value).map_err(|wanted| EvaluationError {
        expression: text.source(),
        message: format!("the result is `{}` where the field needs {wanted}", plain(&value)),
    })
}
