//! The comparison of a pod with the expected one, and changes to a pod, merged as a strategic merge patch, in the terms of
//! the Pod's schema.

use serde_json::{Map, Value};

use fabric_policy::schema::{Shape, same};
use fabric_yaml::pointer::with_key;

/// A part of a result that differs from the expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `outcome`, `reason`, `warnings`, `patch`, or a field path.
    pub at: String,
    /// `None` if nothing is expected.
    pub expected: Option<String>,
    /// `None` if there is nothing.
    pub actual: Option<String>,
}

impl Difference {
    pub(super) fn new(at: &str, expected: Option<String>, actual: Option<String>) -> Self {
        Self { at: at.to_owned(), expected, actual }
    }
}

/// Finds the parts that an object lacks or that differ.
struct Comparison {
    /// If true, the object must have nothing else.
    whole: bool,
    differences: Vec<Difference>,
}

/// The parts of `expected` that a value does not have.
pub(super) fn missing(expected: &Value, actual: &Value, shape: &Shape) -> Vec<Difference> {
    compare(false, expected, actual, shape)
}

/// The differences between two values.
pub(super) fn differences(expected: &Value, actual: &Value, shape: &Shape) -> Vec<Difference> {
    compare(true, expected, actual, shape)
}

fn compare(whole: bool, expected: &Value, actual: &Value, shape: &Shape) -> Vec<Difference> {
    let mut comparison = Comparison { whole, differences: Vec::new() };
    comparison.value("", expected, Some(actual), shape);
    comparison.differences
}

impl Comparison {
    fn value(&mut self, path: &str, expected: &Value, actual: Option<&Value>, shape: &Shape) {
        let Some(actual) = actual else { return self.differ(path, Some(expected), None) };
        match (expected, actual, shape) {
            (Value::Object(expected), Value::Object(actual), _) => self.object(path, expected, actual, shape),
            (Value::Array(expected), Value::Array(actual), Shape::List { items, keys }) => {
                self.list(path, expected, actual, items, *keys);
            }
            _ if self.whole && expected == actual => {}
            _ if !self.whole && same(actual, expected, shape) => {}
            _ => self.differ(path, Some(expected), Some(actual)),
        }
    }

    fn object(
        &mut self,
        path: &str,
        expected: &Map<String, Value>,
        actual: &Map<String, Value>,
        shape: &Shape,
    ) {
        for (key, value) in expected {
            let inner = shape.inner(key).unwrap_or(Shape::Opaque);
            self.value(&with_key(path, key), value, actual.get(key), &inner);
        }
        if self.whole {
            for (key, value) in actual.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                self.differ(&with_key(path, key), None, Some(value));
            }
        }
    }

    fn list(
        &mut self,
        path: &str,
        expected: &[Value],
        actual: &[Value],
        items: &Shape,
        keys: Option<&[&str]>,
    ) {
        let Some(keys @ [_, ..]) = keys else {
            let found = if self.whole || keys.is_none() {
                expected.len() == actual.len()
                    && expected.iter().zip(actual).all(|(one, other)| same(other, one, items))
            } else {
                expected.iter().all(|wanted| actual.iter().any(|entry| same(entry, wanted, items)))
            };
            if !found {
                self.differ(path, Some(&expected.into()), Some(&actual.into()));
            }
            return;
        };
        let with_entry = |at: usize, entry: &Value| {
            let name = keys.first().and_then(|key| entry[*key].as_str().map(str::to_owned));
            format!("{path}[{}]", name.unwrap_or_else(|| at.to_string()))
        };
        let before = self.differences.len();
        for (at, wanted) in expected.iter().enumerate() {
            let entry = actual.iter().find(|entry| same_entry(entry, wanted, keys));
            self.value(&with_entry(at, wanted), wanted, entry, items);
        }
        if !self.whole {
            return;
        }
        for (at, entry) in actual.iter().enumerate() {
            if !expected.iter().any(|wanted| same_entry(entry, wanted, keys)) {
                self.differ(&with_entry(at, entry), None, Some(entry));
            }
        }
        if before == self.differences.len() && expected != actual {
            self.differ(path, Some(&expected.into()), Some(&actual.into()));
        }
    }

    fn differ(&mut self, path: &str, expected: Option<&Value>, actual: Option<&Value>) {
        // A number and a string of its digits differ by the quotes only.
        let alike = expected.zip(actual).is_some_and(|(one, other)| shown(one) == shown(other));
        let shown = if alike { Value::to_string } else { shown };
        self.differences.push(Difference::new(path, expected.map(shown), actual.map(shown)));
    }
}

/// The form of a value in a difference: a string unchanged, anything else as JSON.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

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

    fn places(differences: &[Difference]) -> Vec<&str> {
        differences.iter().map(|difference| difference.at.as_str()).collect()
    }

    fn pod() -> Shape {
        Shape::Object(schema::pod())
    }

    #[test]
    fn only_the_parts_that_differ_are_found() {
        let actual = json!({"spec": {"containers": [
            {"name": "a", "image": "x", "resources": {"limits": {"gpu": "8"}}},
            {"name": "b", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]}});
        let expected = json!({"spec": {"containers": [
            {"name": "b", "env": [{"name": "Y", "value": "3"}, {"name": "Z", "value": "4"}]},
            {"name": "a", "resources": {"limits": {"gpu": 8}}}]}});
        let found = missing(&expected, &actual, &pod());
        assert_eq!(places(&found), ["spec.containers[b].env[Y].value", "spec.containers[b].env[Z]"]);
        assert_eq!(found[0].expected.as_deref(), Some("3"));
        assert_eq!(found[0].actual.as_deref(), Some("2"));
        assert_eq!(found[1].actual, None);
        let found = differences(&expected, &actual, &pod());
        assert!(places(&found).contains(&"spec.containers[a].image"), "{found:?}");
        assert!(places(&found).contains(&"spec.containers[b].env[X]"), "{found:?}");
        assert_eq!(differences(&actual, &actual, &pod()), []);
    }

    #[test]
    fn the_order_of_entries_counts_for_a_whole_object() {
        let env = |names: [&str; 2]| {
            let entries: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"containers": [{"name": "a", "env": entries}]}})
        };
        assert_eq!(missing(&env(["X", "Y"]), &env(["Y", "X"]), &pod()), []);
        assert_eq!(
            places(&differences(&env(["X", "Y"]), &env(["Y", "X"]), &pod())),
            ["spec.containers[a].env"]
        );
    }

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
