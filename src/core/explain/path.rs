//! Paths of fields, as text and in a pod.

use serde_json::Value;

use crate::core::pointer::push_token;

use super::constants::shown;
use super::overlay::Step;

/// A path as in reports: `spec.volumes[shm]`.
pub(super) fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.push_str(&format!(".{name}")),
            Step::Key(key) => text.push_str(&format!("[{key}]")),
            Step::Entry(keys) => {
                let keys: Vec<String> = keys.iter().map(|(_, value)| shown(value)).collect();
                text.push_str(&format!("[{}]", keys.join("/")));
            }
            Step::Item(Value::String(item)) => text.push_str(&format!("[{item}]")),
            Step::Item(_) => text.push_str("[…]"),
        }
    }
    text
}

/// The JSON Pointer to the value at a path from the value at `base`; `None` if the pod has none.
pub(super) fn find(pod: &Value, base: &str, path: &[Step]) -> Option<String> {
    let mut pointer = base.to_owned();
    let mut value = pod.pointer(base)?;
    for step in path {
        match step {
            Step::Field(name) => {
                push_token(&mut pointer, name);
                value = value.get(name)?;
            }
            Step::Key(key) => {
                push_token(&mut pointer, key);
                value = value.get(key)?;
            }
            Step::Entry(keys) => {
                let is_entry = |entry: &Value| keys.iter().all(|(key, wanted)| same(&entry[*key], wanted));
                let at = value.as_array()?.iter().rposition(is_entry)?;
                push_token(&mut pointer, &at.to_string());
                value = &value[at];
            }
            Step::Item(wanted) => {
                let at = value.as_array()?.iter().position(|entry| entry == wanted)?;
                push_token(&mut pointer, &at.to_string());
                value = &value[at];
            }
        }
    }
    Some(pointer)
}

/// Returns whether two keys of a list are the same: `/dev/shm/` is `/dev/shm`, and an absent key has its default.
fn same(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::String(seen), Value::String(wanted)) => {
            seen == wanted
                || wanted.starts_with('/') && seen.trim_end_matches('/') == wanted.trim_end_matches('/')
        }
        (Value::Null, _) => true,
        _ => seen == wanted,
    }
}
