//! The fields of a result, each with the rule that wrote it, and the fields of overlays that are not in it.

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{Author, Mutated, Mutation, Trace, Warning, WarningKind};
use crate::core::pointer::{at_pointer, field_path, push_token};

use super::overlay::{OverlayField, Step};
use super::path;

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

/// The fate of a field of an overlay of a rule that applies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlayFact {
    pub path: String,
    /// The value for this pod; none if the field is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    pub state: FieldState,
    /// The reason for a state other than `added`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The fates of a field of an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldState {
    /// The rule added the field.
    Added,
    /// The rule replaced the pod's value.
    Replaced,
    /// The pod has the value, or another rule added it.
    Present,
    /// The pod has another value, which stays.
    Kept,
    /// The field is not in the result.
    LeftOut,
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
                })
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

fn leaves(value: &Value, pointer: &mut String, visit: &mut dyn FnMut(&str)) {
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

/// The result of an injection, for the fields of overlays.
pub(super) struct Result<'a> {
    pub(super) pod: &'a Value,
    pub(super) mutation: &'a Mutation,
    pub(super) trace: &'a Trace,
}

impl Result<'_> {
    /// The fate of a field of a rule's overlay for the value at `base`, the pod or one of its containers.
    pub(super) fn fate(&self, rule: &str, base: &str, field: &OverlayField) -> OverlayFact {
        let found = path::find(self.pod, base, &field.path).or_else(|| self.renamed(rule, field));
        let shown = match &found {
            Some(pointer) => field_path(self.pod, pointer),
            None => [field_path(self.pod, base), path::text(&field.path)]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("."),
        };
        let (state, because) = self.state(rule, field, found.as_deref(), &shown);
        OverlayFact { path: shown, value: field.value.clone(), state, because }
    }

    fn state(
        &self,
        rule: &str,
        field: &OverlayField,
        found: Option<&str>,
        shown: &str,
    ) -> (FieldState, Option<String>) {
        if let Some(error) = &field.error {
            return (FieldState::LeftOut, Some(error.clone()));
        }
        let Some(value) = &field.value else {
            return (FieldState::LeftOut, Some(format!("`{}` is null", written(&field.written))));
        };
        let warning =
            self.mutation.warnings.iter().find(|warning| warning.rule == rule && warning.path == shown);
        match (found, warning) {
            (_, Some(warning)) if matches!(warning.kind, WarningKind::Replaced { .. }) => {
                (FieldState::Replaced, Some(warning.to_string()))
            }
            (_, Some(warning)) if matches!(warning.kind, WarningKind::Kept { .. }) => {
                (FieldState::Kept, Some(warning.to_string()))
            }
            (Some(pointer), _) => {
                let authors = self.authors_around(pointer);
                let own = Author::Rule(rule.to_owned());
                if authors.contains(&&own) {
                    (FieldState::Added, None)
                } else if let Some(other) = authors.first() {
                    (FieldState::Present, Some(format!("{} has set it", AuthorFact::from(*other))))
                } else {
                    (FieldState::Present, Some("the pod has it".to_owned()))
                }
            }
            (None, warning) => {
                (FieldState::LeftOut, Some(self.absent(rule, value, &field.path, warning, shown)))
            }
        }
    }

    /// The authors of the value at a pointer, or of a part of it.
    fn authors_around(&self, pointer: &str) -> Vec<&Author> {
        let mut found = self.trace.authors_of(pointer);
        let mut within = pointer.to_owned();
        if let Some(value) = at_pointer(self.pod, pointer) {
            leaves(value, &mut within, &mut |pointer| found.extend(self.trace.author_of(pointer)));
        }
        found
    }

    /// The reason for which a field is not in the pod.
    fn absent(
        &self,
        rule: &str,
        value: &Value,
        path: &[Step],
        warning: Option<&Warning>,
        shown: &str,
    ) -> String {
        let near = || {
            let contains = |outer: &str, inner: &str| {
                inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            self.mutation.warnings.iter().find(|warning| {
                warning.rule == rule
                    && (contains(&warning.path, shown) || contains(shown, &warning.path))
                    && !matches!(warning.kind, WarningKind::Kept { .. } | WarningKind::Replaced { .. })
            })
        };
        let is_volume = matches!(path, [_, Step::Field("volumes"), ..]);
        match warning.or_else(near) {
            _ if is_volume => "no container mounts it".to_owned(),
            Some(warning) => warning.to_string(),
            None if *value == 0 || *value == "0" => "the amount is 0".to_owned(),
            None => "the pod needs no such value".to_owned(),
        }
    }

    /// The volume that the policy's volume of this name is called in the pod.
    fn renamed(&self, rule: &str, field: &OverlayField) -> Option<String> {
        let [spec, volumes @ Step::Field("volumes"), Step::Entry(keys)] = field.path.as_slice() else {
            return None;
        };
        let [(key, Value::String(name))] = keys.as_slice() else { return None };
        let to = self.mutation.warnings.iter().find_map(|warning| match &warning.kind {
            WarningKind::RenamedVolume { from, to } if from == name && warning.rule == rule => Some(to),
            _ => None,
        })?;
        let entry = Step::Entry(vec![(*key, Value::from(to.as_str()))]);
        path::find(self.pod, "", &[spec.clone(), volumes.clone(), entry])
    }
}

/// The text of a value with expressions.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // The part that may be `null`.
        Value::Object(map) => {
            let expression = map.values().filter_map(Value::as_str).find(|text| text.contains("${"));
            expression.map_or_else(|| value.to_string(), str::to_owned)
        }
        other => other.to_string(),
    }
}
