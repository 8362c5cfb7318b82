//! The context of a merge: the rule, the values that its expressions read, and facts about the pod on which several
//! fields depend.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::overlay::{Element, Instruction, Template, compile_computed};
use crate::core::policy::{OnConflict, Rule};
use crate::core::schema::{Field, Object, Shape, covers};

use super::user::refused_by_kubelet;
use super::volumes::{OwnVolumes, PolicyVolumes};
use crate::core::engine::analysis::PodAnalysis;
use crate::core::engine::record::{
    Cursor, Kept, ListCursor, MAX_ANNOTATIONS, Reason, STAMP, WarningKind, evaluation_failed, malformed,
    shorten,
};

/// A rule that is merged into the pod.
pub(super) struct Merge<'a, 'p> {
    pub(super) rule: &'a str,
    pub(super) on_conflict: OnConflict,
    pub(super) bindings: &'a Bindings<'a, 'a>,
    pub(super) analysis: &'a PodAnalysis,
    pub(super) pod: &'p mut PodFacts,
}

/// The annotations of the pod that hold settings files.
#[derive(Debug, Default)]
pub(super) struct SettingsFiles {
    /// The keys of those that containers use by now.
    pub(super) used: HashSet<String>,
    /// By the name of the settings.
    pub(super) names: HashMap<String, FileNames>,
}

/// The names of the files of some settings.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    /// The numbers that were looked at.
    pub(super) count: usize,
    pub(super) by_lines: HashMap<String, String>,
}

/// Facts about the pod that fields outside of the current one depend on.
#[derive(Debug, Default)]
pub(super) struct PodFacts {
    pub(super) volumes: PolicyVolumes,
    /// The volumes that the pod came with.
    pub(super) own_volumes: OwnVolumes,
    /// True if the pod has amounts of resources for all of its containers together.
    pub(super) pod_resources: bool,
    /// The size of the pod's annotations, in bytes.
    pub(super) annotation_bytes: usize,
    /// The names of the pod's claims.
    pub(super) claims: HashSet<String>,
    /// Capabilities that containers have, by the policy or on their own: pointer to the container, and name.
    pub(super) capabilities: Vec<(String, String)>,
    /// The variables that the policy sets in the current container.
    pub(super) variables: Vec<String>,
    /// The annotations that hold settings files.
    pub(super) files: SettingsFiles,
    /// The parts of the pod that exclusions of other parts name.
    pub(super) outside: Value,
    /// The pod's own security context.
    security_context: Value,
}

/// The decision about a value of the pod that differs from the policy's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Keep,
    Replace,
}

impl PodFacts {
    /// Collects the facts about a pod. Takes the volumes out of it; [`Self::give_back_volumes`] puts them back.
    pub(super) fn take(pod: &mut Value, stamp: &str) -> Result<Self, Reason> {
        let annotations = pod["metadata"]["annotations"].as_object();
        let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        // The stamp, which is added last, needs room too.
        let stamped = annotations.is_some_and(|annotations| annotations.contains_key(STAMP));
        let stamp = if stamped { 0 } else { STAMP.len() + stamp.len() };
        let annotation_bytes = stamp + annotations.into_iter().flatten().map(size).sum::<usize>();
        if annotation_bytes > MAX_ANNOTATIONS {
            return Err(Reason::AnnotationLimit { key: STAMP.to_owned() });
        }
        let mut facts = Self {
            pod_resources: pod["spec"]["resources"]
                .as_object()
                .is_some_and(|resources| !resources.is_empty()),
            annotation_bytes,
            security_context: pod["spec"]["securityContext"].clone(),
            ..Self::default()
        };
        facts.note_outside(pod);
        facts.own_volumes = match pod.get_mut("spec").and_then(|spec| spec.get_mut("volumes")) {
            Some(Value::Array(volumes)) => OwnVolumes::new(std::mem::take(volumes)),
            None | Some(Value::Null) => OwnVolumes::default(),
            Some(other) => return Err(malformed("spec.volumes", "a list", other)),
        };
        Ok(facts)
    }

    pub(super) fn give_back_volumes(&mut self, pod: &mut Value) {
        if let Some(Value::Array(volumes)) = pod.get_mut("spec").and_then(|spec| spec.get_mut("volumes")) {
            *volumes = std::mem::take(&mut self.own_volumes).into_list();
        }
    }

    /// A volume of the pod, or of the policy under the name that it has in the pod.
    pub(super) fn volume(&self, name: &str) -> Option<&Value> {
        self.own_volumes.get(name).or_else(|| self.volumes.in_pod(name))
    }

    /// Counts bytes that are added to the annotations. A pod with no room for all that the policy adds is left alone
    /// rather than injected in part.
    pub(super) fn count_annotation(&mut self, key: &str, bytes: usize) -> Result<(), Reason> {
        self.annotation_bytes = self.annotation_bytes.saturating_add(bytes);
        if self.annotation_bytes > MAX_ANNOTATIONS {
            return Err(Reason::AnnotationLimit { key: key.to_owned() });
        }
        Ok(())
    }

    /// Collects the names of the pod's claims.
    pub(super) fn note_claims(&mut self, pod: &Value) {
        let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
        self.claims = claims.filter_map(|claim| claim["name"].as_str().map(str::to_owned)).collect();
    }

    /// Collects the values that exclusions name by a path from the pod: the host network, and annotations that
    /// Kubernetes reads as fields. Few pods have any.
    pub(super) fn note_outside(&mut self, pod: &Value) {
        let is_field = |key: &str| key.contains("alpha.kubernetes.io") || key.contains("beta.kubernetes.io");
        let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
        let annotations: Map<String, Value> = annotations
            .filter(|(key, _)| is_field(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let host_network = pod["spec"]["hostNetwork"].as_bool() == Some(true);
        self.outside = if annotations.is_empty() && !host_network {
            Value::Null
        } else {
            json!({"metadata": {"annotations": annotations}, "spec": {"hostNetwork": host_network}})
        };
    }
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

    pub(super) fn build(&self, template: &Template) -> Result<Option<Value>, Reason> {
        self.evaluated(template.build(self.bindings))
    }

    pub(super) fn build_element(&self, element: &Element) -> Result<Option<Value>, Reason> {
        self.evaluated(element.build(self.bindings))
    }

    pub(super) fn evaluated<T>(&self, result: Result<T, EvaluationError>) -> Result<T, Reason> {
        result.map_err(|error| evaluation_failed(&format!("rule `{}`", self.rule), error))
    }

    /// The instruction that the value of an expression compiles to; `None` for `null`.
    pub(super) fn compiled(
        &self,
        object: &'static Object,
        field: &'static Field,
        expression: &Interpolation,
    ) -> Result<Option<Instruction>, Reason> {
        let value = self.evaluated(expression.evaluate(self.bindings))?;
        let compiled = compile_computed(&value, field, object);
        self.evaluated(compiled.map_err(|error| expression.invalid(&value, error)))
    }

    /// Decides about a field of which the pod has another value, and reports the decision.
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

    /// Merges an entry into a list in which `at` is the entry that it belongs to: one that has everything stays.
    pub(super) fn put_entry(
        &self,
        list: &mut ListCursor<'_>,
        at: Option<usize>,
        wanted: Value,
        shape: &Shape,
    ) -> Result<(), Reason> {
        match at {
            Some(at) if covers(&list.entries()[at], &wanted, shape) => Ok(()),
            Some(at) => self.settle_entry(list, at, wanted, Kept::Field),
            None => {
                list.push(wanted);
                Ok(())
            }
        }
    }

    /// Decides about an entry of a list of which the pod has another value. Replaces it if the rule says so.
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

    /// Returns whether another value of the pod excludes a value of a field. If so, reports that the field is left out.
    pub(super) fn is_excluded(&self, cursor: &mut Cursor<'_>, field: &Field, wanted: &Value) -> bool {
        let exclusion = field.overlay.excluded_by(wanted, cursor.object(), &self.pod.outside);
        let against = match exclusion {
            Some(exclusion) => exclusion.describe(),
            None if needs_sidecar(field.name) && is_plain_init_container(cursor) => {
                "no restartPolicy: Always".to_owned()
            }
            None if let Some(against) =
                refused_by_kubelet(cursor, field.name, wanted, &self.pod.security_context) =>
            {
                against.to_owned()
            }
            None if field.name == "restartPolicy" && is_container_of_the_pod(cursor, wanted) => {
                "this container, whose restartPolicy its author chose".to_owned()
            }
            None => return false,
        };
        let setting = format!("{}: {}", field.name, brief(wanted));
        let kind = WarningKind::Excluded { setting, against };
        cursor.warn(field.name, kind, self.rule);
        true
    }
}

/// Returns whether the API server takes a field of an init container only if that is a native sidecar.
fn needs_sidecar(field: &str) -> bool {
    matches!(field, "lifecycle" | "livenessProbe" | "readinessProbe" | "startupProbe")
}

/// Returns whether a container, which has another restartPolicy, came with the pod: with it, an init container would become
/// a sidecar or the reverse.
fn is_container_of_the_pod(container: &Cursor<'_>, wanted: &Value) -> bool {
    container.get("restartPolicy") != Some(wanted) && !container.added_container(container.pointer())
}

fn is_plain_init_container(container: &Cursor<'_>) -> bool {
    container.pointer().starts_with("/spec/initContainers/")
        && container.get("restartPolicy").and_then(Value::as_str) != Some("Always")
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
