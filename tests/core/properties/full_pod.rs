//! A Pod with every field of the Kubernetes API, made from the API's own types.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

/// Every field populated, lists with one entry, and at each object one field that no release knows.
pub(crate) fn full_pod() -> Value {
    let schema = schemars::generate::SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<Pod>()
        .to_value();
    let mut pod = sample(&schema, &schema["definitions"], 0);
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

fn sample(schema: &Value, definitions: &Value, depth: usize) -> Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        let name = reference.trim_start_matches("#/definitions/");
        return if depth > 12 { Value::Null } else { sample(&definitions[name], definitions, depth + 1) };
    }
    if let Some(properties) = schema["properties"].as_object() {
        let mut object: Map<String, Value> = properties
            .iter()
            .map(|(field, schema)| (field.clone(), sample(schema, definitions, depth + 1)))
            .collect();
        object.insert("fieldOfTheFuture".to_owned(), json!({"nested": [1, null, "x"]}));
        return Value::Object(object);
    }
    match schema["type"].as_str() {
        Some("array") => json!([sample(&schema["items"], definitions, depth + 1)]),
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => json!({"key": sample(values, definitions, depth + 1)}),
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
