//! What the chart says of the policies a second time is what they say.

use std::collections::{BTreeMap, BTreeSet};

use fabric_injector::core::yaml;
use fabric_injector::shell::builtin;
use serde_json::{Value, json};

use crate::{chart, read, root};

fn schema() -> Value {
    serde_json::from_str(&read(&chart().join("values.schema.json"))).unwrap()
}

fn values() -> Value {
    yaml::read_value(&read(&chart().join("values.yaml"))).unwrap().root.unwrap()
}

fn keys(map: &Value) -> BTreeSet<&str> {
    map.as_object().unwrap().keys().map(String::as_str).collect()
}

pub(crate) fn the_schema_has_the_parameters_of_each_policy() {
    let providers = &schema()["properties"]["multinodeNetworking"]["properties"];
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for policy in builtin::POLICIES {
        let spec = yaml::read_value(policy.text).unwrap().root.unwrap()["spec"].clone();
        let provider = spec["provider"].as_str().unwrap();
        let wanted = known.entry(provider.to_owned()).or_insert_with(|| ["enabled".to_owned()].into());
        wanted.extend(keys(&spec["parameters"]).into_iter().map(str::to_owned));
        let block = &providers[provider];
        // Policies of the operator may have others, which a template checks.
        assert_eq!(block.get("additionalProperties"), None);
        assert_eq!(block["properties"]["enabled"], json!({"type": "boolean"}));
        for (name, parameter) in spec["parameters"].as_object().unwrap() {
            let place = format!("{provider}/properties/{name}");
            same_type(parameter, &block["properties"][name], &place);
        }
    }
    assert_eq!(keys(providers), known.keys().map(String::as_str).collect());
    for (provider, wanted) in &known {
        let properties = keys(&providers[provider.as_str()]["properties"]);
        assert_eq!(properties, wanted.iter().map(String::as_str).collect(), "{provider}");
    }
}

/// The schema takes for a parameter what its policy takes, a table of that, or nothing: then it is not set.
fn same_type(parameter: &Value, schema: &Value, place: &str) {
    let itself = format!("#/properties/multinodeNetworking/properties/{place}");
    let tables = json!({"$ref": itself});
    if let Some(allowed) = parameter["enum"].as_array() {
        let mut wanted = allowed.clone();
        wanted.push(Value::Null);
        let table = json!({"type": "object", "additionalProperties": tables});
        assert_eq!(schema, &json!({"anyOf": [{"enum": wanted}, table]}), "{place}");
        return;
    }
    let kind = match parameter["type"].as_str().unwrap() {
        "stringList" => "array",
        "quantity" | "template" => "string",
        other => other,
    };
    assert_eq!(schema["type"], json!([kind, "object", "null"]), "{place}");
    assert_eq!(schema["additionalProperties"], tables, "{place}");
    if parameter["type"] != "quantity" {
        for bound in ["minimum", "maximum", "minItems", "maxItems"] {
            assert_eq!(schema[bound], parameter[bound], "{place}: {bound}");
        }
    }
}

pub(crate) fn a_quantity_of_the_schema_is_one_for_the_program() {
    let pattern =
        &schema()["properties"]["multinodeNetworking"]["properties"]["aws"]["properties"]["hugePages2Mi"];
    assert_eq!(pattern["pattern"], r"^[0-9]+(\.[0-9]+)?(e[0-9]+|[kMGTPE]|[KMGTPE]i)?$");
    for quantity in ["5120Mi", "64Gi", "1.5G", "1e9", "1024", "3k", "1Ki"] {
        assert!(fabric_injector::core::quantity::Quantity::parse(quantity).is_some(), "{quantity}");
    }
}

pub(crate) fn every_value_is_in_the_schema_and_every_block_is_closed() {
    closed("", &schema(), &values());
}

/// A block of the schema has the keys of the values, and takes no others.
fn closed(place: &str, schema: &Value, values: &Value) {
    // Whatever Kubernetes takes: labels, selectors and the like.
    let Some(properties) = schema["properties"].as_object() else { return };
    let Some(values) = values.as_object() else { return };
    if !place.starts_with(".multinodeNetworking") {
        assert_eq!(schema["additionalProperties"], false, "{place}");
    }
    for key in values.keys() {
        assert!(properties.contains_key(key), "{place}.{key} is not in the schema");
    }
    for (key, schema) in properties {
        // Helm itself adds `global`; a parameter that is not set follows the node.
        if key == "global" || place.starts_with(".multinodeNetworking.") {
            continue;
        }
        let value = values.get(key).unwrap_or_else(|| panic!("{place}.{key} has no default in values.yaml"));
        closed(&format!("{place}.{key}"), schema, value);
    }
}

pub(crate) fn no_parameter_is_set_so_that_each_follows_the_node() {
    let off = json!({"enabled": false});
    let wanted = json!({"aws": off, "azure": off, "gcp": off, "oci": off});
    assert_eq!(values()["multinodeNetworking"], wanted);
}

pub(crate) fn the_page_on_installing_has_every_value() {
    let page = read(&root().join("docs/install.md"));
    for (key, value) in values().as_object().unwrap() {
        assert!(page.contains(&format!("`{key}")), "docs/install.md has no `{key}`");
        for inner in value.as_object().into_iter().flatten().map(|(inner, _)| inner) {
            let documented = [format!("`{key}.{inner}"), format!(".{inner}`")];
            let block = ["multinodeNetworking", "resources", "nodeSelector"].contains(&key.as_str());
            assert!(
                block || documented.iter().any(|name| page.contains(name.as_str())),
                "docs/install.md has no `{key}.{inner}`"
            );
        }
    }
}

pub(crate) fn the_chart_has_the_version_of_the_program() {
    let chart = yaml::read_value(&read(&chart().join("Chart.yaml"))).unwrap().root.unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}
