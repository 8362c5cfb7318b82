//! Checks that a value of the pod contains a value of an overlay.

use serde_json::{Map, Value};

use super::{Object, Shape, same};

/// Returns whether `existing` has every field of `wanted`. It can have more: a memory volume of the pod with a size
/// limit covers a memory volume of an overlay without one.
pub fn covers(existing: &Value, wanted: &Value, shape: &Shape) -> bool {
    match (shape, existing, wanted) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(existing), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| covers_field(object, name, existing, wanted))
        }
        (Shape::List { items, .. }, Value::Array(existing), Value::Array(wanted)) => {
            existing.len() == wanted.len()
                && existing.iter().zip(wanted).all(|(existing, wanted)| covers(existing, wanted, items))
        }
        (shape, existing, wanted) => same(existing, wanted, shape),
    }
}

fn covers_field(object: &Object, name: &str, existing: &Map<String, Value>, wanted: &Value) -> bool {
    let Some(field) = object.field(name) else { return existing.get(name) == Some(wanted) };
    match object.value_of(field, existing) {
        Some(existing) => covers(&existing, wanted, &field.shape),
        None => field.is_absent(wanted),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema;

    #[test]
    fn a_value_may_have_more_than_is_wanted_and_has_its_defaults() {
        let volume = Shape::Atomic(schema::volume());
        let existing = json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}});
        let wanted = |source: Value| json!({"name": "v", "emptyDir": source});
        assert!(covers(&existing, &wanted(json!({"medium": "Memory"})), &volume));
        assert!(covers(&existing, &wanted(json!({"sizeLimit": "1024Mi"})), &volume));
        assert!(!covers(&existing, &wanted(json!({"sizeLimit": "2Gi"})), &volume));
        let existing = json!({"name": "v", "hostPath": {"path": "/a", "type": ""}});
        assert!(covers(&existing, &json!({"name": "v", "hostPath": {"path": "/a"}}), &volume));
        assert!(!covers(&existing, &json!({"name": "v", "emptyDir": {}}), &volume));
    }
}
