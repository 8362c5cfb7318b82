//! What was changed, in the order in which it was: enough to write the JSON Patch, and to undo it.

use serde_json::{Map, Value};

/// One change that was made to the pod.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    /// JSON Pointer (RFC 6901) from the pod's root.
    pointer: String,
    /// What stood there before; `None` where nothing did.
    before: Option<Value>,
    /// Whether it happened inside of something that was itself added, and so needs no operation of its own.
    inside: bool,
}

/// The changes made to one pod so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changes {
    list: Vec<Change>,
    /// What was added and may be added to further.
    opened: Vec<String>,
}

impl Changes {
    /// The next changes are to another part of the pod: nothing that was opened so far will be filled further.
    pub(crate) fn next_part(&mut self) {
        self.opened.clear();
    }

    /// A field now stands where nothing did.
    pub(crate) fn added(&mut self, pointer: &str, value: &Value) {
        self.push(pointer, None, value.is_array() || value.is_object());
    }

    /// A list has one more entry. The many small ones (variables, mounts) are not added to further.
    pub(crate) fn appended(&mut self, pointer: &str, value: &Value) {
        self.push(pointer, None, may_grow(value));
    }

    /// Something else now stands there. `null` counts as nothing in Kubernetes, but not in a patch.
    pub(crate) fn replaced(&mut self, pointer: &str, before: Value, value: &Value) {
        self.push(pointer, Some(before), value.is_array() || value.is_object());
    }

    fn push(&mut self, pointer: &str, before: Option<Value>, opens: bool) {
        let inside = self
            .opened
            .iter()
            .any(|opened| pointer.strip_prefix(opened.as_str()).is_some_and(|rest| rest.starts_with('/')));
        if opens && !inside {
            self.opened.push(pointer.to_owned());
        }
        self.list.push(Change { pointer: pointer.to_owned(), before, inside });
    }

    /// Takes back the last change, which put a value under `key`.
    pub(crate) fn take_back_last(&mut self, map: &mut Map<String, Value>, key: &str) {
        if let Some(change) = self.list.pop() {
            self.opened.retain(|opened| *opened != change.pointer);
            match change.before {
                Some(before) => {
                    map.insert(key.to_owned(), before);
                }
                None => {
                    map.shift_remove(key);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all changes back, last one first.
    pub(crate) fn undo(self, pod: &mut Value) {
        for change in self.list.into_iter().rev() {
            match change.before {
                Some(before) => {
                    if let Some(place) = pod.pointer_mut(&change.pointer) {
                        *place = before;
                    }
                }
                None => remove(pod, &change.pointer),
            }
        }
    }

    /// The operations that bring the pod as it came to what it is now.
    ///
    /// A change inside of something that was itself added is part of that addition, whose value is read from
    /// the finished pod. Additions to lists are made in order, so every index is right when its turn comes.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let own = self.list.iter().filter(|change| !change.inside);
        own.map(|change| Operation { pointer: &change.pointer, replaces: change.before.is_some() })
    }
}

/// Whether a later change inside of an entry would be wrong as an operation of its own: only lists within it
/// count, since setting a field twice comes to the same.
fn may_grow(entry: &Value) -> bool {
    entry.as_object().is_some_and(|map| map.values().any(|value| value.is_array() || value.is_object()))
}

/// One operation of the patch; its value is what the pod has at `pointer`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) pointer: &'a str,
    pub(crate) replaces: bool,
}

fn remove(pod: &mut Value, pointer: &str) {
    let Some((parent, token)) = pointer.rsplit_once('/') else { return };
    match pod.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.shift_remove(&token.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Ok(index) = token.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// What stands at a JSON Pointer. Unlike [`Value::pointer`] it copies no token that has nothing escaped in it.
pub(crate) fn at_pointer<'v>(root: &'v Value, pointer: &str) -> Option<&'v Value> {
    pointer.split('/').skip(1).try_fold(root, |place, token| match place {
        Value::Object(map) if token.contains('~') => map.get(&token.replace("~1", "/").replace("~0", "~")),
        Value::Object(map) => map.get(token),
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Appends one token to a JSON Pointer.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    if token.contains(['~', '/']) {
        pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(token);
    }
}

/// A JSON Pointer as people write a field path: `spec.containers[nim].env[UCX_TLS]`.
pub(crate) fn field_path(pod: &Value, pointer: &str) -> String {
    let mut path = String::new();
    let mut place = Some(pod);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        place = match place {
            Some(Value::Array(items)) => {
                let item = token.parse::<usize>().ok().and_then(|index| items.get(index));
                let name =
                    item.and_then(|item| item["name"].as_str().filter(|_| item["mountPath"].is_null()));
                let name = name.or_else(|| item.and_then(|item| item["mountPath"].as_str()));
                path.push_str(&format!("[{}]", name.unwrap_or(&token)));
                item
            }
            other => {
                if token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&token);
                } else {
                    path.push_str(&format!("[{token}]"));
                }
                other.and_then(|value| value.get(&token))
            }
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_inside_of_an_addition_is_no_operation_of_its_own() {
        let mut changes = Changes::default();
        changes.added("/spec/volumes", &json!([]));
        changes.added("/spec/volumes/0", &json!({"name": "v"}));
        changes.added("/spec/volumesX", &json!(1));
        changes.appended("/c/0", &json!({"env": [1]}));
        changes.added("/c/0/env/1", &json!(2));
        let pointers: Vec<&str> = changes.operations().map(|operation| operation.pointer).collect();
        assert_eq!(pointers, ["/spec/volumes", "/spec/volumesX", "/c/0"]);
    }

    #[test]
    fn undo_restores_the_pod_to_the_letter() {
        let before = json!({"a": {"x/y": 1, "z": null}, "l": [1]});
        let mut pod = before.clone();
        let mut changes = Changes::default();
        pod["l"].as_array_mut().unwrap().push(json!(2));
        changes.added("/l/1", &json!(2));
        pod["a"]["q"] = json!({"r": 1});
        changes.added("/a/q", &json!({"r": 1}));
        changes.replaced("/a/x~1y", std::mem::replace(&mut pod["a"]["x/y"], json!(5)), &json!(5));
        changes.replaced("/a/z", std::mem::replace(&mut pod["a"]["z"], json!({})), &json!({}));
        changes.undo(&mut pod);
        assert_eq!(pod.to_string(), before.to_string());
    }

    #[test]
    fn field_paths_name_entries_by_what_identifies_them() {
        let pod = json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {"containers": [
            {"name": "nim", "env": [{"name": "X"}], "volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}]}]}});
        assert_eq!(field_path(&pod, "/spec/containers/0/env/0"), "spec.containers[nim].env[X]");
        assert_eq!(
            field_path(&pod, "/spec/containers/0/volumeMounts/0"),
            "spec.containers[nim].volumeMounts[/dev/shm]"
        );
        assert_eq!(field_path(&pod, "/metadata/annotations/a~1b"), "metadata.annotations[a/b]");
    }
}
