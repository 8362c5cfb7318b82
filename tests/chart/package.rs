//! The chart as it is packaged, by tools that leave links out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use fabric_injector::builtin::{BuiltIn, PARTS, POLICIES};
use fabric_yaml::read_value;
use serde_json::{Map, Value, json};

use crate::cases::{enabled, providers};
use crate::helm::Helm;
use crate::{chart, compare_or_write, root};

pub(crate) fn the_table_of_policies_is_what_the_program_prints() {
    let program = env!("CARGO_BIN_EXE_fabric-injector");
    let output = Command::new(program).args(["policy", "list", "--output", "json"]).output().unwrap();
    assert!(output.status.success());
    compare_or_write(&chart().join("files/policies.json"), &String::from_utf8(output.stdout).unwrap());
}

/// What the chart reads of the parts of policies.
pub(crate) fn the_table_of_parts_has_what_the_chart_reads_of_them() {
    let part = |part: &BuiltIn| {
        let spec = read_value(part.text).unwrap().root.unwrap()["spec"].take();
        let kept = ["extends", "gpus", "parameters"].map(|key| (key.to_owned(), spec[key].clone()));
        let mut kept: Map<String, Value> = kept.into_iter().filter(|(_, value)| !value.is_null()).collect();
        for parameter in kept.get_mut("parameters").and_then(Value::as_object_mut).into_iter().flatten() {
            let fields = parameter.1.as_object_mut().unwrap();
            let told = match (fields.get("enum"), fields.get("default")) {
                (Some(_), _) | (_, Some(Value::String(_))) => Some("string"),
                (_, Some(Value::Bool(_))) => Some("boolean"),
                (_, Some(Value::Number(_))) => Some("number"),
                (_, Some(Value::Array(_))) => Some("stringList"),
                _ => None,
            };
            if let Some(told) = told.filter(|_| fields.contains_key("description")) {
                fields.entry("type").or_insert(told.into());
            }
            fields.retain(|key, _| !["description", "default"].contains(&key.as_str()));
        }
        json!({"name": part.name, "file": part.file, "spec": kept})
    };
    let parts: Vec<Value> = PARTS.iter().map(part).collect();
    let table = serde_json::to_string_pretty(&parts).unwrap() + "\n";
    compare_or_write(&chart().join("files/parts.json"), &table);
}

/// What tables by a label of nodes there are in policies and their parts: each label, with the values that it is compared
/// with.
pub(crate) fn tables() -> BTreeMap<String, BTreeSet<String>> {
    let mut tables = BTreeMap::<_, BTreeSet<String>>::new();
    for policy in POLICIES.iter().chain(PARTS) {
        let spec = read_value(policy.text).unwrap().root.unwrap()["spec"].take();
        for (label, rows) in spec["machines"].as_object().into_iter().flatten() {
            let rows = rows.as_object().into_iter().flatten().flat_map(|(row, _)| row.split(','));
            tables.entry(label.clone()).or_default().extend(rows.map(|row| row.trim().to_owned()));
        }
    }
    tables
}

/// The machines with GPUs that policies name in full, also those that begin with one of two names. Which others a pattern
/// is for, the chart cannot say.
pub(crate) fn the_table_of_machines_has_those_that_policies_name() {
    let tables = tables();
    let names = tables["node.kubernetes.io/instance-type"].iter();
    let names = names.map(|name| name.strip_prefix('*').unwrap_or(name));
    // The others are patterns. The scheduler places no pod whose affinity has a value that no label can have.
    let names = names.filter(|name| name.starts_with(char::is_alphanumeric) && !name.contains('*'));
    let table = serde_json::to_string_pretty(&names.collect::<BTreeSet<_>>()).unwrap() + "\n";
    compare_or_write(&chart().join("files/gpu-machines.json"), &table);
}

/// Flux and some archives leave symbolic links out.
pub(crate) fn no_file_is_a_link() {
    let mut folders = vec![root().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            assert!(!path.is_symlink(), "{} is a link", path.display());
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
            }
        }
    }
    assert!(files > 100, "{files}");
}

pub(crate) fn the_packaged_chart_renders_what_the_folder_does(helm: &Helm) {
    let folder = tempfile::tempdir().unwrap();
    let package = helm.package(folder.path());
    let mut tar = Command::new("tar");
    let tar = tar.current_dir(folder.path()).args(["--extract", "--gzip", "--file"]).arg(&package).status();
    assert!(tar.unwrap().success());
    let packaged = folder.path().join("fabric-injector");
    let table = Path::new("files/policies.json");
    assert_eq!(fs::read(packaged.join(table)).unwrap(), fs::read(chart().join(table)).unwrap());
    for provider in providers().keys() {
        let values = enabled(provider);
        assert_eq!(helm.template_from(&packaged, &values), helm.template(&values));
    }
}
