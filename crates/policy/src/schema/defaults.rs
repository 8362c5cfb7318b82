//! Values as the API server returns them: with its defaults, and without empty values.

use serde_json::{Map, Value};

use fabric_yaml::quantity::same_quantity;

use super::{Default, Field, Object, Shape};

/// Completes a value as the API server does: the static defaults are filled in, and fields that are empty are left out.
pub fn complete(value: &mut Value, shape: &Shape) {
    match (shape, value) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(fields)) => {
            fields.retain(|name, value| object.field(name).is_none_or(|field| !field.is_absent(value)));
            for field in object.fields {
                if !fields.contains_key(field.name)
                    && let Some(default) = object.default_of(field, fields)
                {
                    fields.insert(field.name.to_owned(), default);
                }
                if let Some(value) = fields.get_mut(field.name) {
                    complete(value, &field.shape);
                }
            }
            if **object == *super::resources()
                && let Some(requests) = requests_of(fields)
            {
                fields.insert("requests".to_owned(), requests);
            }
        }
        (Shape::Map { values, .. }, Value::Object(entries)) => {
            for value in entries.values_mut() {
                complete(value, values);
            }
        }
        (Shape::List { items, .. }, Value::Array(entries)) => {
            for entry in entries {
                complete(entry, items);
            }
        }
        _ => {}
    }
}

/// The requests of `resources`, which are the limits where there is none.
pub fn requests_of(resources: &Map<String, Value>) -> Option<Value> {
    let limits = resources.get("limits")?.as_object()?;
    let mut requests = resources.get("requests").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, amount) in limits {
        requests.entry(name).or_insert_with(|| amount.clone());
    }
    (!requests.is_empty()).then(|| requests.into())
}

/// Returns whether `existing` in a pod is equal to `wanted` in an overlay. Defaults count as present, quantities are
/// compared by value, and a field that the API server computes is not compared where the overlay leaves it out.
pub fn same(existing: &Value, wanted: &Value, shape: &Shape) -> bool {
    match (shape, existing, wanted) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(existing), Value::Object(wanted)) => {
            object.fields.iter().all(|field| same_field(object, field, existing, wanted))
                && same_unknown_fields(object, existing, wanted)
        }
        (Shape::Map { values, .. }, Value::Object(existing), Value::Object(wanted)) => {
            let same_entry = |key: &String| match (entry(existing, key), entry(wanted, key)) {
                (Some(existing), Some(wanted)) => same(existing, wanted, values),
                (existing, wanted) => existing.is_none() && wanted.is_none(),
            };
            existing.keys().chain(wanted.keys()).all(same_entry)
        }
        (Shape::List { items, keys: None }, Value::Array(existing), Value::Array(wanted)) => {
            existing.len() == wanted.len()
                && existing.iter().zip(wanted).all(|(existing, wanted)| same(existing, wanted, items))
        }
        (Shape::List { items, .. }, Value::Array(existing), Value::Array(wanted)) => {
            existing.len() == wanted.len()
                && wanted.iter().all(|wanted| existing.iter().any(|existing| same(existing, wanted, items)))
        }
        (Shape::Quantity, existing, wanted) => same_quantity(existing, wanted),
        (_, existing, wanted) => existing == wanted,
    }
}

fn entry<'a>(entries: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    entries.get(key).filter(|value| !value.is_null())
}

fn same_field(
    object: &Object,
    field: &Field,
    existing: &Map<String, Value>,
    wanted: &Map<String, Value>,
) -> bool {
    match (object.value_of(field, existing), object.value_of(field, wanted)) {
        (Some(existing), Some(wanted)) => same(&existing, &wanted, &field.shape),
        (Some(_), None) => field.default == Default::Computed,
        (None, wanted) => wanted.is_none(),
    }
}

/// Fields of a newer API are compared as they are.
fn same_unknown_fields(object: &Object, existing: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    let unknown = |name: &&String| object.field(name).is_none();
    let mut names = existing.keys().chain(wanted.keys()).filter(unknown);
    names.all(|name| entry(existing, name) == entry(wanted, name))
}

impl Object {
    /// The value of a field, or its default.
    pub(super) fn value_of(&self, field: &Field, fields: &Map<String, Value>) -> Option<Value> {
        let value = fields.get(field.name).filter(|value| !field.is_absent(value));
        value.cloned().or_else(|| self.default_of(field, fields))
    }

    /// The default of a field that `fields` does not have, unless another field takes its place.
    pub fn default_of(&self, field: &Field, fields: &Map<String, Value>) -> Option<Value> {
        let taken = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
        if self.exactly_one_of.contains(&field.name) && self.exactly_one_of.iter().any(taken) {
            return None;
        }
        field.static_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{container, pod};

    fn completed(mut value: Value, shape: &Shape) -> Value {
        complete(&mut value, shape);
        value
    }

    #[test]
    fn a_value_is_completed_as_the_api_server_does() {
        let container = Shape::Object(container());
        let value = json!({
            "name": "main",
            "args": [],
            "command": null,
            "tty": false,
            "ports": [{"containerPort": 80, "hostPort": 0, "protocol": ""}],
            "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0, "periodSeconds": 5},
            "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        });
        let expected = json!({
            "name": "main",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3,
            },
            "env": [
                {"name": "A"},
                {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}},
            ],
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        });
        assert_eq!(completed(value, &container), expected);
        assert_eq!(completed(expected.clone(), &container), expected, "a second time changes nothing");
    }

    #[test]
    fn a_volume_without_a_source_is_an_empty_directory() {
        let volumes = pod().field("spec").map(|field| field.shape).unwrap();
        let spec = |volume: Value| completed(json!({"volumes": [volume]}), &volumes)["volumes"][0].take();
        assert_eq!(spec(json!({"name": "a"})), json!({"name": "a", "emptyDir": {}}));
        assert_eq!(
            spec(json!({"name": "a", "hostPath": {"path": "/"}})),
            json!({"name": "a", "hostPath": {"path": "/", "type": ""}})
        );
        let gate = json!({"name": "a", "gitRepo": {"repository": "x"}});
        assert_eq!(spec(gate.clone()), gate);
    }

    #[test]
    fn values_are_compared_modulo_defaults() {
        let container = Shape::Object(container());
        let same_as = |existing: Value, wanted: Value| same(&existing, &wanted, &container);
        let equal = [
            (json!({}), json!({"tty": false, "args": [], "stdin": null})),
            (
                json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
                json!({"ports": [{"containerPort": 80}]}),
            ),
            (
                json!({"ports": [{"containerPort": 80}]}),
                json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
            ),
            (
                json!({"resources": {"limits": {"memory": "1Gi"}}}),
                json!({"resources": {"limits": {"memory": "1024Mi"}}}),
            ),
            (
                json!({"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}}}),
                json!({"resources": {"limits": {"cpu": "1000m"}}}),
            ),
            (json!({"imagePullPolicy": "Always"}), json!({})),
            (
                json!({"securityContext": {"capabilities": {"add": ["A", "B"]}}}),
                json!({"securityContext": {"capabilities": {"add": ["B", "A"]}}}),
            ),
            (json!({"future": 1}), json!({"future": 1, "other": null})),
        ];
        for (existing, wanted) in equal {
            assert!(same_as(existing.clone(), wanted.clone()), "{existing} {wanted}");
        }
        let different = [
            (json!({"tty": true}), json!({})),
            (json!({}), json!({"tty": true})),
            (json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]})),
            (json!({"args": ["a"]}), json!({"args": ["a", "b"]})),
            (json!({}), json!({"imagePullPolicy": "Always"})),
            (
                json!({"ports": [{"containerPort": 80, "protocol": "UDP"}]}),
                json!({"ports": [{"containerPort": 80}]}),
            ),
            (
                json!({"resources": {"limits": {"memory": "1Gi"}}}),
                json!({"resources": {"limits": {"memory": "1G"}}}),
            ),
            (json!({"securityContext": {"privileged": false}}), json!({"securityContext": {}})),
            (
                json!({"livenessProbe": {"grpc": {"port": 1}}}),
                json!({"livenessProbe": {"tcpSocket": {"port": 1}}}),
            ),
            (json!({"future": 1}), json!({"future": 2})),
        ];
        for (existing, wanted) in different {
            assert!(!same_as(existing.clone(), wanted.clone()), "{existing} {wanted}");
        }
    }
}
