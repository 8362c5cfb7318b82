//! Checks that the API server accepts a value of an overlay.

use serde_json::{Map, Value};

use fabric_yaml::quantity::Quantity;

use super::{Default, Field, Format, Object, Overlay, Shape};

/// A value that the API server does not accept, or that an overlay cannot set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// The keys and indices on the path from the checked value to the wrong one.
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
}

impl Invalid {
    fn new(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    fn at(mut self, step: impl Into<String>) -> Self {
        self.path.insert(0, step.into());
        self
    }
}

/// Checks a value that is merged with that of the pod. An object that is merged field by field can lack fields that are
/// required.
pub(crate) fn validate(value: &Value, shape: &Shape) -> Result<(), Invalid> {
    validate_value(value, shape, false)
}

/// Checks a value that replaces no other. The objects in it must have all required fields.
#[cfg(test)]
pub(super) fn validate_new(value: &Value, shape: &Shape) -> Result<(), Invalid> {
    validate_value(value, shape, true)
}

fn validate_value(value: &Value, shape: &Shape, new: bool) -> Result<(), Invalid> {
    match (shape, value) {
        (Shape::Object(object) | Shape::Atomic(object), Value::Object(fields)) => {
            validate_fields(fields, object, new)?;
            if new || matches!(shape, Shape::Atomic(_)) { validate_complete(fields, object) } else { Ok(()) }
        }
        (Shape::Map { keys, values }, Value::Object(entries)) => {
            entries.iter().try_for_each(|(key, value)| {
                keys.check(key).map_err(Invalid::new)?;
                validate_value(value, values, new).map_err(|invalid| invalid.at(key.as_str()))
            })
        }
        (Shape::List { items, .. }, Value::Array(entries)) => {
            entries.iter().enumerate().try_for_each(|(index, entry)| {
                validate_value(entry, items, new).map_err(|invalid| invalid.at(index.to_string()))
            })
        }
        (Shape::Text(format), Value::String(text)) => format.check(text).map_err(Invalid::new),
        (Shape::Integer(least, most), Value::Number(number)) => match number.as_i64() {
            Some(number) if (*least..=*most).contains(&number) => Ok(()),
            _ => Err(Invalid::new(format!("`{number}` is not {}", shape.description()))),
        },
        (Shape::Boolean, Value::Bool(_)) | (Shape::Opaque, _) => Ok(()),
        (Shape::Quantity, Value::String(_) | Value::Number(_)) if Quantity::from_value(value).is_some() => {
            Ok(())
        }
        (Shape::PortNumberOrName, Value::String(name)) => Format::PortName.check(name).map_err(Invalid::new),
        (Shape::PortNumberOrName, Value::Number(_)) => validate_value(value, &Shape::Integer(1, 65535), new),
        (shape, value) => {
            Err(Invalid::new(format!("{} is needed here, but this is `{value}`", shape.description())))
        }
    }
}

fn validate_fields(fields: &Map<String, Value>, object: &Object, new: bool) -> Result<(), Invalid> {
    for (name, value) in fields {
        let Some(field) = object.field(name) else {
            return Err(Invalid::new(format!("{} has no field `{name}`", object.name)));
        };
        if let Overlay::Refused(reason) = field.overlay {
            return Err(Invalid::new(format!("an overlay cannot set `{name}`: {reason}")));
        }
        if field.is_absent(value) {
            continue;
        }
        validate_value(value, &field.shape, new).map_err(|invalid| invalid.at(name))?;
    }
    let set = fields.keys().map(String::as_str).filter(|name| object.is_set(fields, name));
    object.check_exclusive(&set.collect::<Vec<_>>()).map_err(Invalid::new)?;
    object.rule.map_or(Ok(()), |rule| rule(fields).map_err(Invalid::new))
}

fn validate_complete(fields: &Map<String, Value>, object: &Object) -> Result<(), Invalid> {
    let missing = object.fields.iter().find(|field| field.required && !object.is_set(fields, field.name));
    if let Some(field) = missing {
        return Err(Invalid::new(format!("`{}` is missing", field.name)));
    }
    match object.choice_of(|name| object.is_set(fields, name)) {
        Some(names) => Err(Invalid::new(format!("one of {names} is missing"))),
        None => Ok(()),
    }
}

impl Object {
    /// Fails for two fields that exclude each other.
    pub(crate) fn check_exclusive(&self, present: &[&str]) -> Result<(), String> {
        for names in [self.exactly_one_of, self.at_most_one_of] {
            let mut exclusive = present.iter().filter(|name| names.contains(name));
            if let (Some(first), Some(second)) = (exclusive.next(), exclusive.next()) {
                return Err(format!("`{first}` and `{second}` exclude each other"));
            }
        }
        Ok(())
    }

    /// The fields that an overlay can set, one of which an object needs that has none; `None` if it needs none.
    pub(crate) fn choice_of(&self, has: impl Fn(&str) -> bool) -> Option<String> {
        let choice: Vec<&Field> = self.exactly_one_of.iter().filter_map(|name| self.field(name)).collect();
        let is_given = |field: &&Field| has(field.name) || field.default != Default::Absent;
        if choice.is_empty() || choice.iter().any(is_given) {
            return None;
        }
        let settable = choice.iter().filter(|field| field.is_settable());
        Some(settable.map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", "))
    }

    /// Returns whether an object of this type has a value for a field.
    fn is_set(&self, fields: &Map<String, Value>, name: &str) -> bool {
        let value = fields.get(name);
        value.is_some_and(|value| self.field(name).is_none_or(|field| !field.is_absent(value)))
    }
}

impl Field {
    /// Returns whether an overlay can set it in some pod.
    pub fn is_settable(&self) -> bool {
        !matches!(self.overlay, Overlay::Refused(_))
    }

    /// Returns whether the API server treats this value of the field as absent.
    pub fn is_absent(&self, value: &Value) -> bool {
        let empty_is_absent = matches!(self.default, Default::Empty | Default::Computed);
        match (&self.shape, value) {
            (_, Value::Null) => true,
            (Shape::List { .. }, Value::Array(items)) => items.is_empty(),
            (Shape::Map { .. }, Value::Object(entries)) => entries.is_empty(),
            (Shape::Text(_), Value::String(text)) => {
                text.is_empty() && (empty_is_absent || matches!(self.default, Default::TextForEmpty(_)))
            }
            (Shape::Integer(..), Value::Number(number)) => {
                number.as_i64() == Some(0)
                    && (empty_is_absent || matches!(self.default, Default::IntegerForZero(_)))
            }
            (Shape::Boolean, Value::Bool(value)) => !value && empty_is_absent,
            _ => false,
        }
    }
}

impl Shape {
    /// The values that a field of this shape takes, for a message.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Object(_) | Self::Atomic(_) | Self::Map { .. } => "a map".to_owned(),
            Self::List { .. } => "a list".to_owned(),
            Self::Text(_) => "a string".to_owned(),
            Self::Integer(i64::MIN, i64::MAX) => "a whole number".to_owned(),
            Self::Integer(least, i64::MAX) => format!("a whole number of at least {least}"),
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Quantity => "a quantity such as `64Gi`".to_owned(),
            Self::PortNumberOrName => "a whole number or a string".to_owned(),
            Self::Opaque => "another value".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{container, pod};

    fn error(value: &Value, shape: &Shape) -> String {
        let invalid = validate(value, shape).expect_err("the value is not valid");
        format!("{}: {}", invalid.path.join("/"), invalid.message)
    }

    #[test]
    fn an_error_names_the_place_and_the_reason() {
        let container = Shape::Object(container());
        let cases = [
            (json!({"envs": []}), ": Container has no field `envs`"),
            (
                json!({"env": [{"name": "A", "value": 1}]}),
                "env/0/value: a string is needed here, but this is `1`",
            ),
            (json!({"env": [{"value": "a"}]}), "env/0: `name` is missing"),
            (
                json!({"env": [{"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]}),
                "env/0: `value` and `valueFrom` exclude each other",
            ),
            (
                json!({"env": [{"name": "A", "valueFrom": {}}]}),
                "env/0/valueFrom: one of `configMapKeyRef`, `fieldRef`, `resourceFieldRef`, `secretKeyRef` is missing",
            ),
            (
                json!({"ports": [{"containerPort": 0}]}),
                "ports/0/containerPort: `0` is not a whole number from 1 to 65535",
            ),
            (
                json!({"ports": [{"containerPort": 80, "hostPort": 80}]}),
                "ports/0: an overlay cannot set `hostPort`: each port of a node has one user",
            ),
            (
                json!({"resources": {"limits": {"memory": "4GB"}}}),
                "resources/limits/memory: a quantity such as `64Gi` is needed here, but this is `\"4GB\"`",
            ),
            (
                json!({"resources": {"limits": {"nvidia.com/gpu": "500m"}}}),
                "resources: \"500m\" of `nvidia.com/gpu` is not a whole number",
            ),
            (json!({"stdin": "yes"}), "stdin: `true` or `false` is needed here, but this is `\"yes\"`"),
            (
                json!({"startupProbe": {"tcpSocket": {"port": "80"}}}),
                "startupProbe/tcpSocket/port: `80` is not the name of a port: at most 15 lower-case letters, digits and \
                 single hyphens, with at least one letter and without a hyphen at either end",
            ),
        ];
        for (value, message) in cases {
            assert_eq!(error(&value, &container), message);
        }
        let many = json!({"spec": {"dnsConfig": {"nameservers": ["::1", "::2", "::3", "::4"]}}});
        assert_eq!(
            error(&many, &Shape::Object(pod())),
            "spec/dnsConfig: `nameservers` has more than 3 entries"
        );
    }

    #[test]
    fn only_a_new_object_needs_all_its_fields() {
        let container = Shape::Object(container());
        let value = json!({"name": "main", "env": [{"name": "A"}]});
        assert_eq!(validate(&value, &container), Ok(()));
        let invalid = validate_new(&value, &container).unwrap_err();
        assert_eq!(invalid.message, "`image` is missing");
        assert_eq!(validate_new(&json!({"name": "main", "image": "image"}), &container), Ok(()));
    }
}
