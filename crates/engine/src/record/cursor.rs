//! A position in the pod: the only way to change it.
//!
//! A cursor owns the path to its value and the change log, so a change and its record cannot differ.

use serde_json::{Map, Value, json};

use super::log::{ChangeLog, Step};
use super::report::{OrReason, Reason, WarningKind};

/// A value of the pod that has parts, and the log at it.
pub(crate) struct CursorOf<'a, V> {
    value: &'a mut V,
    pub(crate) log: &'a mut ChangeLog,
}

/// An object of the pod.
pub(crate) type Cursor<'a> = CursorOf<'a, Map<String, Value>>;

/// The place of a container: `containers` or `initContainers`, and the index there.
pub(crate) type Place = (&'static str, usize);

/// A list of the pod.
pub(crate) type ListCursor<'a> = CursorOf<'a, Vec<Value>>;

impl<V> CursorOf<'_, V> {
    /// Adds a warning about a part.
    pub(crate) fn warn(&mut self, step: impl Step, kind: WarningKind, rule: &str) {
        self.log.at(step, |log| log.warn(kind, rule));
    }

    /// JSON Pointer to a part.
    pub(crate) fn pointer_to(&self, step: impl Step) -> String {
        let mut pointer = self.log.pointer().to_owned();
        step.push_to(&mut pointer);
        pointer
    }
}

impl<'a> Cursor<'a> {
    /// The pod itself.
    pub(crate) fn pod(pod: &'a mut Value, log: &'a mut ChangeLog) -> OrReason<Self> {
        log.go_to_pod();
        Self::new(pod, log)
    }

    fn new(value: &'a mut Value, log: &'a mut ChangeLog) -> OrReason<Self> {
        match value {
            Value::Object(value) => Ok(Self { value, log }),
            other => Err(malformed(log.pointer(), "a map", other)),
        }
    }

    /// A container of the pod.
    pub(crate) fn container(pod: &'a mut Value, log: &'a mut ChangeLog, place: Place) -> OrReason<Self> {
        let (list, index) = place;
        log.go_to_container(list, index);
        Self::new(&mut pod["spec"][list][index], log)
    }

    /// The object as it is now.
    pub(crate) fn object(&self) -> &Map<String, Value> {
        self.value
    }

    /// The value of a field; `None` also for `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// Sets a field.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        let may_grow = value.is_object() || value.is_array();
        self.log.count(&value);
        self.log.emptied |= value.as_array().is_some_and(Vec::is_empty);
        let replaced = self.value.insert(key.to_owned(), value);
        self.log.at(key, |log| log.changed(replaced, may_grow));
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(removed) = self.value.shift_remove(key) {
            self.log.at(key, |log| log.removed(removed));
        }
    }

    /// Changes the object in a field. If it is absent, an object is added unless the changes leave it empty.
    pub(crate) fn within<T>(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut Cursor<'_>) -> OrReason<T>,
    ) -> OrReason<T> {
        self.change(key, &Value::Object(Map::new()), |value, log| change(&mut Cursor::new(value, log)?))
    }

    /// Changes the list in a field. If it is absent, a list is added unless the changes leave it empty.
    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut ListCursor<'_>) -> OrReason<T>,
    ) -> OrReason<T> {
        self.change(key, &Value::Array(Vec::new()), |value, log| match value {
            Value::Array(value) => change(&mut ListCursor { value, log }),
            other => Err(malformed(log.pointer(), "a list", other)),
        })
    }

    /// Changes the value in a field. If it is absent, it is added unless the changes leave it empty.
    fn change<T>(
        &mut self,
        key: &str,
        empty: &Value,
        change: impl FnOnce(&mut Value, &mut ChangeLog) -> OrReason<T>,
    ) -> OrReason<T> {
        if let Some(value) = self.value.get_mut(key).filter(|value| !value.is_null()) {
            return self.log.at(key, |log| change(value, log));
        }
        let mut value = empty.clone();
        let result = self.log.at(key, |log| log.build(|log| change(&mut value, log)));
        if result.is_ok() && value != *empty {
            // Its parts were traced when they were built.
            let trace = self.log.trace.take();
            self.put(key, value);
            self.log.trace = trace;
        }
        result
    }
}

impl ListCursor<'_> {
    /// The current entries. Callers look for one of them.
    pub(crate) fn entries(&self) -> &[Value] {
        self.log.takes(self.value.len());
        self.value
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, entry: Value) {
        self.log.count(&entry);
        self.log.at(self.value.len(), ChangeLog::appended);
        self.value.push(entry);
    }

    /// Replaces an entry.
    pub(crate) fn replace(&mut self, index: usize, entry: Value) {
        self.log.count(&entry);
        let may_grow = entry.is_object();
        let replaced = std::mem::replace(&mut self.value[index], entry);
        self.log.at(index, |log| log.changed(Some(replaced), may_grow));
    }

    /// Changes an entry that is an object.
    pub(crate) fn entry<T>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut Cursor<'_>) -> OrReason<T>,
    ) -> OrReason<T> {
        let entry = &mut self.value[index];
        self.log.at(index, |log| change(&mut Cursor::new(entry, log)?))
    }
}

/// Changes the annotations of the pod.
pub(crate) fn change_annotations(
    pod: &mut Value,
    log: &mut ChangeLog,
    change: impl FnOnce(&mut Cursor<'_>) -> OrReason,
) -> OrReason {
    Cursor::pod(pod, log)?.within("metadata", |metadata| metadata.within("annotations", change))
}

/// Appends a container with only its name to a list of the pod. The fields of a rule fill it in.
pub(crate) fn add_container(
    pod: &mut Value,
    log: &mut ChangeLog,
    list: &'static str,
    name: &str,
) -> OrReason<usize> {
    Cursor::pod(pod, log)?.within("spec", |spec| {
        spec.list(list, |containers| {
            containers.push(json!({"name": name}));
            Ok(containers.entries().len() - 1)
        })
    })
}

/// A value of a kind that a pod cannot have there. `path` is a JSON Pointer or a field path.
pub(crate) fn malformed(path: &str, wanted: &'static str, seen: &Value) -> Reason {
    let path = if path.is_empty() { "the pod" } else { path };
    Reason::MalformedPod { path: path.to_owned(), wanted, seen: shorten(&seen.to_string()) }
}

/// At most 80 characters of a value, for a message.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(80).is_some() {
        short.push('…');
    }
    short
}
