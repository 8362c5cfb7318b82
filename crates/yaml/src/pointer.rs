//! JSON Pointers (RFC 6901).

use std::borrow::Cow;

use json_patch::jsonptr::{Pointer, Token};
use serde_json::Value;

/// Appends a token to a JSON Pointer.
pub fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(Token::new(token).encoded());
}

/// A token of a JSON Pointer without its escapes.
pub fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Token::from_encoded(token).map_or(token.into(), |token| token.decoded().into_owned().into())
    } else {
        token.into()
    }
}

/// The value at a JSON Pointer.
pub fn at_pointer<'v>(root: &'v Value, pointer: &str) -> Option<&'v Value> {
    Pointer::parse(pointer).ok()?.resolve(root).ok()
}

/// The JSON Pointers of the values that a path leads to. `*` matches each item of a list and each value of a map.
pub fn expanded(root: &Value, path: &str) -> Vec<String> {
    path.split('/').skip(1).fold(vec![String::new()], |found, token| {
        found.iter().flat_map(|pointer| children(root, pointer, token)).collect()
    })
}

/// The JSON Pointers of the values at the next token of such a path.
fn children(root: &Value, pointer: &str, token: &str) -> Vec<String> {
    let keys = match at_pointer(root, pointer) {
        Some(Value::Object(map)) if token == "*" => map.keys().cloned().collect(),
        Some(Value::Array(items)) if token == "*" => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => vec![unescape(token).into_owned()],
    };
    let child = |key: String| {
        let mut child = pointer.to_owned();
        push_token(&mut child, &key);
        child
    };
    keys.into_iter().map(child).filter(|child| at_pointer(root, child).is_some()).collect()
}

/// Calls `visit` for a value and for each value in it, with its JSON Pointer. `pointer` is that of the value.
pub fn visit_values(value: &Value, pointer: &mut String, visit: &mut impl FnMut(&str, &Value)) {
    visit(pointer, value);
    let mut child = |token: &str, child: &Value| {
        let before = pointer.len();
        push_token(pointer, token);
        visit_values(child, pointer, visit);
        pointer.truncate(before);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| child(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| child(&at.to_string(), item)),
        _ => {}
    }
}

/// A JSON Pointer as a field path: `spec.containers[nim].env[UCX_TLS]`.
pub fn field_path(pod: &Value, pointer: &str) -> String {
    let mut path = String::new();
    let mut value = Some(pod);
    for token in pointer.split('/').skip(1) {
        let token = unescape(token);
        value = if let Some(Value::Array(items)) = value {
            let item = token.parse::<usize>().ok().and_then(|index| items.get(index));
            let text = |key: &str| item.and_then(|item| item[key].as_str());
            let name = text("mountPath").or_else(|| text("name")).unwrap_or(&token);
            path.push_str(&format!("[{name}]"));
            item
        } else {
            path = with_key(&path, &token);
            value.and_then(|value| value.get(&*token))
        };
    }
    path
}

/// The field path of a key in the map at a path.
pub fn with_key(path: &str, key: &str) -> String {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match (is_plain, path) {
        (false, _) => format!("{path}[{key}]"),
        (true, "") => key.to_owned(),
        (true, _) => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
