//! The corpus of broken policies: the schema refuses those that a schema can refuse, and none that loads.

use std::fs;

use fabric_yaml::read_value;

use super::{files_below, validator};
use crate::helpers::policy_schema;

/// The mistakes that a schema cannot find: the reason, and how the names of their files begin.
const NOT_FOUND: [(&str, &[&str]); 4] = [
    (
        "an expression is a string",
        &[
            "behind-a",
            "cel-",
            "extends-unknown-name",
            "own-devices-by-pod",
            "idempotence-",
            "misspelt-name-in-a-variable",
            "networks-is-a-number",
            "oci-rdma",
            "own-devices-without-devices",
            "refusal-message-with-value",
            "trial-behind-a",
            "trial-cel-",
            "trial-idempotence-",
            "trial-variable-",
            "variable-of-container-and-pod",
            "variable-reads-itself",
            "variable-table-key-unknown",
            "warning-message-unknown-name",
            "warning-of-container-and-pod",
            "warning-when-number",
            "yaml-comment-inside-an-expression",
            "yaml-curly-quotes-in-an-expression",
            "yaml-expression-without-end",
        ],
    ),
    (
        "each of two values is right by itself",
        &[
            "adds-gpus-by-claim",
            "annotation-with-and-without-a-field",
            "claim-class-with-a-space",
            "append-of-an-empty-entry",
            "containers-is-a-number",
            "env-key-of-the-rule",
            "mount-path-relative",
            "gpu-resource-of-every-pod",
            "match-provider-id-",
            "own-resource-of-every-pod",
            "machines-gpus-not-a-number",
            "machines-value-",
            "codes-of-reports",
            "contradiction-sidecar-with-gpus",
            "parameter-mount-path-relative",
            "cpu-request-above-its-limit",
            "default-",
            "device-names-nothing",
            "devices-amount-",
            "edit-and-replace-of-one-variable",
            "entries-without-their-key",
            "limit-is-not-a-device-count",
            "minimum-above-maximum",
            "replaces-its-own-trigger",
            "request-and-limit-differ",
            "trial-default-outside-of-enum",
            "two-",
            "variable-has-the-name-of-a-parameter",
            "warning-without-when",
            "variables-that-read-each-other",
            "variables-that-refer-to-each-other",
            "writes-its-own-exception",
        ],
    ),
    (
        "another file decides",
        &[
            "extends-",
            "parameter-of-another-type-than-the-siblings",
            "policies-of-one-name",
            "trial-extends-unknown",
        ],
    ),
    (
        "a schema sees a value and not its spelling",
        &[
            "device-resource-without-a-name",
            "text-version-as-a-number",
            "mount-path-with-a-slash",
            "variable-with-the-name-of-a-type",
            "file-name",
            "yaml-boolean-key",
            "yaml-leading-zero-as-env-value",
            "yaml-octal-mode",
            "yaml-tag-",
            "yaml-yes-for-true",
        ],
    ),
];

/// Files of the corpus: the name, and whether loading has to fail.
fn corpus() -> Vec<(String, bool, String)> {
    let folders = ["tests/corpus/broken", "tests/corpus/nvidia"];
    let files = folders.iter().flat_map(|folder| files_below(folder, ".yaml"));
    files
        .map(|path| {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let comments =
                text.trim_start_matches('\u{feff}').lines().take_while(|line| line.starts_with('#'));
            let fails = comments.into_iter().any(|line| line.starts_with("# expect: error"));
            (path.file_stem().unwrap().to_string_lossy().into_owned(), fails, text)
        })
        .collect()
}

#[test]
fn the_schema_refuses_what_a_schema_can_refuse() {
    let validator = validator(&policy_schema());
    let known: Vec<&str> = NOT_FOUND.iter().flat_map(|(_, names)| *names).copied().collect();
    let (mut refused, mut accepted) = (0, Vec::new());
    for (name, fails, text) in corpus() {
        // What is no YAML is refused before a schema sees it.
        let Ok(document) = read_value(&text) else { continue };
        if document.ambiguity.is_some() {
            continue;
        }
        let is_valid = validator.is_valid(&document.root.unwrap_or_default());
        match (fails, is_valid) {
            (false, false) => panic!("the schema refuses {name}, which loads"),
            (true, false) => refused += 1,
            (true, true) => accepted.push(name),
            (false, true) => {}
        }
    }
    assert!(refused > 150, "{refused}");
    let unknown = |name: &&String| !known.iter().any(|start| name.starts_with(start));
    let unknown: Vec<&String> = accepted.iter().filter(unknown).collect();
    assert!(unknown.is_empty(), "the schema accepts {unknown:?}");
    for start in known {
        assert!(accepted.iter().any(|name| name.starts_with(start)), "the schema refuses every {start}…");
    }
}
