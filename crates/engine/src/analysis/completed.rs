//! Copies of the parts of an object that expressions read, completed as the API server does.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use fabric_policy::expression::{Path, Step};
use fabric_policy::schema::{self, Shape, complete, requests_of};
use fabric_policy::work::{STEPS_TO_VALUE, Work, goes_on};

/// The parts of an object that expressions read, as the API server completes them.
pub(super) fn part_of(object: &Value, reads: &BTreeSet<Path>, shape: &Shape, work: Option<&Work>) -> Value {
    let mut part = Value::Object(Map::new());
    for path in reads {
        copy_path(object, &mut part, path, shape, work);
        if path.is_empty() {
            break;
        }
    }
    part
}

fn copy_path(from: &Value, to: &mut Value, path: &[Step], shape: &Shape, work: Option<&Work>) {
    if !goes_on(work, STEPS_TO_VALUE) {
        return;
    }
    match (from, path.split_first()) {
        (_, Some((Step::Exists, _))) => {
            if to.is_null() {
                *to = if from.is_object() { Value::Object(Map::new()) } else { from.clone() };
            }
        }
        (Value::Array(entries), Some((Step::Every, rest))) => {
            if !to.is_array() {
                *to = Value::Array(vec![Value::Null; entries.len()]);
            }
            let items = if let Shape::List { items, .. } = shape { items } else { &Shape::Opaque };
            let copies = to.as_array_mut().into_iter().flatten();
            copies.zip(entries).for_each(|(copy, entry)| copy_path(entry, copy, rest, items, work));
        }
        (Value::Object(map), Some((Step::Field(key), rest))) => {
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            let (value, shape) = field_of(map, key, shape);
            if let (Some(value), Value::Object(copies)) = (value, to) {
                let empty = if value.is_object() { Value::Object(Map::new()) } else { Value::Null };
                copy_path(&value, copies.entry(key).or_insert(empty), rest, &shape, work);
            }
        }
        // The end of the path, the keys of a map, or a value of another kind than the expression expects.
        _ => {
            *to = without_nulls(from, shape, work);
            complete(to, shape);
        }
    }
}

/// The value of a field as the API server completes it, and its shape.
fn field_of<'v>(map: &'v Map<String, Value>, key: &str, shape: &Shape) -> (Option<Cow<'v, Value>>, Shape) {
    let own = map.get(key).filter(|value| !value.is_null());
    match shape {
        Shape::Object(object) | Shape::Atomic(object) if object.field(key).is_some() => {
            let field = object.field(key);
            if key == "requests"
                && **object == *schema::resources()
                && let Some(requests) = requests_of(map)
            {
                return (Some(Cow::Owned(requests)), field.map_or(Shape::Opaque, |field| field.shape));
            }
            let own = own.filter(|value| field.is_none_or(|field| !field.is_absent(value)));
            let default = || field.and_then(|field| object.default_of(field, map)).map(Cow::Owned);
            (own.map(Cow::Borrowed).or_else(default), field.map_or(Shape::Opaque, |field| field.shape))
        }
        Shape::Map { values, .. } => {
            let empty = || (is_text(values) && map.contains_key(key)).then(|| Cow::Owned(Value::from("")));
            (own.map(Cow::Borrowed).or_else(empty), **values)
        }
        _ => (own.map(Cow::Borrowed), Shape::Opaque),
    }
}

/// A copy without fields that are `null`, which Kubernetes treats as absent. In a map of texts, such as labels, it is
/// an empty text.
fn without_nulls(value: &Value, shape: &Shape, work: Option<&Work>) -> Value {
    if !goes_on(work, STEPS_TO_VALUE) {
        return Value::Null;
    }
    let map = match value {
        Value::Object(map) => map,
        Value::Array(items) => {
            let shape = if let Shape::List { items, .. } = shape { items } else { &Shape::Opaque };
            return items.iter().map(|item| without_nulls(item, shape, work)).collect();
        }
        other => return other.clone(),
    };
    let of_texts = matches!(shape, Shape::Map { values, .. } if is_text(values));
    let entry = |(key, value): (&String, &Value)| {
        let shape = match shape {
            Shape::Object(object) | Shape::Atomic(object) => object.field(key).map(|field| field.shape),
            Shape::Map { values, .. } => Some(**values),
            _ => None,
        };
        let value = match value {
            Value::Null if of_texts => Value::from(""),
            Value::Null => return None,
            value => without_nulls(value, &shape.unwrap_or(Shape::Opaque), work),
        };
        Some((key.clone(), value))
    };
    Value::Object(map.iter().filter_map(entry).collect())
}

fn is_text(shape: &Shape) -> bool {
    matches!(shape, Shape::Text(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use fabric_policy::expression::Expression;
    use fabric_policy::schema;

    #[test]
    fn a_null_in_a_map_of_texts_is_an_empty_text() {
        let pod =
            json!({"metadata": {"labels": {"a": null}, "name": null}, "spec": {"nodeSelector": {"b": null}}});
        let part = |source: &str| {
            let expression = Expression::compile(source).unwrap();
            part_of(
                &pod,
                &expression.reads_of("pod").into_iter().cloned().collect(),
                &Shape::Object(schema::pod()),
                None,
            )
        };
        assert_eq!(part("pod.metadata.labels.a == ''"), json!({"metadata": {"labels": {"a": ""}}}));
        assert_eq!(part("pod.metadata.labels[key] == ''"), json!({"metadata": {"labels": {"a": ""}}}));
        assert_eq!(part("size(pod.metadata) > 0")["metadata"], json!({"labels": {"a": ""}}));
        assert_eq!(part("has(pod.metadata.name)"), json!({"metadata": {}}));
    }

    #[test]
    fn only_the_parts_that_are_read_are_copied() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "name": "n"},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}, {"name": "d"}], "x": null}});
        let part = |source: &str| {
            let expression = Expression::compile(source).unwrap();
            part_of(&pod, &expression.reads_of("pod").into_iter().cloned().collect(), &Shape::Opaque, None)
        };
        assert_eq!(part("1 > 0"), json!({}));
        assert_eq!(
            part("pod.metadata.labels.a == '1' && pod.spec.hostNetwork || has(pod.spec.missing.x)"),
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostNetwork": true}})
        );
        assert_eq!(
            part("pod.spec.containers.exists(c, c.name == 'd')"),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}})
        );
        assert_eq!(part("has(pod.spec.x.deeper)"), json!({"spec": {}}));
        let labels = json!({"labels": {"a": "1", "b": "2"}});
        assert_eq!(part("pod.metadata.labels.a == pod.metadata.labels[key]")["metadata"], labels);
        assert_eq!(part("pod.metadata.labels.exists(key, key == 'a')")["metadata"], labels);
    }
}
