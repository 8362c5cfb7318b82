//! Field paths as reports write them: `spec.containers[nim].env[UCX_TLS]`.

use serde_json::Value;

use fabric_engine::CONTAINER_LISTS;
use fabric_policy::Diagnostic;
use fabric_policy::schema::{self, Field, Object, Shape};
use fabric_policy::source::suggest;
use fabric_yaml::Span;

/// A path to a field of a pod, or to an entry of a list or map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath {
    pub(super) text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    name: String,
    /// In brackets: the key of a map, or the value that identifies an entry of a list.
    is_entry: bool,
}

/// The result of a search for a path.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'v> {
    Value(&'v Value),
    Nothing,
    /// The pod does not have this container, so the absence of the rest proves nothing.
    NoContainer(String),
}

impl FieldPath {
    /// Reads a path. Each field must be one that a pod can have.
    pub(super) fn read(text: &str, span: Span) -> Result<Self, Diagnostic> {
        let segments = segments(text).ok_or_else(|| {
            Diagnostic::new(span, format!("`{text}` is not the path of a field"))
                .hint("write for example `spec.containers[main].env[NCCL_DEBUG]`")
        })?;
        let mut shape = Shape::Object(schema::pod());
        for Segment { name, is_entry } in &segments {
            shape = match (shape, is_entry) {
                (Shape::Object(object) | Shape::Atomic(object), false) => {
                    known_field(object, name, span)?.shape
                }
                (Shape::Map { values, .. }, _) => *values,
                (Shape::List { items, .. }, true) => *items,
                (Shape::Opaque, _) => Shape::Opaque,
                _ => {
                    return Err(Diagnostic::new(span, format!("`{name}` cannot follow here in `{text}`"))
                        .hint("write `.field` for a field, and `[name]` for an entry of a list"));
                }
            };
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    pub(super) fn find<'v>(&self, pod: &'v Value) -> Found<'v> {
        let (mut shape, mut value) = (Shape::Object(schema::pod()), pod);
        for (at, Segment { name, .. }) in self.segments.iter().enumerate() {
            let next = match shape {
                Shape::List { keys, .. } => entry(value, name, keys),
                _ => value.get(name),
            };
            let in_containers = at == 2 && CONTAINER_LISTS.contains(&self.segments[1].name.as_str());
            match next.filter(|next| !next.is_null()) {
                Some(next) => value = next,
                None if in_containers && self.segments.len() > 3 => return Found::NoContainer(name.clone()),
                None => return Found::Nothing,
            }
            shape = shape.inner(name).unwrap_or(Shape::Opaque);
        }
        Found::Value(value)
    }
}

/// The field of an object. Fails for one that the API does not have.
pub(super) fn known_field(object: &Object, name: &str, span: Span) -> Result<&'static Field, Diagnostic> {
    object.field(name).ok_or_else(|| {
        let message = format!("{} has no field `{name}`", object.name);
        Diagnostic::new(span, message).hint(suggest(name, object.fields.iter().map(|field| field.name)))
    })
}

/// The entry of a list with this key, or the item itself.
fn entry<'v>(list: &'v Value, name: &str, keys: Option<&[&str]>) -> Option<&'v Value> {
    let items = list.as_array()?;
    let is_named = |item: &&Value| match (keys, item) {
        (Some([key, ..]), Value::Object(item)) => match item.get(*key) {
            Some(Value::String(text)) => text == name,
            Some(Value::Number(number)) => number.to_string() == name,
            _ => false,
        },
        (_, Value::Object(item)) => item.values().any(|value| value.as_str() == Some(name)),
        (_, item) => item.as_str() == Some(name),
    };
    items.iter().find(is_named).or_else(|| items.get(name.parse::<usize>().ok()?))
}

fn segments(text: &str) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (name, after) = inner.split_once(']').filter(|(name, _)| !name.is_empty())?;
            segments.push(Segment { name: name.to_owned(), is_entry: true });
            rest = after;
        } else {
            let field = if segments.is_empty() { rest } else { rest.strip_prefix('.')? };
            let end = field.find(['.', '[']).unwrap_or(field.len());
            if end == 0 {
                return None;
            }
            segments.push(Segment { name: field[..end].to_owned(), is_entry: false });
            rest = &field[end..];
        }
    }
    (!segments.is_empty()).then_some(segments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> FieldPath {
        FieldPath::read(text, Span::default()).unwrap_or_else(|error| panic!("{text}: {}", error.message))
    }

    #[test]
    fn paths_lead_through_fields_maps_and_named_entries() {
        let pod = json!({"metadata": {"annotations": {"a.b/c": "d"}}, "spec": {"containers": [{"name": "main",
            "env": [{"name": "X", "value": "1"}], "volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}],
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}]}});
        for (text, wanted) in [
            ("metadata.annotations[a.b/c]", json!("d")),
            ("spec.containers[main].env[X].value", json!("1")),
            ("spec.containers[main].volumeMounts[/dev/shm].name", json!("v")),
            ("spec.containers[main].securityContext.capabilities.add[IPC_LOCK]", json!("IPC_LOCK")),
        ] {
            assert_eq!(path(text).find(&pod), Found::Value(&wanted), "{text}");
        }
        assert_eq!(path("spec.containers[main].env[Y]").find(&pod), Found::Nothing);
        assert_eq!(path("spec.containers[other]").find(&pod), Found::Nothing);
        assert_eq!(path("spec.containers[other].env[Y]").find(&pod), Found::NoContainer("other".to_owned()));
    }

    #[test]
    fn a_path_that_no_pod_has_is_an_error() {
        for text in
            ["spec.continers[main]", "", "spec..env", "spec.containers[]", "spec[x]", "spec.containers.main"]
        {
            assert!(FieldPath::read(text, Span::default()).is_err(), "{text}");
        }
    }
}
