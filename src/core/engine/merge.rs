//! Strategic merge of an overlay into a pod, in place, with every change and every difference noted.

use serde_json::{Map, Value};

use crate::core::policy::expression::Bindings;
use crate::core::policy::schema::ListMerge;
use crate::core::policy::template::{Edit, Key, Template};
use crate::core::policy::text::EvaluationError;
use crate::core::policy::{ActiveRule, OnConflict};

use crate::core::quantity::Quantity;

use super::container;
use super::networks;
use super::patch::{Changes, push_token};
use super::pod::{malformed, shorten};
use super::report::{Kept, Reason, Warning, WarningKind};
use super::resources;
use super::volumes::PolicyVolumes;

/// The API server takes at most so many bytes of annotations, keys and values together.
pub(super) const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Everything that merging needs besides the two values.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    pub(super) changes: Changes,
    pub(super) warnings: Vec<Warning>,
    pub(super) volumes: PolicyVolumes,
    /// The volumes that the pod came with.
    pub(super) pod_volumes: Vec<Value>,
    /// The rule at work.
    pub(super) rule: &'a str,
    pub(super) on_conflict: OnConflict,
    pub(super) host_network: bool,
    pub(super) namespace: String,
    /// Bytes of annotations that the pod has by now.
    pub(super) annotation_bytes: usize,
    /// Capabilities that containers have by the policy, or had already: where, and which.
    pub(super) capabilities: Vec<(String, String)>,
    /// JSON Pointer to the value at hand.
    pub(super) pointer: String,
}

/// Which part of a pod a map is, as far as that changes how its fields are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Pod,
    Metadata,
    Annotations,
    PodSpec,
    Container,
    SecurityContext,
    Capabilities,
    Other,
}

impl Place {
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Pod, "metadata") => Self::Metadata,
            (Self::Pod, "spec") => Self::PodSpec,
            (Self::Metadata, "annotations") => Self::Annotations,
            (Self::Container, "securityContext") => Self::SecurityContext,
            (Self::SecurityContext, "capabilities") => Self::Capabilities,
            _ => Self::Other,
        }
    }
}

impl<'a> Merge<'a> {
    /// Goes on with another rule, at another place.
    pub(super) fn begin(&mut self, rule: &'a ActiveRule, pointer: &str) {
        self.rule = &rule.name;
        self.on_conflict = rule.on_conflict;
        pointer.clone_into(&mut self.pointer);
    }

    /// Merges the entries of an overlay map into a map of the pod.
    pub(super) fn map(
        &mut self,
        target: &mut Map<String, Value>,
        entries: &[(Key, Template)],
        place: Place,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(), Reason> {
        for (key, template) in entries {
            let Some(key) = self.evaluated(key.evaluate(bindings))? else { continue };
            let before = self.enter(&key);
            match (place, &*key) {
                // Added in the end, if something mounts them.
                (Place::PodSpec, "volumes") => {}
                (Place::PodSpec, "containers") => {
                    container::merge_list(self, target, "containers", template, bindings)?;
                }
                (Place::PodSpec, "initContainers") => {
                    container::merge_list(self, target, "initContainers", template, bindings)?;
                }
                (Place::Container, "env") => container::merge_env(self, target, template, bindings)?,
                (Place::Container, "volumeMounts") => {
                    container::merge_mounts(self, target, template, bindings)?;
                }
                (Place::Container, "securityContext") => {
                    super::security::merge(self, target, template, bindings)?;
                }
                (Place::Container, "resources") => {
                    resources::merge(self, target, template, bindings)?;
                }
                (Place::SecurityContext, _) => {
                    super::security::merge_field(self, target, &key, template, bindings)?;
                }
                _ => self.field(target, &key, template, place, bindings)?,
            }
            self.pointer.truncate(before);
        }
        Ok(())
    }

    /// Merges one field of a map; `self.pointer` already points at it.
    pub(super) fn field(
        &mut self,
        target: &mut Map<String, Value>,
        key: &str,
        template: &Template,
        place: Place,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(), Reason> {
        match target.get_mut(key) {
            Some(existing) if !existing.is_null() => {
                self.value(existing, template, place, place.child(key), bindings)
            }
            _ => {
                let Some(value) = self.fresh(template, bindings)? else { return Ok(()) };
                match place {
                    Place::Annotations => self.count_annotation(key.len() + text_len(&value))?,
                    Place::Metadata if key == "annotations" => {
                        let entries = value.as_object().into_iter().flatten();
                        self.count_annotation(entries.map(|(key, value)| key.len() + text_len(value)).sum())?;
                    }
                    _ => {}
                }
                self.insert(target, key, value);
                Ok(())
            }
        }
    }

    /// The value of an overlay where the pod has nothing.
    fn fresh(&mut self, template: &Template, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, Reason> {
        match template {
            Template::Edit(edit) => match &**edit {
                Edit::Networks { .. } => Ok(self.networks("", edit, bindings)?.map(Value::String)),
                Edit::Entry { .. } => self.evaluated(template.build(bindings)),
            },
            // Through `map`, so that edits and limits inside of it hold there too.
            Template::Map(entries) if contains_edit(entries) => {
                let mut map = Map::new();
                for (key, template) in entries {
                    if let Some(key) = self.evaluated(key.evaluate(bindings))?
                        && let Some(value) = self.fresh(template, bindings)?
                    {
                        map.insert(key.into_owned(), value);
                    }
                }
                Ok((!map.is_empty()).then_some(Value::Object(map)))
            }
            _ => self.evaluated(template.build(bindings)),
        }
    }

    fn value(
        &mut self,
        existing: &mut Value,
        template: &Template,
        place: Place,
        child: Place,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(), Reason> {
        match template {
            Template::Map(entries) => match existing {
                Value::Object(map) => self.map(map, entries, child, bindings),
                other => Err(self.malformed("a map", other)),
            },
            Template::List(ListMerge::Atomic, _) | Template::Constant(_) | Template::Text(..) => {
                let Some(wanted) = self.evaluated(template.build(bindings))? else { return Ok(()) };
                if *existing == wanted {
                    return Ok(());
                }
                let what = if place == Place::Annotations { Kept::Annotation } else { Kept::Field };
                self.conflict(existing, wanted, what)
            }
            Template::List(merge, items) => match existing {
                Value::Array(list) => self.list(list, *merge, items, place, bindings),
                other => Err(self.malformed("a list", other)),
            },
            Template::Edit(edit) => {
                let Some(text) = existing.as_str() else { return Err(self.malformed("a string", existing)) };
                let Some(edited) = self.edited(text, edit, bindings)? else { return Ok(()) };
                if place == Place::Annotations {
                    self.count_annotation(edited.len().saturating_sub(text.len()))?;
                }
                self.replace(existing, Value::String(edited));
                Ok(())
            }
        }
    }

    fn list(
        &mut self,
        list: &mut Vec<Value>,
        merge: ListMerge,
        items: &[Template],
        place: Place,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(), Reason> {
        for item in items {
            let Some(wanted) = self.evaluated(item.build_entry(bindings))? else { continue };
            let same = |existing: &Value| match merge {
                ListMerge::Keyed(keys) => keys.iter().all(|key| existing[*key] == wanted[*key]),
                ListMerge::Set | ListMerge::Atomic => *existing == wanted,
            };
            match list.iter().position(same) {
                None => self.push(list, wanted),
                Some(at) if matches!(merge, ListMerge::Keyed(_)) => {
                    let before = self.enter_index(at);
                    if let Some(Value::Object(map)) = list.get_mut(at) {
                        self.map(map, &item.entries(), place, bindings)?;
                    }
                    self.pointer.truncate(before);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The text after an edit; `None` if it stays as it is.
    pub(super) fn edited(
        &mut self,
        text: &str,
        edit: &Edit,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Option<String>, Reason> {
        match edit {
            Edit::Entry { text: entry, separator, prepend } => {
                let entry = self.evaluated(entry.evaluate(bindings))?;
                Ok(entry.as_str().and_then(|entry| networks::with_entry(text, entry, separator, *prepend)))
            }
            Edit::Networks { .. } => self.networks(text, edit, bindings),
        }
    }

    fn networks(
        &mut self,
        text: &str,
        edit: &Edit,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Option<String>, Reason> {
        let Edit::Networks { network, count } = edit else { return Ok(None) };
        let network = self.evaluated(network.evaluate(bindings))?;
        let count = self.evaluated(count.evaluate(bindings))?;
        let count = Quantity::from_value(&count).and_then(Quantity::as_count).unwrap_or(0);
        let (Some(network), Ok(count)) = (network.as_str(), usize::try_from(count)) else { return Ok(None) };
        if count == 0 || network.is_empty() {
            return Ok(None);
        }
        if self.host_network {
            self.warn(WarningKind::HostNetwork);
            return Ok(None);
        }
        // Before so many of them are written out.
        if count.saturating_mul(network.len()) > MAX_ANNOTATIONS {
            return Err(self.annotation_limit());
        }
        if let Ok(edited) = networks::with_networks(text, network, count, &self.namespace) {
            Ok(edited)
        } else {
            let wanted = format!("{count} times {network}");
            self.warn(WarningKind::Kept { what: Kept::Annotation, seen: shorten(text), wanted });
            Ok(None)
        }
    }

    /// Settles what happens where the pod has another value than the policy.
    pub(super) fn conflict(&mut self, existing: &mut Value, wanted: Value, what: Kept) -> Result<(), Reason> {
        let (seen, shown) = (brief(existing), brief(&wanted));
        match self.on_conflict {
            OnConflict::Keep => self.warn(WarningKind::Kept { what, seen, wanted: shown }),
            OnConflict::Replace => {
                self.warn(WarningKind::Replaced { seen, wanted: shown });
                self.replace(existing, wanted);
            }
            OnConflict::Refuse => {
                return Err(Reason::Conflict {
                    rule: self.rule.to_owned(),
                    path: self.pointer.clone(),
                    seen,
                    wanted: shown,
                });
            }
        }
        Ok(())
    }

    /// Puts a value where the pod has nothing, or `null`.
    pub(super) fn insert(&mut self, target: &mut Map<String, Value>, key: &str, value: Value) {
        if let Some(slot) = target.get_mut(key) {
            self.replace(slot, value);
        } else {
            self.changes.added(&self.pointer, &value);
            target.insert(key.to_owned(), value);
        }
    }

    /// The map under `key`, made if there is none; the pointer points at it.
    pub(super) fn map_in<'t>(
        &mut self,
        target: &'t mut Map<String, Value>,
        key: &str,
    ) -> Result<&'t mut Map<String, Value>, Reason> {
        if target.get(key).is_none_or(Value::is_null) {
            self.insert(target, key, Value::Object(Map::new()));
        }
        match target.get_mut(key) {
            Some(Value::Object(map)) => Ok(map),
            other => Err(self.malformed("a map", other.map_or(&Value::Null, |value| value))),
        }
    }

    /// The list under `key`, made if there is none; the pointer points at it, and the caller adds to it.
    pub(super) fn list_in<'t>(
        &mut self,
        target: &'t mut Map<String, Value>,
        key: &str,
    ) -> Result<&'t mut Vec<Value>, Reason> {
        if target.get(key).is_none_or(Value::is_null) {
            self.insert(target, key, Value::Array(Vec::new()));
        }
        match target.get_mut(key) {
            Some(Value::Array(list)) => Ok(list),
            other => Err(self.malformed("a list", other.map_or(&Value::Null, |value| value))),
        }
    }

    /// Adds an entry after those that a list has.
    pub(super) fn push(&mut self, list: &mut Vec<Value>, value: Value) {
        let before = self.enter_index(list.len());
        self.changes.appended(&self.pointer, &value);
        list.push(value);
        self.pointer.truncate(before);
    }

    pub(super) fn replace(&mut self, existing: &mut Value, value: Value) {
        let before = std::mem::replace(existing, value);
        self.changes.replaced(&self.pointer, before, existing);
    }

    /// Moves the pointer one step down; truncating to the result moves it back.
    pub(super) fn enter(&mut self, token: &str) -> usize {
        let before = self.pointer.len();
        push_token(&mut self.pointer, token);
        before
    }

    /// The same for an entry of a list.
    pub(super) fn enter_index(&mut self, index: usize) -> usize {
        use std::fmt::Write as _;
        let before = self.pointer.len();
        let _ = write!(self.pointer, "/{index}");
        before
    }

    pub(super) fn warn(&mut self, kind: WarningKind) {
        self.warnings.push(Warning { path: self.pointer.clone(), kind, rule: self.rule.to_owned() });
    }

    pub(super) fn malformed(&self, wanted: &'static str, seen: &Value) -> Reason {
        malformed(&self.pointer, wanted, seen)
    }

    pub(super) fn evaluated<T>(&self, result: Result<T, EvaluationError>) -> Result<T, Reason> {
        result.map_err(|error| evaluation_failed(&format!("rule `{}`", self.rule), error))
    }

    /// Counts bytes that are to be added to the annotations. A pod that has no place for all that the policy
    /// adds is better left alone than served by half.
    fn count_annotation(&mut self, bytes: usize) -> Result<(), Reason> {
        self.annotation_bytes = self.annotation_bytes.saturating_add(bytes);
        if self.annotation_bytes > MAX_ANNOTATIONS { Err(self.annotation_limit()) } else { Ok(()) }
    }

    fn annotation_limit(&self) -> Reason {
        let key = self.pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/");
        Reason::AnnotationLimit { key }
    }
}

pub(super) fn evaluation_failed(place: &str, error: EvaluationError) -> Reason {
    Reason::EvaluationFailed { place: place.to_owned(), expression: error.expression, message: error.message }
}

fn contains_edit(entries: &[(Key, Template)]) -> bool {
    entries.iter().any(|(_, template)| match template {
        Template::Edit(_) => true,
        Template::Map(entries) => contains_edit(entries),
        _ => false,
    })
}

fn text_len(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

/// A value for a message: an env entry by its value, everything else as it is, not too long.
pub(super) fn brief(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(map) if map.contains_key("value") && map.contains_key("name") => {
            map.get("value").map(brief).unwrap_or_default()
        }
        Value::Object(map) if map.contains_key("valueFrom") => {
            format!("valueFrom {}", map.get("valueFrom").unwrap_or(&Value::Null))
        }
        other => other.to_string(),
    };
    shorten(&text)
}
