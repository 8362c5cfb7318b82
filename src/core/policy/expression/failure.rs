//! The reasons for which an expression has no value.

use cel::ExecutionError;

/// An expression without a value for the bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One sentence without the expression itself.
    pub(crate) message: String,
    /// The remedy.
    pub(crate) hint: Option<String>,
    /// The name in the expression that the failure is about.
    pub(super) name: Option<String>,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, hint: None, name: None }
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let of = |message: String, hint: &str| Self { message, hint: Some(hint.to_owned()), name: None };
        match &error {
            ExecutionError::NoSuchKey(key) => Self {
                message: error.to_string(),
                hint: Some(format!(
                    "guard what may be missing: `.?{key}.orValue(…)`, `[?'{key}'].orValue(…)` or `has(…)`"
                )),
                name: Some(key.to_string()),
            },
            ExecutionError::NoSuchOverload(call) => overload(call.function(), call.argument_types()),
            ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
                overload(operator, &[left, right].map(type_name))
            }
            ExecutionError::ValuesNotComparable(left, right) => {
                overload("a comparison", &[left, right].map(type_name))
            }
            ExecutionError::IndexOutOfBounds(_) => {
                of(error.to_string(), "guard it with `size(…)`, or write `list[?index].orValue(…)`")
            }
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                of(error.to_string(), "guard it with `x == 0 ? … : …`")
            }
            ExecutionError::FunctionError { function, .. } => {
                Self { name: Some(function.clone()), ..Self::from(error.to_string()) }
            }
            _ => Self::from(error.to_string()),
        }
    }
}

/// The name of a type in CEL.
fn type_name(value: &cel::Value) -> String {
    match value {
        cel::Value::Float(_) => "double".to_owned(),
        other => other.type_of().to_string(),
    }
}

/// An operator or a function that does not take values of these types.
fn overload(function: &str, types: &[String]) -> Failure {
    let operator = match function {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other.trim_matches('_'),
    };
    let named: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("`{operator}` does not take {}", named.join(" and "));
    let has = |name: &str| types.iter().any(|known| known.starts_with(name));
    let hint = if has("null") {
        "guard a value that is `null`: `x == null ? … : …`"
    } else if has("optional") {
        "a value that `.?` or `[?…]` reads needs `.orValue(…)`"
    } else if operator == "*" && has("double") && has("int") {
        "write `devices(gpus, ratio)` for a count, or convert with `double(…)`"
    } else {
        "convert one of them with `int(…)`, `double(…)` or `string(…)`"
    };
    Failure { message, hint: Some(hint.to_owned()), name: Some(function.to_owned()) }
}
