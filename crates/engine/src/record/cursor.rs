//! A position in the pod: the only way to change it.
//!
//! A cursor owns the path to its value and the change log, so a change and its record cannot differ.

use serde_json::{Map, Value};

use fabric_yaml::pointer::push_token;

use super::log::ChangeLog;
use super::report::{Reason, WarningKind};
use super::trace::Author;

/// An object of the pod.
pub(crate) struct Cursor<'a> {
    map: &'a mut Map<String, Value>,
    log: &'a mut ChangeLog,
}

/// A list of the pod.
pub(crate) struct ListCursor<'a> {
    list: &'a mut Vec<Value>,
    log: &'a mut ChangeLog,
}

impl<'a> Cursor<'a> {
    /// The pod itself.
    pub(crate) fn pod(pod: &'a mut Value, log: &'a mut ChangeLog) -> Result<Self, Reason> {
        log.go_to_pod();
        Self::new(pod, log)
    }

    fn new(value: &'a mut Value, log: &'a mut ChangeLog) -> Result<Self, Reason> {
        match value {
            Value::Object(map) => Ok(Self { map, log }),
            other => Err(malformed(log.pointer(), "a map", other)),
        }
    }

    /// A container of the pod.
    pub(crate) fn container(
        pod: &'a mut Value,
        log: &'a mut ChangeLog,
        list: &'static str,
        index: usize,
    ) -> Result<Self, Reason> {
        log.go_to_container(list, index);
        Self::new(&mut pod["spec"][list][index], log)
    }

    /// Attributes the writes that follow to a rule.
    pub(crate) fn written_by_rule(&mut self, rule: &str) {
        self.log.written_by(|| Author::Rule(rule.to_owned()));
    }

    /// The log, at the object.
    pub(crate) fn log(&mut self) -> &mut ChangeLog {
        self.log
    }

    /// The object as it is now.
    pub(crate) fn object(&self) -> &Map<String, Value> {
        self.map
    }

    /// The value of a field; `None` also for `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Sets a field.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        let may_grow = value.is_object() || value.is_array();
        self.log.count(&value);
        self.log.emptied |= value.as_array().is_some_and(Vec::is_empty);
        let before = self.log.enter(key);
        if let Some(existing) = self.map.get_mut(key) {
            let replaced = std::mem::replace(existing, value);
            self.log.changed(Some(replaced), may_grow);
        } else {
            self.map.insert(key.to_owned(), value);
            self.log.changed(None, may_grow);
        }
        self.log.leave(before);
    }

    /// Sets a field to a value whose parts were traced when it was built.
    fn put_built(&mut self, key: &str, value: Value) {
        let trace = self.log.trace.take();
        self.put(key, value);
        self.log.trace = trace;
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(removed) = self.map.shift_remove(key) {
            let before = self.log.enter(key);
            self.log.removed(removed);
            self.log.leave(before);
        }
    }

    /// Changes the object in a field. If it is absent, an object is added unless the changes leave it empty.
    pub(crate) fn within<T>(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut Cursor<'_>) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        self.change(key, &Value::Object(Map::new()), |value, log| change(&mut Cursor::new(value, log)?))
    }

    /// Changes the list in a field. If it is absent, a list is added unless the changes leave it empty.
    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut ListCursor<'_>) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        self.change(key, &Value::Array(Vec::new()), |value, log| match value {
            Value::Array(list) => change(&mut ListCursor { list, log }),
            other => Err(malformed(log.pointer(), "a list", other)),
        })
    }

    /// Changes the value in a field. If it is absent, it is added unless the changes leave it empty.
    fn change<T>(
        &mut self,
        key: &str,
        empty: &Value,
        change: impl FnOnce(&mut Value, &mut ChangeLog) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let before = self.log.enter(key);
        if let Some(value) = self.map.get_mut(key).filter(|value| !value.is_null()) {
            let result = change(value, self.log);
            self.log.leave(before);
            return result;
        }
        let mut value = empty.clone();
        self.log.start_building();
        let result = change(&mut value, self.log);
        self.log.stop_building();
        self.log.leave(before);
        if result.is_ok() && value != *empty {
            self.put_built(key, value);
        }
        result
    }

    /// Returns whether the policy added the object, or a value that contains it.
    pub(crate) fn is_added(&mut self, key: &str) -> bool {
        let before = self.log.enter(key);
        let added = self.log.is_added();
        self.log.leave(before);
        added
    }

    /// Returns whether the policy added the container at this pointer.
    pub(crate) fn added_container(&self, pointer: &str) -> bool {
        self.log.added_container(pointer)
    }

    /// Returns whether the policy added the value of a field, or a value that contains it.
    pub(crate) fn was_added(&mut self, key: &str) -> bool {
        let before = self.log.enter(key);
        let added = self.log.was_added();
        self.log.leave(before);
        added
    }

    /// Adds a warning about a field.
    pub(crate) fn warn(&mut self, key: &str, kind: WarningKind, rule: &str) {
        let before = self.log.enter(key);
        self.log.warn(kind, rule);
        self.log.leave(before);
    }

    /// Adds a warning about the object.
    pub(crate) fn warn_here(&mut self, kind: WarningKind, rule: &str) {
        self.log.warn(kind, rule);
    }

    /// JSON Pointer to a field.
    pub(crate) fn pointer_to(&self, key: &str) -> String {
        let mut pointer = self.log.pointer().to_owned();
        push_token(&mut pointer, key);
        pointer
    }

    /// JSON Pointer to the object.
    pub(crate) fn pointer(&self) -> &str {
        self.log.pointer()
    }
}

impl ListCursor<'_> {
    /// The current entries. Callers look for one of them.
    pub(crate) fn entries(&self) -> &[Value] {
        self.log.takes(self.list.len());
        self.list
    }

    /// Attributes the writes that follow to a part of the policy.
    pub(crate) fn written_by(&mut self, author: &Author) {
        self.log.written_by(|| author.clone());
    }

    /// The log, at the list.
    pub(crate) fn log(&mut self) -> &mut ChangeLog {
        self.log
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, entry: Value) {
        self.log.count(&entry);
        self.log.appended(self.list.len());
        self.list.push(entry);
    }

    /// Replaces an entry.
    pub(crate) fn replace(&mut self, index: usize, entry: Value) {
        let before = self.log.enter_index(index);
        self.log.count(&entry);
        let may_grow = entry.is_object();
        let replaced = std::mem::replace(&mut self.list[index], entry);
        self.log.changed(Some(replaced), may_grow);
        self.log.leave(before);
    }

    /// Changes an entry that is an object.
    pub(crate) fn entry<T>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut Cursor<'_>) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let before = self.log.enter_index(index);
        let result = Cursor::new(&mut self.list[index], self.log).and_then(|mut entry| change(&mut entry));
        self.log.leave(before);
        result
    }

    /// Returns whether the policy added an entry, or a value that contains it.
    pub(crate) fn was_added(&mut self, index: usize) -> bool {
        let before = self.log.enter_index(index);
        let added = self.log.was_added();
        self.log.leave(before);
        added
    }

    /// Adds a warning about an entry.
    pub(crate) fn warn(&mut self, index: usize, kind: WarningKind, rule: &str) {
        let before = self.log.enter_index(index);
        self.log.warn(kind, rule);
        self.log.leave(before);
    }

    /// Adds a warning about the list.
    pub(crate) fn warn_here(&mut self, kind: WarningKind, rule: &str) {
        self.log.warn(kind, rule);
    }

    /// JSON Pointer to an entry.
    pub(crate) fn pointer_to(&self, index: usize) -> String {
        format!("{}/{index}", self.log.pointer())
    }
}

/// Appends a container with only its name to a list of the pod. The fields of a rule fill it in.
pub(crate) fn add_container(
    pod: &mut Value,
    log: &mut ChangeLog,
    list: &'static str,
    name: &str,
) -> Result<usize, Reason> {
    let entry = Value::Object(Map::from_iter([("name".to_owned(), Value::from(name))]));
    let mut cursor = Cursor::pod(pod, log)?;
    let index = cursor.within("spec", |spec| {
        spec.list(list, |containers| {
            containers.push(entry);
            Ok(containers.entries().len() - 1)
        })
    })?;
    Ok(index)
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
