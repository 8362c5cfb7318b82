//! The values of a pod that exclude a value of an overlay.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use fabric_yaml::pointer::unescape;

use super::{Exclusion, Literal, Overlay};

impl Overlay {
    /// The exclusion that keeps an overlay from setting a field of `object`, a part of `pod`, to `value`.
    pub fn excluded_by(
        &self,
        value: &Value,
        object: &Map<String, Value>,
        pod: &Value,
    ) -> Option<&'static Exclusion> {
        let Self::Unless(exclusions) = self else { return None };
        exclusions.iter().find(|exclusion| exclusion.applies(value, object, pod))
    }
}

impl Exclusion {
    pub(crate) const fn new(value: Option<Literal>, path: &'static str, is: Option<Literal>) -> Self {
        Self { value, path, is }
    }

    /// The other value, for a message: `hostPID: true`.
    pub fn describe(&self) -> String {
        let path = unescape(self.path.trim_start_matches('/')).into_owned();
        match self.is {
            Some(Literal::Text(text)) => format!("{path}: {text}"),
            Some(Literal::Boolean(value)) => format!("{path}: {value}"),
            Some(Literal::PortsOffTheNode) => "ports".to_owned(),
            None => path,
        }
    }

    pub(super) fn applies(&self, value: &Value, object: &Map<String, Value>, pod: &Value) -> bool {
        let other = |found: &Value| match self.is {
            Some(literal) => literal.is(found),
            None => !is_nothing(found),
        };
        self.value.is_none_or(|literal| literal.is(value))
            && match self.path.strip_prefix('/') {
                Some(path) => any_at(pod, path, &other),
                None => any_in(object, self.path, &other),
            }
    }
}

impl Literal {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Boolean(boolean) => value.as_bool() == Some(boolean),
            Self::PortsOffTheNode => ports_off_the_node(value),
        }
    }
}

/// Returns whether the node cannot have the ports of containers: one has another number there, or two have the same.
/// The API server gives a port without `hostPort` its own number.
fn ports_off_the_node(containers: &Value) -> bool {
    let containers = containers.as_array().map_or(std::slice::from_ref(containers), Vec::as_slice);
    let ports = containers.iter().flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let mut known = BTreeSet::new();
    ports.into_iter().any(|port| {
        let number = port["containerPort"].as_i64();
        let other = port["hostPort"].as_i64().is_some_and(|host| host != 0 && Some(host) != number);
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        other || !known.insert((number, protocol, port["hostIP"].as_str().unwrap_or_default()))
    })
}

/// Returns whether the API server treats a value as absent. `false` and `0` are values.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether `holds` does for a value at `path`.
fn any_at(value: &Value, path: &str, holds: &impl Fn(&Value) -> bool) -> bool {
    match value {
        value if path.is_empty() => holds(value),
        Value::Object(fields) => any_in(fields, path, holds),
        Value::Array(items) => match path.split_once('/').unwrap_or((path, "")) {
            ("*", rest) => items.iter().any(|item| any_at(item, rest, holds)),
            _ => false,
        },
        _ => false,
    }
}

/// The same for the fields of an object.
fn any_in(fields: &Map<String, Value>, path: &str, holds: &impl Fn(&Value) -> bool) -> bool {
    let (segment, rest) = path.split_once('/').unwrap_or((path, ""));
    let segment = unescape(segment);
    match segment.strip_suffix('*') {
        Some(prefix) => {
            fields.iter().any(|(key, value)| key.starts_with(prefix) && any_at(value, rest, holds))
        }
        None => fields.get(&*segment).is_some_and(|value| any_at(value, rest, holds)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::exclusion_table::{FALSE, NOT_ON_WINDOWS, TRUE};

    const SIBLING: Overlay = Overlay::Unless(&[Exclusion::new(FALSE, "privileged", TRUE)]);
    const ANCESTOR: Overlay = Overlay::Unless(&[NOT_ON_WINDOWS]);
    const CAPABILITY: Overlay =
        Overlay::Unless(&[Exclusion::new(FALSE, "capabilities/add/*", Some(Literal::Text("CAP_SYS_ADMIN")))]);
    const LISTED: Overlay = Overlay::Unless(&[Exclusion::new(TRUE, "containers/*/ports", None)]);
    const PORTS: Overlay =
        Overlay::Unless(&[Exclusion::new(TRUE, "containers", Some(Literal::PortsOffTheNode))]);
    const ANNOTATION: Overlay =
        Overlay::Unless(&[Exclusion::new(None, "/metadata/annotations/example.com~1*", None)]);
    const ANY: Overlay = Overlay::Unless(&[Exclusion::new(None, "other", None)]);

    fn fields(value: &Value) -> &Map<String, Value> {
        value.as_object().unwrap()
    }

    #[test]
    fn a_path_starts_at_the_object_or_at_the_pod() {
        let pod = json!({"spec": {"hostPID": true, "os": {"name": "windows"}}});
        let object = json!({"privileged": true});
        assert!(SIBLING.excluded_by(&json!(false), fields(&object), &pod).is_some());
        assert!(SIBLING.excluded_by(&json!(true), fields(&object), &pod).is_none());
        assert!(SIBLING.excluded_by(&json!(false), fields(&json!({})), &pod).is_none());
        assert!(ANCESTOR.excluded_by(&json!(1), fields(&object), &pod).is_some());
        assert!(
            ANCESTOR
                .excluded_by(&json!(1), fields(&object), &json!({"spec": {"os": {"name": "linux"}}}))
                .is_none()
        );
        assert!(Overlay::Settable.excluded_by(&json!(1), fields(&object), &pod).is_none());
    }

    #[test]
    fn a_star_stands_for_entries_and_for_the_rest_of_a_key() {
        let object = json!({"capabilities": {"add": ["IPC_LOCK", "CAP_SYS_ADMIN"]}});
        assert!(CAPABILITY.excluded_by(&json!(false), fields(&object), &json!({})).is_some());
        let object = json!({"capabilities": {"add": ["IPC_LOCK"]}});
        assert!(CAPABILITY.excluded_by(&json!(false), fields(&object), &json!({})).is_none());

        let spec = |ports: Value| json!({"containers": [{"name": "a"}, {"name": "b", "ports": ports}]});
        assert!(
            LISTED
                .excluded_by(&json!(true), fields(&spec(json!([{"containerPort": 1}]))), &json!({}))
                .is_some()
        );
        assert!(LISTED.excluded_by(&json!(true), fields(&spec(json!([]))), &json!({})).is_none());

        let pod = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
        assert!(ANNOTATION.excluded_by(&json!({}), fields(&json!({})), &pod("example.com/main")).is_some());
        assert!(ANNOTATION.excluded_by(&json!({}), fields(&json!({})), &pod("example.org/main")).is_none());
    }

    #[test]
    fn the_node_has_each_port_once_and_under_its_own_number() {
        let excluded = |first: Value, second: Value| {
            let spec =
                json!({"containers": [{"name": "a", "ports": [first]}, {"name": "b", "ports": [second]}]});
            PORTS.excluded_by(&json!(true), fields(&spec), &json!({})).is_some()
        };
        assert!(!excluded(json!({"containerPort": 1}), json!({"containerPort": 2, "hostPort": 2})));
        assert!(!excluded(json!({"containerPort": 1}), json!({"containerPort": 1, "protocol": "UDP"})));
        assert!(excluded(json!({"containerPort": 1}), json!({"containerPort": 1, "protocol": "TCP"})));
        assert!(excluded(json!({"containerPort": 1}), json!({"containerPort": 2, "hostPort": 3})));
    }

    #[test]
    fn an_empty_value_excludes_nothing_and_false_is_a_value() {
        for nothing in [json!(null), json!(""), json!([]), json!({})] {
            assert!(ANY.excluded_by(&json!(1), fields(&json!({"other": nothing})), &json!({})).is_none());
        }
        for value in [json!(false), json!(0), json!("x"), json!([0])] {
            assert!(ANY.excluded_by(&json!(1), fields(&json!({"other": value})), &json!({})).is_some());
        }
    }
}
