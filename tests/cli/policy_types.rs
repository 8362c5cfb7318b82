//! Values of the wrong type in a policy file: each is shown with its place, the line and a hint.

use super::policy_errors::{mistake, with_policy};
use super::{POD, POLICY};

#[test]
fn a_number_for_a_string_is_shown() {
    mistake("A policy to try things on", "5", "5").says(&["string"]);
    mistake("FABRIC: lab", "FABRIC: 1.5", "1.5").says(&["a variable is a text"]);
    mistake("networking: \"true\"", "networking: true", "true").says(&["string"]);
}

#[test]
fn a_string_for_a_list_is_shown() {
    mistake("[nvidia.com/gpu]", "nvidia.com/gpu", "nvidia.com/gpu").says(&["list"]);
}

#[test]
fn a_string_for_an_entry_of_a_list_of_maps_is_shown() {
    mistake("        resources:\n", "        resources:\n          claims: [channel]\n", "channel]")
        .says(&["expected a map", "`channel`"]);
    let claims = "        resources:\n          claims: [\"${'channel'}\"]\n";
    mistake("        resources:\n", claims, "\"${'channel'}").says(&["one expression yield the whole list"]);
}

#[test]
fn a_list_for_a_map_is_shown() {
    mistake("    nicsPerGPU:\n", "    nicsPerGPU: []\n    other:\n", "[]").says(&["map"]);
}

#[test]
fn a_string_for_a_map_of_the_pod_is_shown() {
    mistake("      env:", "        livenessProbe: root\n      env:", "root").says(&["map"]);
}

#[test]
fn a_map_for_a_list_of_the_pod_is_shown() {
    let wrong = "- name: nics\n      pod:\n        spec:\n          volumes: {v: {}}";
    mistake("- name: nics", wrong, "{v: {}}").says(&["list"]);
}

#[test]
fn a_string_for_a_boolean_of_the_pod_is_shown() {
    let wrong = "- name: nics\n      pod:\n        spec:\n          hostIPC: sure";
    mistake("- name: nics", wrong, "sure").says(&["`true` or `false`"]);
}

#[test]
fn a_word_for_a_quantity_of_the_pod_is_shown() {
    let wrong = "- name: nics\n      pod:\n        spec:\n          volumes:\n            - name: v\n              emptyDir: {sizeLimit: huge}";
    mistake("- name: nics", wrong, "huge").says(&["quantity"]);
}

#[test]
fn an_unknown_type_of_a_parameter_is_shown() {
    mistake("type: number", "type: numbr", "numbr").says(&["`numbr`", "`number`"]);
}

#[test]
fn a_default_of_another_type_is_shown() {
    mistake("default: 2", "default: couple", "couple").says(&["`nicsPerGPU`", "number"]);
}

#[test]
fn a_default_beyond_the_bounds_is_shown() {
    mistake("default: 2", "default: -2", "-2").says(&["`nicsPerGPU`", "minimum"]);
}

#[test]
fn a_value_by_node_of_another_type_is_shown() {
    mistake("      minimum: 0", "  machines: {pool: {small: {nicsPerGPU: few}}}", "few")
        .says(&["`nicsPerGPU`", "number"]);
}

#[test]
fn an_unknown_way_with_conflicts_is_shown() {
    mistake("- name: nics", "- name: nics\n      onConflict: replce", "replce").says(&["`replace`"]);
}

#[test]
fn a_condition_that_is_no_expression_is_shown() {
    mistake("- name: nics", "- name: nics\n      when: ${gpus > 0}", "${").says(&["write `when: gpus > 0`"]);
    mistake("- name: nics", "- name: nics\n      when: 5", "5").says(&["write a condition"]);
}

/// Every mistake above that is one of type, as the right and the wrong text and where the wrong one shows.
const WRONG_TYPES: &[[&str; 3]] = &[
    ["A policy to try things on", "5", "5"],
    ["FABRIC: lab", "FABRIC: 1.5", "1.5"],
    ["networking: \"true\"", "networking: true", "true"],
    ["[nvidia.com/gpu]", "nvidia.com/gpu", "nvidia.com/gpu"],
    ["    nicsPerGPU:\n", "    nicsPerGPU: []\n    other:\n", "[]"],
    ["      env:", "        livenessProbe: root\n      env:", "root"],
    ["      env:", "        stdin: sure\n      env:", "sure"],
    ["      env:", "        ports: {}\n      env:", "{}"],
    ["      env:", "        ports: [{containerPort: http}]\n      env:", "http"],
    ["example.com/nic: ${devices(gpus, nicsPerGPU)}", "example.com/nic: some", "some"],
    ["default: 2", "default: couple", "couple"],
    ["      minimum: 0", "  machines: {pool: {small: {nicsPerGPU: few}}}", "few"],
    ["      minimum: 0", "      minimum: none", "none"],
];

#[test]
fn a_value_of_the_wrong_type_comes_with_a_hint() {
    let without: Vec<String> = WRONG_TYPES
        .iter()
        .map(|[right, wrong, mark]| mistake(right, wrong, mark).stderr)
        .filter(|message| !message.contains("hint: "))
        .collect();
    assert!(
        without.is_empty(),
        "{} of {} have none:\n{}",
        without.len(),
        WRONG_TYPES.len(),
        without.join("\n")
    );
}

#[test]
fn a_scalar_on_which_the_versions_of_yaml_disagree_is_shown() {
    let wrong = "- name: nics\n      pod:\n        spec:\n          hostIPC: yes";
    mistake("- name: nics", wrong, "yes").says(&["YAML 1.1"]);
}

#[test]
fn a_missing_key_is_named() {
    for (line, key) in [
        ("  provider: lab\n", "`provider`"),
        ("  gpus: {resources: [nvidia.com/gpu]}\n", "`gpus`"),
        ("      description: NICs for each GPU\n", "`description`"),
    ] {
        assert!(POLICY.contains(line));
        with_policy(&POLICY.replacen(line, "", 1), POD).exits(2).writes_nothing().says(&["lab.yaml:", key]);
    }
}
