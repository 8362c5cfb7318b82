//! Asking the library which kinds of arguments a function or an operator takes: it is called with a sample of each.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr};
use cel::{Context, ExecutionError};
use serde_json::{Value, json};

use super::super::environment::ENV;
use super::super::types::{Kind, Type};
use super::super::values::{from_json, to_json};

/// The answer of the library.
pub(super) enum Answer {
    Result(Type),
    Unfit,
}

/// Calls a function or an operator with sample values.
pub(super) fn ask(call: &CallExpr, has_target: bool, values: &[&Sample]) -> Answer {
    let mut context = Context::with_env(Arc::clone(&ENV));
    let mut names = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let name = format!("sample{at}");
        context.add_variable_as_val(&name, from_json(&value.value));
        let sample = IdedExpr { id: 0, expr: Expr::Ident(name) };
        names.push(if value.is_optional { optional_of(sample) } else { sample });
    }
    let target = match (&call.target, has_target) {
        (Some(namespace), false) => Some(namespace.clone()),
        (Some(_), true) => Some(Box::new(names.remove(0))),
        (None, _) => None,
    };
    let sample = CallExpr { func_name: call.func_name.clone(), target, args: names };
    let sample = IdedExpr { id: 0, expr: Expr::Call(sample) };
    match cel::Value::resolve(&sample, &context) {
        Ok(value) => Answer::Result(to_json(&value).map_or(Type::Dyn, |value| of_sample(&value))),
        Err(error) if is_about_types(&error) => Answer::Unfit,
        // The function takes such arguments, and fails for this sample.
        Err(_) => Answer::Result(Type::Dyn),
    }
}

fn is_about_types(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::NoSuchOverload(_)
            | ExecutionError::InvalidArgumentCount { .. }
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::NotSupportedAsMethod { .. }
            | ExecutionError::UnexpectedType { .. }
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::ValuesNotComparable(..)
            | ExecutionError::UndeclaredReference(_)
            | ExecutionError::MissingArgumentOrTarget
    )
}

/// `optional.of(value)`
fn optional_of(value: IdedExpr) -> IdedExpr {
    let namespace = IdedExpr { id: 0, expr: Expr::Ident("optional".to_owned()) };
    let call = CallExpr { func_name: "of".to_owned(), target: Some(Box::new(namespace)), args: vec![value] };
    IdedExpr { id: 0, expr: Expr::Call(call) }
}

/// A value with which a function is tried.
pub(super) struct Sample {
    value: Value,
    is_optional: bool,
}

/// A value of each kind that the type has; `None` if there is none that represents all of a kind.
pub(super) fn samples(inferred: &Type) -> Option<Vec<Sample>> {
    let mut samples = Vec::new();
    for kind in inferred.kinds()? {
        let (values, is_optional) = match kind {
            Kind::Optional(value) if value.is_never() => (vec![Value::Null], true),
            Kind::Optional(value) => (plain_samples(value)?, true),
            kind => (plain_samples(&Type::of(kind.clone()))?, false),
        };
        samples.extend(values.into_iter().map(|value| Sample { value, is_optional }));
    }
    Some(samples)
}

fn plain_samples(inferred: &Type) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for kind in inferred.kinds()? {
        match kind {
            Kind::Null => values.push(Value::Null),
            Kind::Bool => values.push(json!(true)),
            Kind::Int(..) => values.push(json!(1)),
            Kind::Double => values.push(json!(1.5)),
            Kind::String(texts) => values.push(json!(texts.one().unwrap_or("1"))),
            Kind::List(items) if items.is_never() => values.push(json!([])),
            Kind::List(items) => values.extend(plain_samples(items)?.into_iter().map(|item| json!([item]))),
            Kind::Map(_) | Kind::Record(_) | Kind::Object(_) => values.push(json!({"a": 1})),
            Kind::Optional(_) => return None,
        }
    }
    Some(values)
}

/// The type of all results of which this one is a sample.
fn of_sample(value: &Value) -> Type {
    match value {
        Value::Array(items) => Type::list(items.iter().map(of_sample).fold(Type::NEVER, Type::or)).widened(),
        Value::Object(_) => Type::map(Type::Dyn),
        other => Type::of_value(other).widened(),
    }
}
