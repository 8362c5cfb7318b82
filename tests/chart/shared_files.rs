//! What the chart has from the program: `policies.json`, `conditions.json` and `gpu-machines.json` of its `files`, and the
//! parameters in `values.schema.json`. Tools that package charts leave links out, so they are copies. `agreement.rs`
//! compares the CEL of both, and `rendered.rs` the objects that `manifests` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use fabric_engine::registration::forms;
use fabric_injector::builtin::{PARTS, POLICIES};
use fabric_yaml::read_value;
use serde_json::{Value, json};

use crate::advice::known_kinds;
use crate::cases::{enabled, providers};
use crate::helm::Helm;
use crate::{chart, compare_or_write, read, root};

/// The built-in policies, as the program lists them.
fn listed_policies() -> Vec<Value> {
    let program = env!("CARGO_BIN_EXE_fabric-injector");
    let output = Command::new(program).args(["policy", "list", "--output", "json"]).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The GPU resources of a part of policies, with those of the parts that it extends.
fn resources(part: &str) -> BTreeSet<String> {
    let part = PARTS.iter().find(|one| one.name == part).unwrap();
    let spec = read_value(part.text).unwrap().root.unwrap()["spec"].take();
    let bases = spec["extends"].as_array().cloned().unwrap_or_else(|| vec![spec["extends"].clone()]);
    let inherited = bases.iter().filter_map(Value::as_str).flat_map(resources);
    let own = spec["gpus"]["resources"].as_array().into_iter().flatten();
    own.map(|gpu| gpu.as_str().unwrap().to_owned()).chain(inherited).collect()
}

/// The facts that the chart reads of these policies, as the program lists them, and of the parts of policies, by name.
pub(crate) fn table_of(policies: &[Value]) -> String {
    let parts = PARTS.iter().map(|part| (part.name.to_owned(), json!({"resources": resources(part.name)})));
    let policies = policies.iter().map(|policy| {
        let mut kept = json!({"provider": policy["provider"], "resources": policy["gpuResources"]});
        let parts = policy["match"].as_object().unwrap().clone();
        kept.as_object_mut().unwrap().extend(parts.into_iter().filter(|(key, _)| key != "when"));
        (policy["name"].as_str().unwrap().to_owned(), kept)
    });
    let table: BTreeMap<String, Value> = parts.chain(policies).collect();
    serde_json::to_string_pretty(&table).unwrap() + "\n"
}

pub(crate) fn the_table_of_policies_is_what_the_program_lists() {
    compare_or_write(&chart().join("files/policies.json"), &table_of(&listed_policies()));
}

/// Workloads whose templates `lint` finds without the table of kinds.
const OTHER_KINDS: [&str; 2] = ["DaemonSet.apps", "Rollout.argoproj.io"];
/// The fields of `spec` that have templates in a text, or what the pods of kinds without a template are made of.
const OTHER_FIELDS: [&str; 8] = [
    "annotations",
    "driver",
    "executor",
    "multiNode",
    "podTemplateOverrides",
    "runtimePatches",
    "templates",
    "workflowSpec",
];

/// The forms of conditions, as the program fills them, and what `lint` knows about kinds of workloads.
pub(crate) fn the_conditions_have_the_forms_of_the_program_and_the_kinds_that_lint_knows() {
    let kinds = known_kinds();
    let fields = kinds.iter().flat_map(|(_, paths)| paths).map(|path| path.split('/').nth(2).unwrap());
    // The templates in this one are compared without the numbers of replicas.
    let fields = fields.filter(|field| *field != "workerGroupSpecs").chain(OTHER_FIELDS);
    let mut workloads = BTreeMap::<_, BTreeSet<_>>::new();
    for name in kinds.iter().map(|(name, _)| name.as_str()).chain(OTHER_KINDS) {
        let (kind, group) = name.split_once('.').unwrap();
        workloads.entry(group).or_default().insert(kind);
    }
    let mut conditions = forms();
    conditions["templateFields"] = json!(fields.collect::<BTreeSet<_>>());
    conditions["workloads"] = json!(workloads);
    let conditions = serde_json::to_string_pretty(&conditions).unwrap() + "\n";
    compare_or_write(&chart().join("files/conditions.json"), &conditions);
}

/// The values that a parameter can have, as a schema. In a table by a label of nodes, each value has the same form.
fn form(parameter: &Value) -> Value {
    let kind = parameter["type"].as_str().unwrap();
    let taken = match kind {
        "integer" | "number" | "boolean" => json!([kind, "object", "null"]),
        "quantity" => json!(["string", "number", "object", "null"]),
        "stringList" => json!(["array", "object", "null"]),
        _ => json!(["string", "object", "null"]),
    };
    let mut form = json!({"type": taken});
    match kind {
        "quantity" => {
            form["minimum"] = json!(0);
            form["pattern"] = json!("^[0-9]+([.][0-9]+)?(e[0-9]+|[kMGTPE]|[KMGTPE]i)?$");
        }
        "stringList" => form["items"] = json!({"type": "string"}),
        _ => {}
    }
    for (key, bound) in [("minimum", "minItems"), ("maximum", "maxItems")] {
        if parameter[key].is_number() {
            form[if kind == "stringList" { bound } else { key }] = parameter[key].clone();
        }
    }
    if parameter["enum"].is_array() {
        form["if"] = json!({"type": "string"});
        form["then"] = json!({"enum": parameter["enum"]});
    }
    form
}

/// What the form of a parameter is called: by its type and bounds, or by the values that it lists.
fn name_of_form(parameter: &Value) -> String {
    if let Some(values) = parameter["enum"].as_array() {
        return values.iter().map(|value| value.as_str().unwrap()).collect::<Vec<_>>().join("-");
    }
    let kind = parameter["type"].as_str().unwrap().to_owned();
    let bound = |key: &str| parameter[key].as_f64().map_or_else(String::new, |bound| bound.to_string());
    match (bound("minimum"), bound("maximum")) {
        (least, most) if least.is_empty() && most.is_empty() => kind,
        (least, most) => format!("{kind}-{least}-{most}"),
    }
}

const GENERATED: &str = "    \"parameters\": {\"$comment\": \"Up to the next section: the parameters of built-in policies. \
                         UPDATE_DEPLOY=1 writes them.\"},\n";

/// The schema of the chart with the parameters of these policies, as the program lists them.
pub(crate) fn schema_with_parameters_of(policies: &[Value]) -> String {
    let mut providers = BTreeMap::<&str, BTreeMap<&str, &Value>>::new();
    for policy in policies {
        let provider = providers.entry(policy["provider"].as_str().unwrap()).or_default();
        for (name, parameter) in policy["parameters"].as_object().unwrap() {
            let before = provider.insert(name, parameter);
            assert!(before.is_none_or(|before| form(before) == form(parameter)), "{name} has two forms");
        }
    }
    let (mut definitions, mut blocks) = (BTreeMap::<String, Value>::new(), Vec::new());
    for (provider, parameters) in &providers {
        let mut lines = vec!["          \"enabled\": {\"type\": \"boolean\"}".to_owned()];
        for (parameter, declared) in parameters {
            let name = name_of_form(declared);
            let reference = json!({"$ref": format!("#/definitions/{name}")});
            let entry = format!("{}: {reference}", json!(parameter));
            let mut form = form(declared);
            form["additionalProperties"] = reference;
            assert_eq!(*definitions.entry(name).or_insert_with(|| form.clone()), form, "{parameter}");
            let last = lines.last_mut().unwrap();
            if last.len() + entry.len() > 117 {
                lines.push(format!("          {entry}"));
            } else {
                *last = format!("{last}, {entry}");
            }
        }
        let lines = lines.join(",\n");
        let kind = "\"type\": \"object\", \"additionalProperties\": false, \"properties\"";
        blocks.push(format!("        {}: {{{kind}: {{\n{lines}\n        }}}}", json!(provider)));
    }
    let definitions = definitions.iter().map(|(name, form)| format!("    {}: {form}", json!(name)));
    let definitions = definitions.collect::<Vec<_>>().join(",\n");
    let blocks = blocks.join(",\n");
    let all = "    \"multinodeNetworking\": {\n      \"properties\"";
    let text = read(&chart().join("values.schema.json"));
    let (before, rest) = text.split_once(GENERATED).expect("the place of the parameters");
    let (_, after) = rest.split_once("  },\n").unwrap();
    format!("{before}{GENERATED}{definitions},\n{all}: {{\n{blocks}\n      }}\n    }}\n  }},\n{after}")
}

pub(crate) fn the_schema_has_the_parameters_that_the_program_lists() {
    compare_or_write(&chart().join("values.schema.json"), &schema_with_parameters_of(&listed_policies()));
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
