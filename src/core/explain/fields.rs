//! The fields of a result, each with the rule that wrote it.

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{Author, Mutated, Trace};
use crate::core::pointer::{field_path, push_token};

/// A field that the injection added or changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultField {
    /// The path in the pod, as in reports.
    pub path: String,
    /// The JSON Pointer from the pod's root.
    pub pointer: String,
    /// The value; none if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// True if the field took the place of a value of the pod.
    pub replaces: bool,
    /// The parts of the policy that wrote it, in order.
    pub by: Vec<AuthorFact>,
}

/// A part of the policy that writes fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthorFact {
    Rule(String),
    Settings(String),
    /// The annotation that names the policy.
    Stamp,
}

impl From<&Author> for AuthorFact {
    fn from(author: &Author) -> Self {
        match author {
            Author::Rule(name) => Self::Rule(name.clone()),
            Author::Settings(name) => Self::Settings(name.clone()),
            Author::Engine => Self::Stamp,
        }
    }
}

impl std::fmt::Display for AuthorFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::Settings(name) => write!(f, "settings {name}"),
            Self::Stamp => f.write_str("stamp"),
        }
    }
}

/// The fields that an injection added or changed, in the order of the patch.
pub(super) fn of_result(mutated: &Mutated, trace: Option<&Trace>) -> Vec<ResultField> {
    let mut fields = Vec::new();
    for operation in &mutated.operations().list {
        let mut pointer = operation.pointer.to_owned();
        match operation.value {
            None => {
                let by = vec![AuthorFact::Stamp];
                let path = field_path(&mutated.pod, &pointer);
                fields.push(ResultField { path, pointer, value: None, replaces: true, by });
            }
            Some(value) => {
                descend(value, &mut pointer, operation.replaces, &mut |value, pointer, replaces| {
                    fields.push(ResultField {
                        path: field_path(&mutated.pod, pointer),
                        pointer: pointer.to_owned(),
                        value: Some(value.clone()),
                        replaces,
                        by: authors(pointer, value, trace),
                    });
                });
            }
        }
    }
    fields
}

/// Visits the entries of lists and the fields of objects, down to values that one rule most often writes as a whole.
fn descend(value: &Value, pointer: &mut String, replaces: bool, visit: &mut dyn FnMut(&Value, &str, bool)) {
    let length = pointer.len();
    let list = pointer.rsplit('/').next().unwrap_or_default();
    // A container, and what is around the lists of a pod.
    let is_container = pointer.rsplit_once('/').is_some_and(|(list, index)| {
        index.bytes().all(|byte| byte.is_ascii_digit())
            && (list.ends_with("/containers") || list.ends_with("/initContainers"))
    });
    let is_entry = list.bytes().all(|byte| byte.is_ascii_digit()) && !is_container;
    match value {
        Value::Object(map) if !map.is_empty() && !is_entry => {
            for (key, value) in map {
                push_token(pointer, key);
                descend(value, pointer, replaces, visit);
                pointer.truncate(length);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                push_token(pointer, &index.to_string());
                descend(item, pointer, replaces, visit);
                pointer.truncate(length);
            }
        }
        value => visit(value, pointer, replaces),
    }
}

/// The authors of a value and of everything in it, in the order in which they wrote.
fn authors(pointer: &str, value: &Value, trace: Option<&Trace>) -> Vec<AuthorFact> {
    let mut found: Vec<AuthorFact> = Vec::new();
    let Some(trace) = trace else { return vec![AuthorFact::Stamp] };
    let mut add = |author: &Author| {
        let author = AuthorFact::from(author);
        if !found.contains(&author) {
            found.push(author);
        }
    };
    trace.authors_of(pointer).into_iter().for_each(&mut add);
    let mut within = pointer.to_owned();
    leaves(value, &mut within, &mut |pointer| trace.author_of(pointer).into_iter().for_each(&mut add));
    found
}

/// Visits the JSON Pointers to the values without parts in a value.
pub(super) fn leaves(value: &Value, pointer: &mut String, visit: &mut dyn FnMut(&str)) {
    let length = pointer.len();
    let mut children: Vec<(String, &Value)> = Vec::new();
    match value {
        Value::Object(map) => children.extend(map.iter().map(|(key, value)| (key.clone(), value))),
        Value::Array(items) => {
            children.extend(items.iter().enumerate().map(|(index, value)| (index.to_string(), value)));
        }
        _ => {}
    }
    if children.is_empty() {
        visit(pointer);
    }
    for (token, child) in children {
        push_token(pointer, &token);
        leaves(child, pointer, visit);
        pointer.truncate(length);
    }
}
