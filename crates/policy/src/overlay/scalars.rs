//! The scalar values that the fields of a pod take.

use serde_json::Value;

use crate::interpolation::text_of;
use crate::schema::{Shape, check_port};
use fabric_yaml::quantity::Quantity;

/// Returns whether a field of this shape holds an object or a list.
pub(super) fn is_structure(shape: &Shape) -> bool {
    matches!(shape, Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. } | Shape::List { .. })
}

/// Brings the result of an expression into the form of a scalar field: `None` for `null`, which leaves out the field.
pub(super) fn accept(value: &Value, shape: &Shape) -> Result<Option<Value>, String> {
    if value.is_null() {
        return Ok(None);
    }
    // A parameter of the type `number` may be a whole one.
    let whole = || value.as_i64().or_else(|| text_of(value).parse().ok());
    let accepted = match shape {
        Shape::Text(format) => match value {
            Value::Object(_) | Value::Array(_) => None,
            value => {
                let text = text_of(value);
                format.check(&text).map_err(|problem| format!("the result is `{text}`: {problem}"))?;
                Some(Value::String(text))
            }
        },
        Shape::Integer(least, most) => {
            whole().filter(|number| (*least..=*most).contains(number)).map(Value::from)
        }
        Shape::Boolean => value.as_bool().map(Value::Bool),
        Shape::Quantity => Quantity::from_value(value).map(|_| Value::String(text_of(value))),
        Shape::PortNumberOrName if value.is_number() || value.is_string() => {
            let port = if value.is_string() { Some(value.clone()) } else { whole().map(Value::from) };
            port.as_ref().map_or(Ok(()), check_port)?;
            port
        }
        Shape::Opaque => Some(value.clone()),
        _ => None,
    };
    let wanted =
        || format!("the result is `{}`, but the field needs {}", text_of(value), shape.description());
    accepted.map(Some).ok_or_else(wanted)
}

/// How to write a value of the type that a field of this shape needs, if this one has another type.
pub(super) fn remedy(value: &Value, shape: &Shape) -> Option<&'static str> {
    match (shape, value) {
        (Shape::Text(_), Value::Array(_)) => Some("join the list, as in `${list.join(',')}`"),
        (Shape::Text(_), Value::Object(_)) => Some("read one field of it, as in `${profile.name}`"),
        (Shape::Boolean, _) => Some("write `true` or `false` without quotes, or a comparison"),
        (Shape::Text(_) | Shape::PortNumberOrName, _) | (_, Value::String(_)) => None,
        (Shape::Integer(..), Value::Number(number)) if number.is_f64() => {
            Some("use `devices(gpus, ratio)` for a number of devices, or `int(…)`")
        }
        (Shape::Integer(..), _) => Some("write a whole number, or an expression that yields one"),
        (Shape::Quantity, _) => Some("write a number, or a string such as `'64Gi'`"),
        _ => None,
    }
}
