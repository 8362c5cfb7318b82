//! Schemas, and the keys of maps.

use serde_json::{Map, Value, json};

/// A schema, built keyword by keyword.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema(Map<String, Value>);

impl Schema {
    /// The schema of these types, such as `string`.
    pub(super) fn of(types: &[&str]) -> Self {
        match types {
            [one] => Self::default().with("type", *one),
            several => Self::default().with("type", several.to_vec()),
        }
    }

    /// The definition of this name.
    pub(super) fn reference(name: &str) -> Self {
        Self::default().with("$ref", format!("#/$defs/{name}"))
    }

    #[must_use]
    pub(super) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }

    /// Strings that match the pattern. Editors show the form in words, as in "write …", for others.
    #[must_use]
    pub(super) fn matching(self, pattern: impl Into<String>, form: &str) -> Self {
        self.with("pattern", pattern.into()).with("patternErrorMessage", format!("write {form}"))
    }

    #[must_use]
    pub(super) fn example(self, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.with("examples", json!([value]))
    }

    #[must_use]
    pub(super) fn described(mut self, description: &str) -> Self {
        self.0.shift_insert(0, "description".to_owned(), description.into());
        self
    }

    /// A list of values with this schema.
    pub(super) fn list(items: Schema) -> Self {
        Self::of(&["array"]).with("items", items)
    }

    /// A map from names of any form to values with this schema.
    pub(super) fn map(values: Schema) -> Self {
        Self::of(&["object"]).with("additionalProperties", values)
    }

    /// A value for which one of the schemas holds.
    pub(super) fn any_of(schemas: impl IntoIterator<Item = Schema>) -> Self {
        Self::default().with("anyOf", schemas.into_iter().map(Value::from).collect::<Vec<_>>())
    }

    /// A map that has this key.
    pub(super) fn has(key: &str) -> Self {
        Self::default().with("required", json!([key]))
    }
}

impl From<Schema> for Value {
    fn from(schema: Schema) -> Self {
        Value::Object(schema.0)
    }
}

/// The keys of one map of the policy language, which has no others.
#[derive(Debug, Default)]
pub(super) struct Keys {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl Keys {
    #[must_use]
    pub(super) fn required(mut self, key: &'static str, schema: Schema, description: &str) -> Self {
        self.required.push(key);
        self.optional(key, schema, description)
    }

    #[must_use]
    pub(super) fn optional(mut self, key: &'static str, schema: Schema, description: &str) -> Self {
        self.properties.insert(key.to_owned(), schema.described(description).into());
        self
    }

    pub(super) fn schema(self) -> Schema {
        let schema =
            Schema::of(&["object"]).with("properties", self.properties).with("additionalProperties", false);
        if self.required.is_empty() { schema } else { schema.with("required", self.required) }
    }
}
