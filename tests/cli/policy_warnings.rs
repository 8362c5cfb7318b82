//! `policy check`: mistakes in policies that load, and errors in the types of expressions.

use serde_json::Value;

use super::policy_errors::with_policy;
use super::{POD, POLICY, ROOT, folder, run, run_in};

/// The severity and the code of everything found in the sample policy with a part of it replaced, each with its line.
fn found(right: &str, wrong: &str) -> Vec<(String, String, String)> {
    assert!(POLICY.contains(right), "the sample policy has no `{right}`");
    let folder = folder(&[("lab.yaml", &POLICY.replacen(right, wrong, 1))]);
    let run = run_in(folder.path(), &["policy", "check", "-o", "json", "lab.yaml"], "");
    let all: Vec<Value> = serde_json::from_slice(&run.stdout).unwrap();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().trim().to_owned();
    all.iter().map(|one| (text(one, "severity"), text(one, "code"), text(one, "source"))).collect()
}

#[test]
fn a_mistake_is_reported_at_its_line() {
    let rule = "- name: nics";
    for (right, wrong, severity, code, line) in [
        (
            rule,
            "- name: nics\n      when: hostNetwork == 'true'",
            "warning",
            "unlike_types",
            "when: hostNetwork == 'true'",
        ),
        (
            rule,
            "- name: nics\n      when: >-\n        hostNetwork ||\n        node[?'pool'].orValue('') == 'H100'",
            "warning",
            "always_false",
            "node[?'pool'].orValue('') == 'H100'",
        ),
        (
            rule,
            "- name: nics\n      when: totalGpus >= '8'",
            "error",
            "sample_failed",
            "when: totalGpus >= '8'",
        ),
        (
            rule,
            "- name: nics\n      when: has(pod.spec.contaners)",
            "error",
            "type_mismatch",
            "when: has(pod.spec.contaners)",
        ),
        ("FABRIC: lab", "FABRIC: \"${[1, 2]}\"", "error", "type_mismatch", "FABRIC: \"${[1, 2]}\""),
        (
            "add: [IPC_LOCK]",
            "add: [NET_RAW]",
            "warning",
            "device_without_ipc_lock",
            "example.com/nic: ${devices(gpus, nicsPerGPU)}",
        ),
        (
            "  rules:",
            "  variables: {spare: x}\n  rules:",
            "warning",
            "unused_variable",
            "variables: {spare: x}",
        ),
    ] {
        let expected = (severity.to_owned(), code.to_owned(), line.to_owned());
        assert_eq!(found(right, wrong), [expected], "{wrong}");
    }
}

#[test]
fn a_type_error_under_a_condition_that_no_sample_meets_keeps_a_policy_from_loading() {
    let policy = POLICY
        .replacen(
            "- name: nics",
            "- name: nics\n      when: pod.metadata.?labels[?'team'].orValue('').startsWith('x')",
            1,
        )
        .replacen("devices(gpus, nicsPerGPU)", "gpus * nicsPerGPU", 1);
    with_policy(&policy, POD).exits(2).says(&[
        "`*` does not take `int` and `double`",
        "lab.yaml:25:32",
        "use `devices(gpus, ratio)`",
    ]);
}

#[test]
fn a_warning_does_not_keep_a_policy_from_loading() {
    with_policy(&POLICY.replacen("  rules:", "  variables: {spare: x}\n  rules:", 1), POD).exits(0);
}

#[test]
fn the_built_in_policies_have_no_warning() {
    let folder = format!("{ROOT}/policies");
    run(&["policy", "check", &folder], "").exits(0).says(&["0 errors and 0 warnings"]);
}
