//! The fates of the fields of overlays: added, or the reason for which they are not in the result.

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{Author, Mutation, Trace, Warning, WarningKind};
use crate::core::pointer::{at_pointer, field_path};

use super::fields::{AuthorFact, leaves};
use super::overlay::{OverlayField, Step};
use super::path;

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

/// The result of an injection, for the fields of overlays.
pub(super) struct InjectedPod<'a> {
    pub(super) pod: &'a Value,
    pub(super) mutation: &'a Mutation,
    pub(super) trace: &'a Trace,
}

impl InjectedPod<'_> {
    /// The fate of a field of a rule's overlay for the value at `base`, the pod or one of its containers.
    pub(super) fn fate(&self, rule: &str, base: &str, field: &OverlayField) -> OverlayFact {
        let found = self.renamed(rule, field).or_else(|| path::find(self.pod, base, &field.path));
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
