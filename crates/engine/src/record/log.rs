//! The change log of one pod, from which the JSON Patch, the undoing and every report are derived.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::Value;

use fabric_policy::PodContext;
use fabric_policy::schema::{Shape, same, shape_at};
use fabric_policy::work::{STEPS_TO_VALUE, Work, goes_on, read, takes_memory};
use fabric_yaml::pointer::{at_pointer, push_token, unescape};

use super::report::{OrReason, Reason, Warning, WarningKind};
use super::trace::{Author, Because, FieldState, Trace};

/// The API server reads no request of more than 3 MiB, and etcd by default stores no object of more than 1.5 MiB.
const MAX_WRITTEN: usize = 3 * 1024 * 1024;

/// The pointers of the changed values, each with whether it replaced another value.
///
/// Values are read from the finished pod, so the patch yields that pod by construction. Additions to lists are in
/// order, so every index is right when its operation is applied.
pub(crate) type Changes = Vec<(String, bool)>;

/// A step from a value to a part of it: the key of a map, or the index of a list.
pub(crate) trait Step: Copy {
    /// Appends the step to a JSON Pointer.
    fn push_to(self, pointer: &mut String);
}

impl Step for &str {
    fn push_to(self, pointer: &mut String) {
        push_token(pointer, self);
    }
}

impl Step for usize {
    fn push_to(self, pointer: &mut String) {
        use std::fmt::Write as _;
        let _ = write!(pointer, "/{self}");
    }
}

/// One change that was made to the pod.
#[derive(Debug)]
struct Change {
    /// The value that was replaced or removed; `None` where there was none.
    before: Option<Value>,
    /// True for a map, a list or an entry of a list that was added: a change within it is part of the addition.
    may_grow: bool,
}

/// The changes made to one pod, and the warnings about it.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// By JSON Pointer (RFC 6901) from the pod's root, in order.
    changes: IndexMap<String, Change, RandomState>,
    /// The size of the values that were written, in bytes.
    written: usize,
    /// JSON Pointer to the current value.
    pointer: String,
    /// The length of the pointer to the outermost added value that contains the current one.
    within_added: Option<usize>,
    /// The number of writes into the pod.
    pub(crate) writes: usize,
    /// The depth of values that are being built and are not yet part of the pod.
    building: usize,
    pub(crate) warnings: Vec<Warning>,
    /// The codes of the checks that report what the policy itself adds.
    pub(crate) own_checks: Vec<String>,
    /// True if a value is left out because of something that a later value may change: another merge may add it, so that
    /// the pod is injected again.
    pub(crate) may_differ_again: bool,
    /// True if a list was replaced by an empty one.
    pub(crate) emptied: bool,
    /// A record for a caller that asked for one.
    pub(crate) trace: Option<Box<Trace>>,
    work: Option<Work>,
}

impl ChangeLog {
    /// The log of an injection.
    pub(crate) fn new(context: &PodContext) -> Self {
        Self { work: context.work.clone(), ..Self::default() }
    }

    /// Counts steps of work for the pod.
    pub(crate) fn takes(&self, steps: usize) {
        goes_on(self.work.as_ref(), steps);
    }

    /// Reads a text of the pod as JSON.
    pub(crate) fn read(&self, text: &str) -> Option<Value> {
        read(self.work.as_ref(), text).ok()
    }

    /// Counts the bytes that one call is about to take.
    pub(crate) fn takes_memory(&self, bytes: usize) {
        takes_memory(self.work.as_ref(), bytes);
    }

    /// Moves to the root of the pod.
    pub(crate) fn go_to_pod(&mut self) {
        self.pointer.clear();
        self.within_added = None;
    }

    /// Moves to a container.
    pub(crate) fn go_to_container(&mut self, list: &str, index: usize) {
        self.go_to_pod();
        self.enter("spec");
        self.enter(list);
        self.enter(index);
    }

    fn record(&mut self, before: Option<Value>, may_grow: bool) {
        self.changes.insert(self.pointer.clone(), Change { before, may_grow });
    }

    /// JSON Pointer to the current value.
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Moves one step down. What is below an added value is part of the addition. Returns the length of the pointer
    /// before.
    fn enter(&mut self, step: impl Step) -> usize {
        self.takes(STEPS_TO_VALUE);
        let length = self.pointer.len();
        if self.within_added.is_none() && self.may_grow(&self.pointer) {
            self.within_added = Some(length);
        }
        step.push_to(&mut self.pointer);
        length
    }

    /// Does something one step down.
    pub(crate) fn at<T>(&mut self, step: impl Step, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.enter(step);
        let result = run(self);
        self.pointer.truncate(before);
        self.within_added = self.within_added.filter(|added| *added < before);
        result
    }

    /// Builds a value that is not part of the pod yet: changes to it are not recorded.
    pub(crate) fn build<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.building += 1;
        let result = run(self);
        self.building -= 1;
        result
    }

    /// Counts a value that is written into the pod.
    pub(crate) fn count(&mut self, value: &Value) {
        if self.building == 0 {
            let size = size_of(value);
            self.takes(size);
            self.written = self.written.saturating_add(size);
        }
    }

    /// Returns an error if the values that were written are larger than a pod can be.
    pub(crate) fn check_size(&self) -> OrReason {
        if self.written > MAX_WRITTEN { Err(Reason::PodLimit) } else { Ok(()) }
    }

    /// Records that the current value was added, or replaced another one.
    pub(crate) fn changed(&mut self, before: Option<Value>, may_grow: bool) {
        self.note_write();
        if self.is_added() {
            return;
        }
        // The first record of a value has the original value of the pod.
        if !self.changes.contains_key(&self.pointer) {
            self.record(before, may_grow);
        }
    }

    /// Records that the current value was removed.
    pub(crate) fn removed(&mut self, before: Value) {
        self.note_write();
        match self.changes.get(&self.pointer) {
            // Additions of the policy are not in the pod that the patch starts from.
            Some(Change { before: None, .. }) => _ = self.changes.shift_remove(&self.pointer),
            Some(_) => {}
            None if self.is_added() => {}
            None => self.record(Some(before), false),
        }
    }

    /// Records that the current value was appended to its list.
    pub(crate) fn appended(&mut self) {
        self.note_write();
        if !self.is_added() {
            self.record(None, true);
        }
    }

    /// Returns whether the current value is within something that was added.
    pub(crate) fn is_added(&self) -> bool {
        self.building > 0 || self.within_added.is_some()
    }

    fn may_grow(&self, pointer: &str) -> bool {
        self.changes.get(pointer).is_some_and(|change| change.may_grow)
    }

    /// Returns whether the policy added the container at this pointer.
    pub(crate) fn added_container(&self, pointer: &str) -> bool {
        let enclosing = pointer.match_indices('/').map(|(end, _)| &pointer[..end]);
        enclosing.chain([pointer]).any(|pointer| self.may_grow(pointer))
    }

    /// Returns whether the current value, or a value that contains it, was added.
    pub(crate) fn was_added(&self) -> bool {
        self.is_added() || self.changes.get(&self.pointer).is_some_and(|change| change.before.is_none())
    }

    /// Adds a warning about the current value.
    pub(crate) fn warn(&mut self, kind: WarningKind, rule: &str) {
        if let Some(trace) = &mut self.trace {
            trace.warned(&self.pointer, &kind);
        }
        self.warnings.push(Warning { path: self.pointer.clone(), kind, rule: rule.to_owned() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Attributes the writes that follow to a part of the policy.
    pub(crate) fn written_by(&mut self, author: impl FnOnce() -> Author) {
        if let Some(trace) = &mut self.trace {
            trace.author = author();
        }
    }

    fn note_write(&mut self) {
        self.writes += 1;
        if let Some(trace) = &mut self.trace {
            trace.wrote(&self.pointer);
        }
    }

    /// Notes that the value on this path from the current one is there already.
    pub(crate) fn present(&mut self, path: &[&str]) {
        if let Some(trace) = &mut self.trace {
            trace.present(&joined(&self.pointer, path));
        }
    }

    /// Notes that an entry of the current list is there already.
    pub(crate) fn present_entry(&mut self, index: usize) {
        if self.trace.is_some() {
            self.present(&[&index.to_string()]);
        }
    }

    /// Notes that the value on this path from the current one is left out, for a reason without a warning.
    pub(crate) fn left_out(&mut self, path: &[impl AsRef<str>], because: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.add(&joined(&self.pointer, path), FieldState::LeftOut, Because::Text(because()));
        }
    }

    /// Notes that the value on this path belongs to another rule.
    pub(crate) fn belongs_to(&mut self, rule: &str, path: &[&str]) {
        if let Some(trace) = &mut self.trace {
            let because = Because::Precedence(rule.to_owned());
            trace.add(&joined(&self.pointer, path), FieldState::LeftOut, because);
        }
    }

    /// Drops changes that later changes reverted, and restores the pod's original spelling of the values.
    pub(crate) fn drop_reverted(&mut self, pod: &mut Value) {
        let emptied = self.emptied;
        let mut reverted: HashSet<String> = HashSet::new();
        self.changes.retain(|pointer, change| {
            if emptied && is_emptied(pointer, change, pod) {
                restore(pod, pointer, change.before.take());
                return false;
            }
            !is_reverted(pointer, change, pod, &mut reverted)
        });
        self.warnings.retain(|warning| {
            !matches!(warning.kind, WarningKind::Replaced { .. }) || !reverted.contains(&warning.path)
        });
    }

    /// Reverts all changes, the last one first.
    pub(crate) fn undo(&mut self, pod: &mut Value) {
        for (pointer, change) in std::mem::take(&mut self.changes).into_iter().rev() {
            restore(pod, &pointer, change.before);
        }
    }

    /// The changes as they are reported and sent.
    pub(crate) fn finish(&mut self) -> (Changes, Vec<Warning>) {
        let changes = std::mem::take(&mut self.changes).into_iter();
        let changes = changes.map(|(pointer, change)| (pointer, change.before.is_some()));
        (changes.collect(), std::mem::take(&mut self.warnings))
    }
}

/// JSON Pointer to the value on this path.
fn joined(pointer: &str, path: &[impl AsRef<str>]) -> String {
    path.iter().fold(pointer.to_owned(), |mut pointer, token| {
        push_token(&mut pointer, token.as_ref());
        pointer
    })
}

/// The size of a value as JSON, without its punctuation.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Returns whether one rule added a list whose entries another one removed. An empty list counts as absent.
fn is_emptied(pointer: &str, change: &Change, pod: &Value) -> bool {
    let was_absent = change.before.as_ref().is_none_or(Value::is_null);
    let is_empty = || at_pointer(pod, pointer).and_then(Value::as_array).is_some_and(Vec::is_empty);
    was_absent && is_empty() && matches!(shape_at(pointer), Some(Shape::List { .. }))
}

/// Returns whether later changes restored an original value of the pod, and restores its spelling.
fn is_reverted(pointer: &str, change: &Change, pod: &mut Value, reverted: &mut HashSet<String>) -> bool {
    let Some(before) = change.before.as_ref().filter(|before| !before.is_null()) else { return false };
    let Some(now) = pod.pointer_mut(pointer) else { return false };
    let shape = shape_at(pointer).unwrap_or(Shape::Opaque);
    let is_same = same(before, now, &shape);
    if is_same {
        now.clone_from(before);
        reverted.insert(pointer.to_owned());
    }
    is_same
}

/// Restores what was at a JSON Pointer before a change.
fn restore(pod: &mut Value, pointer: &str, before: Option<Value>) {
    let Some((parent, token)) = pointer.rsplit_once('/') else { return };
    match (pod.pointer_mut(parent), before) {
        (Some(Value::Object(map)), Some(before)) => _ = map.insert(unescape(token).into_owned(), before),
        (Some(Value::Object(map)), None) => _ = map.shift_remove(&*unescape(token)),
        (Some(Value::Array(items)), before) => {
            let Some(index) = token.parse::<usize>().ok().filter(|index| *index < items.len()) else {
                return;
            };
            match before {
                Some(before) => items[index] = before,
                None => _ = items.remove(index),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
