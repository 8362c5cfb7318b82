//! A rule that is merged into the pod, and its handling of a different value in the pod.

use serde_json::{Map, Value};

use fabric_policy::{OnConflict, Rule};

use super::pod_state::PodState;
use crate::analysis::PodAnalysis;
use crate::record::{CursorOf, ListCursor, OrReason, Reason, Step, ValueKind, WarningKind, shorten};

/// A rule that is merged into the pod.
pub(super) struct Merge<'a, 'p> {
    pub(super) rule: &'a str,
    pub(super) on_conflict: OnConflict,
    pub(super) analysis: &'a PodAnalysis,
    pub(super) pod: &'p mut PodState,
}

impl<'a, 'p> Merge<'a, 'p> {
    pub(super) fn new(rule: &'a Rule, analysis: &'a PodAnalysis, pod: &'p mut PodState) -> Self {
        Self { rule: &rule.name, on_conflict: rule.on_conflict, analysis, pod }
    }

    /// Decides about a part of an object or a list that has a different value in the pod, and reports the decision.
    /// Returns whether the policy's value replaces that of the pod.
    pub(super) fn resolve_conflict<V>(
        &self,
        place: &mut CursorOf<'_, V>,
        step: impl Step,
        seen: &Value,
        wanted: &Value,
        what: ValueKind,
    ) -> OrReason<bool> {
        let (seen, wanted) = (brief(seen), brief(wanted));
        let (kind, is_replaced) = match self.on_conflict {
            OnConflict::Keep => (WarningKind::Kept { what, seen, wanted }, false),
            OnConflict::Replace => (WarningKind::Replaced { seen, wanted }, true),
            OnConflict::Refuse => {
                let (rule, path) = (self.rule.to_owned(), place.pointer_to(step));
                return Err(Reason::Conflict { rule, path, seen, wanted });
            }
        };
        place.warn(step, kind, self.rule);
        Ok(is_replaced)
    }

    /// Adds an entry to a list that does not have it. Decides about one that is there, by its index, and has a different
    /// value in the pod.
    pub(super) fn put_entry(
        &self,
        list: &mut ListCursor<'_>,
        index: Option<usize>,
        wanted: Value,
        what: ValueKind,
        is_same: impl FnOnce(&Value, &Value) -> bool,
    ) -> OrReason {
        let Some(index) = index else {
            list.push(wanted);
            return Ok(());
        };
        let seen = &list.entries()[index];
        if is_same(seen, &wanted) {
            list.log.present_entry(index);
            return Ok(());
        }
        let seen = seen.clone();
        if self.resolve_conflict(list, index, &seen, &wanted, what)? {
            list.replace(index, wanted);
        }
        Ok(())
    }
}

/// A value for a message: an environment variable by its value, everything else as it is, shortened.
pub(super) fn brief(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => variable(map).unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    };
    shorten(&text)
}

fn variable(map: &Map<String, Value>) -> Option<String> {
    map.get("name")?;
    match (map.get("value"), map.get("valueFrom")) {
        (Some(Value::String(text)), _) => Some(text.clone()),
        (_, Some(source)) => Some(format!("valueFrom {source}")),
        _ => None,
    }
}
