//! Conversion between JSON and CEL, and values that are computed only when they are read.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString};
use cel::common::value::{CowVal, Val};
/// Values that are computed only if an expression reads them.
pub use cel::context::VariableResolver;
use serde_json::{Map, Value};

use super::failure::{Failure, OPTIONAL};
use crate::work::{Work, takes_memory};

/// A value that an expression borrows.
pub type Borrowed<'v> = CowVal<'v, 'v>;

/// A value in the form that expressions read.
#[derive(Debug)]
pub struct Computed(Box<dyn Val>);

impl Computed {
    /// A part of the value if the work ends.
    pub fn new(value: &Value, work: Option<&Work>) -> Self {
        Self(from_json(value, work))
    }

    pub fn int(value: i64) -> Self {
        Self(Box::new(CelInt::from(value)))
    }

    pub fn bool(value: bool) -> Self {
        Self(Box::new(CelBool::from(value)))
    }

    pub fn borrowed(&self) -> Borrowed<'_> {
        CowVal::Borrowed(&*self.0)
    }
}

/// A JSON value for expressions. Whole numbers are CEL's `int`; the library's own conversion would make positive ones
/// `uint`, which cannot be added to other types.
pub(super) fn from_json(value: &Value, work: Option<&Work>) -> Box<dyn Val> {
    match value {
        Value::Array(_) | Value::Object(_) if !takes_memory(work, 0) => Box::new(CelNull),
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Box::new(CelInt::from(whole)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Array(items) => {
            Box::new(CelList::from(items.iter().map(|item| from_json(item, work)).collect::<Vec<_>>()))
        }
        Value::Object(map) => {
            let entries =
                map.iter().map(|(key, value)| (CelMapKey::from(key.clone()), from_json(value, work)));
            Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
        }
    }
}

/// The nearest number. Those of a cluster are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "it is the nearest")]
pub(super) fn to_f64(value: i64) -> f64 {
    value as f64
}

pub(super) fn to_json(value: &cel::Value) -> Result<Value, Failure> {
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(value) => Value::Bool(*value),
        cel::Value::Int(value) => Value::from(*value),
        cel::Value::UInt(value) => Value::from(*value),
        cel::Value::Float(value) => serde_json::Number::from_f64(*value)
            .map(Value::Number)
            .ok_or_else(|| Failure::from("the result is not a finite number".to_owned()))?,
        cel::Value::String(text) => Value::String(text.to_string()),
        cel::Value::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        cel::Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| Ok((key.to_string(), to_json(value)?)));
            let mut entries = entries.collect::<Result<Map<_, _>, Failure>>()?;
            // CEL maps have no order; a policy needs one that is always the same.
            entries.sort_keys();
            Value::Object(entries)
        }
        cel::Value::Opaque(_) => {
            let failure = Failure::from("the result is an optional value, which no pod can hold".to_owned());
            return Err(Failure { hint: Some(OPTIONAL.to_owned()), ..failure });
        }
        other => return Err(format!("the result is a {}, which no pod can hold", other.type_of()).into()),
    })
}
