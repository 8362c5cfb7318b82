//! The keys of the schemas against those that the parser knows and the documentation describes, and against the fields of
//! a Pod.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::policy::{PolicyFile, SourceError, definitions};
use crate::core::schema::{Object, Overlay, Shape, container, pod};

const HEAD: &str = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: lab}\n";
const BASE: &str = "spec: {provider: lab, description: d, gpus: {resources: [lab/gpu]}, match: {labels: {a: b}}, rules: [{name: r, \
                    container: {tty: true}}]}\n";

fn errors(files: &[String]) -> Vec<SourceError> {
    let mut read = Vec::new();
    for file in files {
        match PolicyFile::read("lab.yaml", file) {
            Ok(file) => read.push(file),
            Err(errors) => return errors.into_iter().collect(),
        }
    }
    definitions(&read, &[]).unwrap_err().into_iter().collect()
}

fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The keys that the parser knows in a map with the key `zzz`, and those that it misses there.
fn of_parser(files: &[String]) -> [BTreeSet<String>; 2] {
    let mut keys = [BTreeSet::new(), BTreeSet::new()];
    for error in errors(files) {
        let (message, hint) = (&error.diagnostic.message, error.diagnostic.hint.unwrap_or_default());
        if message.ends_with("has no field `zzz`") {
            keys[0].extend(quoted(&hint));
        } else if let Some(key) = hint.strip_prefix("add `").and_then(|hint| hint.strip_suffix(":`")) {
            keys[1].insert(key.to_owned());
        }
    }
    keys
}

fn of_schema(schema: &Value) -> [BTreeSet<String>; 2] {
    let required = schema["required"].as_array().into_iter().flatten();
    [
        schema["properties"].as_object().unwrap().keys().cloned().collect(),
        required.map(|key| key.as_str().unwrap().to_owned()).collect(),
    ]
}

/// The keys in the first cells of the table below a heading.
fn of_page(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../../docs/policy.md");
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap())).collect()
}

#[test]
fn the_parser_and_the_documentation_have_the_keys_of_the_schema() {
    let schema: Value = serde_json::from_str(super::POLICY).unwrap();
    let definition = |name: &str| schema["$defs"][name].clone();
    let of_spec = |key: &str| schema["$defs"]["spec"]["properties"][key].clone();
    // Without `provider` and `match` it would be a part of policies, which is not read alone.
    let in_spec = |text: &str| vec![format!("{HEAD}spec: {{provider: lab, {text}}}\n")];
    let extension = format!("{HEAD}spec: {{extends: lab, zzz: 1}}\n").replace("name: lab", "name: own");
    let settings = definition("settings");
    for (files, schema, heading) in [
        (vec!["zzz: 1\n".to_owned()], schema.clone(), None),
        (vec![HEAD.replace("name: lab", "zzz: 1") + BASE], schema["properties"]["metadata"].clone(), None),
        (in_spec("zzz: 1"), definition("spec"), Some("## The keys of `spec`")),
        (vec![format!("{HEAD}{BASE}"), extension], definition("extension"), Some("## Extending a policy")),
        (in_spec("match: {zzz: 1}"), definition("match"), Some("### `match`")),
        (in_spec("parameters: {p: {zzz: 1}}"), definition("parameter"), Some("### `parameters`")),
        (in_spec("gpus: {zzz: 1}"), of_spec("gpus"), None),
        (in_spec("gpus: {claims: {zzz: 1}}"), of_spec("gpus")["properties"]["claims"].clone(), None),
        (in_spec("devices: {zzz: 1}"), of_spec("devices"), None),
        (in_spec("devices: {own: {zzz: 1}}"), of_spec("devices")["properties"]["own"].clone(), None),
        (in_spec("devices: {add: [{zzz: 1}]}"), definition("device"), None),
        (in_spec("warnings: [{zzz: 1}]"), definition("warning"), Some("### `warnings`")),
        (in_spec("settings: [{zzz: 1}]"), settings.clone(), Some("### `settings`")),
        (in_spec("settings: [{file: {zzz: 1}}]"), settings["properties"]["file"].clone(), None),
        (in_spec("rules: [{zzz: 1}]"), definition("rule"), Some("### `rules`")),
    ] {
        let what = files.concat();
        let [mut known, missing] = of_parser(&files);
        let [mut keys, mut required] = of_schema(&schema);
        if what.contains("extends") || heading == Some("## The keys of `spec`") {
            known.insert("extends".to_owned());
            keys.insert("extends".to_owned());
            required.remove("extends");
            required.remove("provider");
        }
        assert_eq!(known, keys, "{what}");
        assert!(required.is_subset(&missing), "{what}: {required:?}, and not {missing:?}");
        if let Some(heading) = heading {
            keys.remove("description");
            let mut described = of_page(heading);
            described.remove("description");
            assert_eq!(described, keys, "{heading}");
        }
    }
}

/// The schemas of the value under a key, in all forms that a schema allows for a map.
fn under<'s>(schema: &'s Value, document: &'s Value, key: &str, found: &mut Vec<&'s Value>) {
    if let Some(pointer) = schema["$ref"].as_str() {
        under(document.pointer(&pointer[1..]).unwrap_or_else(|| panic!("{pointer}")), document, key, found);
    }
    found.extend(schema["properties"].get(key));
    for form in schema["anyOf"].as_array().into_iter().flatten() {
        under(form, document, key, found);
    }
}

/// Compares the fields of an object that `allowed` has with the keys that a schema has for it.
fn compare(
    object: &'static Object,
    schemas: &[&Value],
    document: &Value,
    allowed: &dyn Fn(&str, &Overlay) -> bool,
    seen: &mut BTreeSet<String>,
) {
    let place = |field: &str| format!("{} {field} {schemas:?}", object.name);
    if !seen.insert(place("")) {
        return;
    }
    for field in object.fields {
        let mut found = Vec::new();
        for schema in schemas {
            under(schema, document, field.name, &mut found);
        }
        found.retain(|schema| **schema != Value::Bool(false));
        assert_eq!(!found.is_empty(), allowed(field.name, &field.overlay), "{}", place(field.name));
        let inner = |shape: &Shape| match shape {
            Shape::List { items, .. } => **items,
            other => *other,
        };
        if let Shape::Object(object) | Shape::Atomic(object) = inner(&field.shape)
            && !found.is_empty()
        {
            let items = found.iter().filter_map(|schema| schema.get("items"));
            let schemas: Vec<&Value> = found.iter().copied().chain(items).collect();
            compare(object, &schemas, document, allowed, seen);
        }
    }
}

#[test]
fn the_schemas_have_the_fields_of_a_pod() {
    let document: Value = serde_json::from_str(super::POLICY).unwrap();
    let settable = |_: &str, overlay: &Overlay| !matches!(overlay, Overlay::Refused(_));
    let mut seen = BTreeSet::new();
    compare(pod(), &[&document["$defs"]["PodOverlay"]], &document, &settable, &mut seen);
    let selected = |name: &str, overlay: &Overlay| name != "name" && settable(name, overlay);
    let overlay = &document["$defs"]["ContainerOverlay"];
    for field in container().fields.iter().filter(|field| selected(field.name, &field.overlay)) {
        assert!(overlay["properties"].get(field.name).is_some(), "{}", field.name);
    }
    assert_eq!(overlay["properties"].get("name"), None);
    let document: Value = serde_json::from_str(super::CASES).unwrap();
    compare(pod(), &[&document["$defs"]["Pod"]], &document, &|_, _| true, &mut seen);
    assert!(seen.len() > 150, "{}", seen.len());
}
