//! Changes to a pod, merged as a strategic merge patch.

use serde_json::Value;

use fabric_policy::schema::Shape;

/// Merges changes into a value. `null` removes a field; entries of a list with the same key are merged.
pub(super) fn merge(value: &mut Value, change: &Value, shape: &Shape) {
    match (shape, &mut *value, change) {
        (_, Value::Object(map), Value::Object(changes)) => {
            for (key, change) in changes {
                let inner = shape.inner(key).unwrap_or(Shape::Opaque);
                if change.is_null() {
                    map.shift_remove(key);
                } else {
                    merge(map.entry(key.clone()).or_insert(Value::Null), change, &inner);
                }
            }
        }
        (Shape::List { keys: Some([]), .. }, Value::Array(entries), Value::Array(changes)) => {
            let new: Vec<Value> =
                changes.iter().filter(|change| !entries.contains(change)).cloned().collect();
            entries.extend(new);
        }
        (Shape::List { items, keys: Some(keys) }, Value::Array(entries), Value::Array(changes)) => {
            for change in changes {
                match entries.iter_mut().find(|entry| same_entry(entry, change, keys)) {
                    Some(entry) => merge(entry, change, items),
                    None => entries.push(change.clone()),
                }
            }
        }
        _ => *value = change.clone(),
    }
}

/// Returns whether two entries of a list have the same values under those of the keys that `wanted` has.
pub(super) fn same_entry(entry: &Value, wanted: &Value, keys: &[&str]) -> bool {
    let mut known = keys.iter().filter(|key| !wanted[**key].is_null()).peekable();
    known.peek().is_some() && known.all(|key| entry[*key] == wanted[*key])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use fabric_policy::schema;

    #[test]
    fn entries_are_merged_by_their_keys_and_null_removes() {
        let mut pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "containers": [
            {"name": "main", "args": ["x", "y"], "env": [{"name": "X", "value": "1"}]}]}});
        let change = json!({"metadata": {"labels": null}, "spec": {"hostNetwork": null, "containers": [
            {"name": "main", "args": ["z"], "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}, {"name": "b"}]}});
        merge(&mut pod, &change, &Shape::Object(schema::pod()));
        let merged = json!({"metadata": {}, "spec": {"containers": [
            {"name": "main", "args": ["z"], "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}, {"name": "b"}]}});
        assert_eq!(pod, merged);
    }
}
