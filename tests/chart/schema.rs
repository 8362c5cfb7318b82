//! The schema and the default values of the chart belong together.

use std::collections::BTreeSet;
use std::process::Command;

use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::{chart, read, root};

fn schema() -> Value {
    serde_json::from_str(&read(&chart().join("values.schema.json"))).unwrap()
}

fn values() -> Value {
    yaml::read_value(&read(&chart().join("values.yaml"))).unwrap().root.unwrap()
}

pub(crate) fn every_value_is_in_the_schema_and_every_block_is_closed() {
    closed("", &schema(), &values());
}

/// A block of the schema has the keys of the values, and takes no others.
fn closed(place: &str, schema: &Value, values: &Value) {
    // Whatever Kubernetes takes: labels, selectors and the like.
    let Some(properties) = schema["properties"].as_object() else { return };
    let Some(values) = values.as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{place}");
    for key in values.keys() {
        assert!(properties.contains_key(key), "{place}.{key} is not in the schema");
    }
    for (key, schema) in properties {
        // Helm itself adds `global`, and a chart of charts `enabled`.
        if place.is_empty() && ["global", "enabled"].contains(&key.as_str()) {
            continue;
        }
        let value = values.get(key).unwrap_or_else(|| panic!("{place}.{key} has no default in values.yaml"));
        closed(&format!("{place}.{key}"), schema, value);
    }
}

pub(crate) fn no_provider_has_a_value_so_that_each_parameter_follows_the_node() {
    assert_eq!(values()["multinodeNetworking"], json!({}));
}

pub(crate) fn the_page_on_values_has_every_value() {
    let page = read(&root().join("docs/values.md"));
    for (key, value) in values().as_object().unwrap() {
        assert!(page.contains(&format!("`{key}")), "docs/values.md has no `{key}`");
        for inner in value.as_object().into_iter().flatten().map(|(inner, _)| inner) {
            let documented = [format!("`{key}.{inner}"), format!(".{inner}`")];
            let blocks =
                ["multinodeNetworking", "resources", "nodeSelector", "podSecurityContext", "securityContext"];
            let block = blocks.contains(&key.as_str());
            assert!(
                block || documented.iter().any(|name| page.contains(name.as_str())),
                "docs/values.md has no `{key}.{inner}`"
            );
        }
    }
}

pub(crate) fn the_chart_has_the_version_of_the_program() {
    let chart = yaml::read_value(&read(&chart().join("Chart.yaml"))).unwrap().root.unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

/// The options that the chart sets, those that would contradict it, and those whose default fits every cluster.
const NOT_FURTHER: [&str; 24] = [
    "admin-listen",
    "ca-duration",
    "certificate-duration",
    "client-ca",
    "drain-timeout",
    "events",
    "help",
    "listen",
    "log",
    "manage-advice",
    "manage-secret",
    "manage-webhook",
    "mode",
    "networks-of-other-namespaces",
    "on-error",
    "policy",
    "set",
    "shutdown-delay",
    "tls-cert",
    "tls-dir",
    "tls-key",
    "unwatched",
    "values",
    "watch-nodes",
];

/// What the program says of its options.
pub(crate) fn help() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    String::from_utf8(command.args(["serve", "--help"]).output().unwrap().stdout).unwrap()
}

/// An argument that the program does not know would keep every replica from starting.
pub(crate) fn an_option_of_the_server_is_set_by_the_chart_or_a_further_argument() {
    let help = help();
    // `--long`, or `-s, --long`.
    let begins = |(short, _): &(&str, &str)| short.is_empty() || short.len() == "-s, ".len();
    let words = help.lines().filter_map(|line| line.trim_start().split_once("--").filter(begins));
    let options: BTreeSet<&str> = words.map(|(_, rest)| rest.split(' ').next().unwrap()).collect();
    let server = &schema()["properties"]["server"]["properties"];
    let patterns = server["extraArgs"]["items"]["anyOf"].as_array().unwrap().iter();
    let names = patterns.map(|one| one["pattern"].as_str().unwrap().split_once('=').unwrap().0);
    let further = names.flat_map(|names| names.trim_start_matches("^--").trim_matches(['(', ')']).split('|'));
    let known: BTreeSet<&str> = further.chain(NOT_FURTHER).collect();
    assert_eq!(options, known, "an option belongs to `extraArgs` of the schema, or to the chart");
}
