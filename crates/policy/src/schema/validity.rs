//! What the tables say about the fields of a value: which of them are there, which exclude each other, and which an
//! object needs. `overlay::check` goes through the value.

use serde_json::Value;

use super::{Default, Field, Format, Object, Overlay, Shape};

/// Checks a port: a number or a name.
pub(crate) fn check_port(port: &Value) -> Result<(), String> {
    const NUMBERS: Shape = Shape::Integer(1, 65535);
    match port.as_str() {
        Some(name) => Format::PortName.check(name),
        None if port.as_i64().is_some_and(|port| (1..=65535).contains(&port)) => Ok(()),
        None => Err(format!("`{port}` is not {}", NUMBERS.description())),
    }
}

impl Object {
    /// Fails for two fields that exclude each other.
    pub(crate) fn check_exclusive(&self, present: &[&str]) -> Result<(), String> {
        for names in [self.exactly_one_of, self.at_most_one_of] {
            let mut exclusive = present.iter().filter(|name| names.contains(name));
            if let (Some(first), Some(second)) = (exclusive.next(), exclusive.next()) {
                return Err(format!("`{first}` and `{second}` exclude each other"));
            }
        }
        Ok(())
    }

    /// The fields that an overlay can set, one of which an object needs that has none; `None` if it needs none.
    pub(crate) fn choice_of(&self, has: impl Fn(&str) -> bool) -> Option<String> {
        let choice: Vec<&Field> = self.exactly_one_of.iter().filter_map(|name| self.field(name)).collect();
        let is_given = |field: &&Field| has(field.name) || field.default != Default::Absent;
        if choice.is_empty() || choice.iter().any(is_given) {
            return None;
        }
        let settable = choice.iter().filter(|field| field.is_settable());
        Some(settable.map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", "))
    }
}

impl Field {
    /// Returns whether an overlay can set it in some pod.
    pub fn is_settable(&self) -> bool {
        !matches!(self.overlay, Overlay::Refused(_))
    }

    /// Returns whether the API server treats this value of the field as absent.
    pub fn is_absent(&self, value: &Value) -> bool {
        let empty_is_absent = matches!(self.default, Default::Empty | Default::Computed);
        match (&self.shape, value) {
            (_, Value::Null) => true,
            (Shape::List { .. }, Value::Array(items)) => items.is_empty(),
            (Shape::Map { .. }, Value::Object(entries)) => entries.is_empty(),
            (Shape::Text(_), Value::String(text)) => {
                text.is_empty() && (empty_is_absent || matches!(self.default, Default::TextForEmpty(_)))
            }
            (Shape::Integer(..), Value::Number(number)) => {
                number.as_i64() == Some(0)
                    && (empty_is_absent || matches!(self.default, Default::IntegerForZero(_)))
            }
            (Shape::Boolean, Value::Bool(value)) => !value && empty_is_absent,
            _ => false,
        }
    }
}

impl Shape {
    /// The values that a field of this shape takes, for a message.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Object(_) | Self::Atomic(_) | Self::Map { .. } => "a map".to_owned(),
            Self::List { .. } => "a list".to_owned(),
            Self::Text(_) => "a string".to_owned(),
            Self::Integer(i64::MIN, i64::MAX) => "a whole number".to_owned(),
            Self::Integer(least, i64::MAX) => format!("a whole number of at least {least}"),
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Quantity => "a quantity such as `64Gi`".to_owned(),
            Self::PortNumberOrName => "a whole number or a string".to_owned(),
            Self::Opaque => "another value".to_owned(),
        }
    }
}
