//! Every policy of the repository is valid.

use std::fs;

use corvus_json_schema::Validator;
use serde_json::{Value, json};

use super::{LANGUAGE, errors, files_below, root, validator, value};
use crate::helpers::policy_schema;

const KIND: &str = "kind: FabricPolicy";

#[test]
fn every_policy_file_is_valid() {
    let validator = validator(&policy_schema());
    let mut checked = 0;
    for folder in ["policies", "docs", "deploy", "tests/policies", "tests/cli"] {
        for path in files_below(folder, ".yaml") {
            let text = fs::read_to_string(&path).unwrap();
            // A template is a policy after its names are filled in.
            if text.lines().any(|line| line == KIND) && !text.contains("{name}") {
                assert_eq!(errors(&validator, &value(&text)), "", "{}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "{checked} policies");
}

/// The YAML blocks of a document.
pub(crate) fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (line.starts_with("```"), &mut open) {
            (true, Some(_)) => blocks.extend(open.take()),
            (true, None) if line == "```yaml" => open = Some(String::new()),
            (false, Some(block)) => block.extend([line, "\n"]),
            _ => {}
        }
    }
    blocks
}

#[test]
fn every_policy_of_the_documentation_is_valid() {
    let whole = validator(&policy_schema());
    let (mut policies, mut parts) = (0, 0);
    for path in files_below("docs", ".md").into_iter().chain([root().join("README.md")]) {
        let is_reference = LANGUAGE.iter().any(|page| path.ends_with(page));
        for block in blocks(&fs::read_to_string(&path).unwrap()) {
            let shown = format!("{}:\n{block}", path.display());
            let document = value(&block);
            if block.lines().any(|line| line == KIND) {
                let spec = &document["spec"];
                // A guide begins with a part of a policy.
                let is_whole = spec.get("rules").or_else(|| spec.get("extends")).is_some();
                let (validator, value) = if is_whole { (&whole, &document) } else { (&part(spec), spec) };
                assert_eq!(errors(validator, value), "", "{shown}");
                policies += 1;
            } else if is_reference && document.get("multinodeNetworking").is_none() {
                assert_eq!(errors(&part(&document), &document), "", "{shown}");
                parts += 1;
            }
        }
    }
    assert!(policies >= 2 && parts >= 8, "{policies} policies and {parts} parts");
}

/// The validator of a map that has only some of the keys of one of these types.
fn part(document: &Value) -> Validator {
    let schema = policy_schema();
    let types =
        ["/$defs/spec", "/$defs/spec/properties/rules/items", "/$defs/ContainerOverlay", "/$defs/ObjectMeta"];
    let has_all = |part: &&&str| {
        document
            .as_object()
            .unwrap()
            .keys()
            .all(|key| schema.pointer(part).unwrap()["properties"].get(key).is_some())
    };
    let part = types.iter().find(has_all).unwrap_or_else(|| panic!("a part of what? {document}"));
    let properties = schema.pointer(part).unwrap()["properties"].clone();
    validator(&json!({"$schema": schema["$schema"], "properties": properties, "$defs": schema["$defs"]}))
}
