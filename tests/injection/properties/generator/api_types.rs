//! The types of the Kubernetes API, as the `k8s-openapi` crate declares them. Its JSON Schemas are behind a feature that
//! the program does not use, and with which it and all above it would be built a second time.

use std::iter;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize as _;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value, json};

/// The JSON Schema of a Pod, with the types of its fields in place. A quantity has the format `quantity`; what is a
/// number or a text has no type.
pub(crate) fn pod_schema() -> Value {
    let mut schema = Value::Null;
    Pod::deserialize(Recorder { schema: &mut schema, text: "" }).unwrap();
    require(&mut schema, &|pod| pod, &|pod| Some(pod));
    schema
}

/// A deserializer that records what a type asks for, and gives it one of everything.
struct Recorder<'s> {
    schema: &'s mut Value,
    /// The value of a text.
    text: &'static str,
}

impl IntoDeserializer<'_> for Recorder<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Recorder<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({});
        visitor.visit_str(self.text)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "string"});
        visitor.visit_str(self.text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "boolean"});
        visitor.visit_bool(false)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "integer"});
        visitor.visit_i64(0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let value = visitor.visit_newtype_struct(Recorder { schema: self.schema, text: self.text })?;
        match name {
            "Quantity" => *self.schema = json!({"format": "quantity"}),
            "FieldsV1" => *self.schema = json!({"type": "object"}),
            _ => {}
        }
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "array", "items": null});
        let item = Recorder { schema: &mut self.schema["items"], text: self.text };
        visitor.visit_seq(SeqDeserializer::new(iter::once(item)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "object", "additionalProperties": null});
        let entry = Recorder { schema: &mut self.schema["additionalProperties"], text: self.text };
        visitor.visit_map(MapDeserializer::new(iter::once(("key", entry))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut properties: Map<_, _> = fields.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        let entries = properties.values_mut().zip(fields).map(|(schema, name)| {
            let text = match *name {
                "apiVersion" => "v1",
                "kind" => "Pod",
                // Of the texts, only times have a form.
                _ => "2026-01-01T00:00:00Z",
            };
            (*name, Recorder { schema, text })
        });
        let value = visitor.visit_map(MapDeserializer::new(entries))?;
        *self.schema = json!({"type": "object", "title": name, "properties": properties});
        Ok(value)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

/// Adds to each object the fields that it requires: those that an empty one has when it is written. `wrap` makes the
/// Pod with a value of this schema, and `find` returns the value of a Pod.
fn require(schema: &mut Value, wrap: &dyn Fn(Value) -> Value, find: &dyn Fn(&Value) -> Option<&Value>) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        for (name, field) in properties {
            require(field, &|value| wrap(json!({name: value})), &|pod| find(pod)?.get(name));
        }
        let pod: Pod = serde_json::from_value(wrap(json!({}))).unwrap();
        let written = serde_json::to_value(&pod).unwrap();
        let fields = find(&written).and_then(Value::as_object).unwrap();
        schema["required"] = fields.keys().cloned().collect();
    } else if !schema["items"].is_null() {
        require(&mut schema["items"], &|value| wrap(json!([value])), &|pod| find(pod)?.get(0));
    } else if !schema["additionalProperties"].is_null() {
        require(&mut schema["additionalProperties"], &|value| wrap(json!({"key": value})), &|pod| {
            find(pod)?.get("key")
        });
    }
}
