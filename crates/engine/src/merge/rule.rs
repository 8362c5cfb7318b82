//! A rule that is merged into the pod: the values of its templates, and its handling of a different value in the pod.

use serde_json::{Map, Value};

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, Interpolation, text_of};
use fabric_policy::overlay::{Element, Instruction, Template, compile_computed};
use fabric_policy::schema::{Field, Object};
use fabric_policy::{OnConflict, Rule};

use super::pod_state::PodFacts;
use crate::analysis::PodAnalysis;
use crate::record::{ChangeLog, Cursor, Kept, ListCursor, Reason, WarningKind, evaluation_failed, shorten};

/// A rule that is merged into the pod.
pub(super) struct Merge<'a, 'p> {
    pub(super) rule: &'a str,
    pub(super) on_conflict: OnConflict,
    pub(super) bindings: &'a Bindings<'a, 'a>,
    pub(super) analysis: &'a PodAnalysis,
    pub(super) pod: &'p mut PodFacts,
}

/// The decision about a value of the pod that differs from the policy's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Keep,
    Replace,
}

impl<'a, 'p> Merge<'a, 'p> {
    pub(super) fn new(
        rule: &'a Rule,
        bindings: &'a Bindings<'a, 'a>,
        analysis: &'a PodAnalysis,
        pod: &'p mut PodFacts,
    ) -> Self {
        Self { rule: &rule.name, on_conflict: rule.on_conflict, bindings, analysis, pod }
    }

    /// Notes that a value is left out because a string in it is `null`. With `key`, it is the entry of a list that this
    /// field names.
    pub(super) fn note_null(
        &self,
        log: &mut ChangeLog,
        path: &[&str],
        key: Option<&str>,
        template: &Template,
    ) {
        if log.trace.is_none() {
            return;
        }
        let named = |key| self.build(&template.field(key)?).ok()?;
        let name = key.map(|key| named(key).as_ref().map_or("…".to_owned(), text_of));
        let path: Vec<&str> = path.iter().copied().chain(name.as_deref()).collect();
        let mut because = "it has no value".to_owned();
        template.texts(&mut |text| match text.evaluate(self.bindings) {
            Ok(Value::Null) => because = format!("`{}` is null", text.source()),
            Ok(value) if value == "" => because = format!("`{}` is empty", text.source()),
            _ => {}
        });
        log.left_out(&path, || because);
    }

    pub(super) fn build(&self, template: &Template) -> Result<Option<Value>, Reason> {
        self.evaluated(template.build(self.bindings))
    }

    pub(super) fn build_element(&self, element: &Element) -> Result<Option<Value>, Reason> {
        self.evaluated(element.build(self.bindings))
    }

    pub(super) fn evaluated<T>(&self, result: Result<T, EvaluationError>) -> Result<T, Reason> {
        result.map_err(|error| evaluation_failed(&format!("rule `{}`", self.rule), error))
    }

    /// The instruction that the value of an expression for a field of an object compiles to; `None` for `null`, which
    /// is noted at the path.
    pub(super) fn compiled(
        &self,
        log: &mut ChangeLog,
        path: &[&str],
        (object, field): (&'static Object, &'static Field),
        expression: &Interpolation,
    ) -> Result<Option<Instruction>, Reason> {
        let value = self.evaluated(expression.evaluate(self.bindings))?;
        let compiled = compile_computed(&value, field, object);
        let compiled = self.evaluated(compiled.map_err(|error| expression.invalid(error)))?;
        if compiled.is_none() {
            log.left_out(path, || format!("`{}` is null", expression.source()));
        }
        Ok(compiled)
    }

    /// Decides about a field that has a different value in the pod, and reports the decision.
    pub(super) fn settle(
        &self,
        cursor: &mut Cursor<'_>,
        key: &str,
        seen: &Value,
        wanted: &Value,
        what: Kept,
    ) -> Result<Settled, Reason> {
        let (kind, settled) = self.decision(seen, wanted, what, || cursor.pointer_to(key))?;
        cursor.warn(key, kind, self.rule);
        Ok(settled)
    }

    /// Decides about an entry of a list that has a different value in the pod. Replaces it if the rule says so.
    pub(super) fn settle_entry(
        &self,
        list: &mut ListCursor<'_>,
        index: usize,
        wanted: Value,
        what: Kept,
    ) -> Result<(), Reason> {
        let seen = &list.entries()[index];
        let (kind, settled) = self.decision(seen, &wanted, what, || list.pointer_to(index))?;
        list.warn(index, kind, self.rule);
        if settled == Settled::Replace {
            list.replace(index, wanted);
        }
        Ok(())
    }

    fn decision(
        &self,
        seen: &Value,
        wanted: &Value,
        what: Kept,
        pointer: impl Fn() -> String,
    ) -> Result<(WarningKind, Settled), Reason> {
        let (seen, wanted) = (brief(seen), brief(wanted));
        match self.on_conflict {
            OnConflict::Keep => Ok((WarningKind::Kept { what, seen, wanted }, Settled::Keep)),
            OnConflict::Replace => Ok((WarningKind::Replaced { seen, wanted }, Settled::Replace)),
            OnConflict::Refuse => {
                Err(Reason::Conflict { rule: self.rule.to_owned(), path: pointer(), seen, wanted })
            }
        }
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
