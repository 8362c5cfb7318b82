//! The part of a computed value that is not valid, and its place among the variables of the policy.

use serde_json::Value;

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Node, Span};

use crate::core::policy::source::Diagnostic;

/// A part of the value of an expression, and the problem with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidPart {
    pub(crate) code: &'static str,
    /// The whole value.
    value: Value,
    /// The keys and indices that lead to the part.
    path: Vec<String>,
}

impl InvalidPart {
    /// The part that a problem of a value is about. A value has no lines: its parts are numbered in their order, and the
    /// number is the column.
    pub(crate) fn of(value: &Value, problem: &Diagnostic) -> Option<Self> {
        let path = path_to(value, &mut problem.span.column.checked_sub(1)?)?;
        Some(Self { code: problem.code, value: value.clone(), path })
    }

    /// The place where a variable has this part: as the whole value, or as an entry of it.
    pub(crate) fn place_in(&self, variable: &Node) -> Option<Span> {
        let mut value = &self.value;
        for at in 0..=self.path.len() {
            if let Some(written) = equal_in(variable, value) {
                return Some(descend(written, &self.path[at..]).span);
            }
            value = step(value, self.path.get(at)?)?;
            if !value.is_object() && !value.is_array() {
                return None;
            }
        }
        None
    }
}

fn children(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        _ => Vec::new(),
    }
}

fn step<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    }
}

/// The way to the part with this number.
fn path_to(value: &Value, number: &mut usize) -> Option<Vec<String>> {
    if *number == 0 {
        return Some(Vec::new());
    }
    children(value).into_iter().find_map(|(step, child)| {
        *number -= 1;
        let mut path = path_to(child, number)?;
        path.insert(0, step);
        Some(path)
    })
}

/// The last list or map within a node that is written as this value. An expression in it can have any value.
fn equal_in<'n>(node: &'n Node, value: &Value) -> Option<&'n Node> {
    let within = match &node.content {
        Content::Scalar { .. } => return None,
        Content::List(items) => items.iter().rev().find_map(|item| equal_in(item, value)),
        Content::Map(entries) => entries.iter().rev().find_map(|entry| equal_in(&entry.value, value)),
    };
    within.or_else(|| is_written(node, value).then_some(node))
}

fn is_written(node: &Node, value: &Value) -> bool {
    match (&node.content, value) {
        (Content::Scalar { value: Scalar::String(text), .. }, _) if text.contains("${") => true,
        (Content::Scalar { .. }, _) => node.to_value() == *value,
        (Content::List(items), Value::Array(values)) => {
            items.len() == values.len()
                && items.iter().zip(values).all(|(item, value)| is_written(item, value))
        }
        (Content::Map(entries), Value::Object(map)) => {
            let same = |key: &str, node: &Node| map.get(key).is_some_and(|value| is_written(node, value));
            entries.len() == map.len() && entries.iter().all(|entry| same(&entry.key, &entry.value))
        }
        _ => false,
    }
}

fn descend<'n>(node: &'n Node, path: &[String]) -> &'n Node {
    let Some((first, rest)) = path.split_first() else { return node };
    let child = match &node.content {
        Content::List(items) => first.parse::<usize>().ok().and_then(|at| items.get(at)),
        Content::Map(entries) => entries.iter().find(|entry| entry.key == *first).map(|entry| &entry.value),
        Content::Scalar { .. } => None,
    };
    child.map_or(node, |child| descend(child, rest))
}
