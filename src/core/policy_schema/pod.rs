//! The fields of a Pod and of the objects in it, with values of any type: a part of a pod in a case.

use serde_json::{Map, Value};

use crate::core::schema::{Format, Object, Shape, pod};

use super::keys::Schema;

/// The definitions of the types in a Pod, which is `Pod`.
#[derive(Debug, Default)]
pub(super) struct Pods {
    definitions: Map<String, Value>,
    named: Vec<(*const Object, String)>,
}

impl Pods {
    pub(super) fn definitions() -> Map<String, Value> {
        let mut pods = Self::default();
        pods.reference(pod());
        pods.definitions
    }

    fn reference(&mut self, object: &'static Object) -> Schema {
        if let Some((_, name)) = self.named.iter().find(|(known, _)| std::ptr::eq(*known, object)) {
            return Schema::reference(name);
        }
        let is_free = |name: &String| self.named.iter().all(|(_, known)| known != name);
        let mut numbered = (2..).map(|number| format!("{}-{number}", object.name));
        let name =
            std::iter::once(object.name.to_owned()).chain(&mut numbered).find(is_free).unwrap_or_default();
        self.named.push((object, name.clone()));
        let mut fields = Map::new();
        for field in object.fields {
            fields.insert(field.name.to_owned(), self.value(&field.shape).into());
        }
        let schema = Schema::default()
            .described(&format!("{} of the Kubernetes API.", object.name))
            .with("properties", fields)
            .with("additionalProperties", false);
        self.definitions.insert(name.clone(), schema.into());
        Schema::reference(&name)
    }

    /// A value, of which only the names of fields are known: `null` removes any field.
    fn value(&mut self, shape: &Shape) -> Schema {
        match shape {
            Shape::Object(object) | Shape::Atomic(object) => self.reference(object),
            Shape::List { items, .. } => Schema::default().with("items", self.value(items)),
            Shape::Text(Format::OneOf(values)) => Schema::default().with("examples", values.to_vec()),
            Shape::Boolean => Schema::default().with("examples", vec![true, false]),
            _ => Schema::default(),
        }
    }
}
