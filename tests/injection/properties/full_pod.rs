//! A Pod with every field of the Kubernetes API, made from the API's own types.

use serde_json::{Map, Value, json};

use super::generator::api_types::pod_schema;

/// Every field populated, lists with one entry, and at each object one field that no release knows.
pub(crate) fn full_pod() -> Value {
    let mut pod = sample(&pod_schema());
    // Values that a rule looks at have to make sense.
    pod["kind"] = json!("Pod");
    pod["apiVersion"] = json!("v1");
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert("nmp.nvidia.com/enable-multi-node-networking".to_owned(), json!("true"));
    pod["spec"]["os"]["name"] = json!("linux");
    for list in ["containers", "initContainers"] {
        let container = &mut pod["spec"][list][0];
        container["name"] = json!(format!("from-{list}"));
        container["resources"]["limits"] = json!({"nvidia.com/gpu": "8", "memory": "1Gi"});
        container["resources"]["requests"] = json!({"nvidia.com/gpu": "8"});
    }
    pod
}

fn sample(schema: &Value) -> Value {
    if let Some(properties) = schema["properties"].as_object() {
        let mut object: Map<String, Value> =
            properties.iter().map(|(field, schema)| (field.clone(), sample(schema))).collect();
        object.insert("fieldOfTheFuture".to_owned(), json!({"nested": [1, null, "x"]}));
        return Value::Object(object);
    }
    match schema["type"].as_str() {
        Some("array") => json!([sample(&schema["items"])]),
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => json!({"key": sample(values)}),
            None => json!({}),
        },
        Some("integer") => json!(7),
        Some("boolean") => json!(false),
        Some(_) => json!("text"),
        None => json!("8"),
    }
}

/// How many fields there are in all.
pub(crate) fn count_fields(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len() + map.values().map(count_fields).sum::<usize>(),
        Value::Array(items) => items.iter().map(count_fields).sum(),
        _ => 0,
    }
}
