//! The options of `mutate` for continuous integration.

use serde_json::{Value, json};

use super::{POD, SETTINGS, TRIGGER, folder, mutate, run_in};

const AWS: [&str; 2] = ["--policy", "aws-efa"];

fn unannotated() -> String {
    POD.replace(&format!("  annotations:\n    {TRIGGER}: \"true\"\n"), "")
}

fn misspelled() -> String {
    POD.replace("networking", "netwroking")
}

#[test]
fn a_warning_fails_the_run_if_it_is_to() {
    // The number of interfaces is assumed.
    let run = |option: &str, stream: &str, status: i32| {
        mutate(&[&AWS[..], &[option]].concat(), stream).exits(status)
    };
    let failed = run("--fail-on=warning", POD, 1);
    failed.says(&["error: --fail-on: the report has parameter_assumed (1 in all)"]);
    // The output is the same.
    assert_eq!(failed.text(), mutate(&AWS, POD).exits(0).text());
    run("--fail-on=warning=kept_env,parameter_assumed", POD, 1);
    run("--fail-on=warning=kept_env", POD, 0);
    run("--fail-on=warning", SETTINGS, 0);
    run("--fail-on=warning", &misspelled(), 1).says(&["misspelled_trigger"]);
    run("--fail-on=warning=misspelled_trigger", &misspelled(), 1);
    // A warning that a policy declares.
    run("--fail-on=warning=other_fi_provider", POD, 0);
}

#[test]
fn a_quiet_run_fails_as_well() {
    let args = [&AWS[..], &["--quiet", "--fail-on", "warning"]].concat();
    mutate(&args, misspelled()).exits(1).says(&["--fail-on: the report has misspelled_trigger (1 in all)"]);
}

#[test]
fn a_code_that_no_warning_has_is_bad_usage() {
    for (option, part) in [
        ("--fail-on=warning=kept_enf", "`kept_enf`"),
        ("--fail-on=error", "warning=CODE"),
        ("--fail-on=warning=", "warning=CODE"),
    ] {
        mutate(&[&AWS[..], &[option]].concat(), POD).exits(2).writes_nothing().says(&[part]);
    }
}

#[test]
fn a_run_that_has_to_inject_fails_for_what_asks_and_is_left_out() {
    let run = |stream: &str, status: i32| {
        mutate(&[&AWS[..], &["--require-mutated"]].concat(), stream).exits(status)
    };
    run(POD, 0);
    run(&format!("{POD}---\n{SETTINGS}---\n{}", unannotated()), 0);
    // An earlier run has injected the pod.
    run(mutate(&AWS, POD).exits(0).text(), 0);
    run(SETTINGS, 1).says(&["--require-mutated: no pod template is injected"]);
    run(&unannotated(), 1).says(&["no pod template is injected"]);
    let left_out = "stdin: document 2: Pod/trainer requests the fabric, but is not injected";
    run(&format!("{POD}---\n{}", POD.replace("nvidia.com/gpu", "cpu")), 1).says(&[left_out]);
    run(&format!("{POD}---\n{}", misspelled()), 1).says(&[left_out]);
    // Who turns the fabric off does not ask for it.
    let off = POD.replace("\"true\"", "\"false\"");
    let opted_out = POD.replace("annotations:\n", "annotations:\n    disable-rdma-injection: \"true\"\n");
    run(&format!("{POD}---\n{off}---\n{opted_out}"), 0);
}

#[test]
fn templates_without_the_annotation_are_injected_as_if_they_had_it() {
    let args = [&AWS[..], &["--assume-annotated", "-o", "json"]].concat();
    let assumed = mutate(&args, unannotated()).exits(0);
    let mut annotated = mutate(&[&AWS[..], &["-o", "json"]].concat(), POD).exits(0).values().remove(0);
    annotated["metadata"]["annotations"].as_object_mut().unwrap().shift_remove(TRIGGER);
    assert_eq!(assumed.values()[0], annotated);
    // The result is final.
    let again = mutate(&args, assumed.text()).exits(0);
    again.says(&["nothing_to_add"]);
    assert_eq!(again.values()[0], annotated);
    // Without the option, a later run finds the stamp of the policy as it is.
    let required = |options: &[&str], status: i32| {
        mutate(&[&AWS[..], &["--require-mutated"], options].concat(), assumed.text()).exits(status)
    };
    required(&[], 0);
    required(&["--set", "efaDevicesPerGPU=2"], 1).says(&["no pod template is injected"]);
    // A pod that turns the fabric off, or has no GPUs, stays as it is.
    for pod in [POD.replace("\"true\"", "\"false\""), unannotated().replace("nvidia.com/gpu", "cpu")] {
        let run = mutate(&[&AWS[..], &["--assume-annotated"]].concat(), &pod).exits(0);
        assert_eq!(run.text(), pod);
        assert!(!run.stderr.contains("near miss"), "{}", run.stderr);
    }
}

#[test]
fn without_an_annotation_to_assume_that_is_bad_usage() {
    let policy = super::POLICY.replace(
        "    anyAnnotation:\n      nmp.nvidia.com/enable-multi-node-networking: \"true\"\n",
        "    labels: {a: b}\n",
    );
    let folder = folder(&[("lab.yaml", &policy)]);
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--assume-annotated"], POD).exits(2);
    run.says(&["--assume-annotated", "anyAnnotation"]);
}

#[test]
fn errors_are_json_lines_if_the_report_is() {
    let folder = folder(&[("a.yaml", "a: [\n"), ("b.yaml", POD)]);
    let args = [
        "mutate",
        "--policy",
        "aws-efa",
        "--report",
        "json",
        "--fail-on",
        "warning",
        "-f",
        "a.yaml",
        "-f",
        "b.yaml",
        "-f",
        "c.yaml",
    ];
    let run = run_in(folder.path(), &args, "").exits(2);
    let lines: Vec<Value> = run.reports();
    let errors: Vec<&Value> = lines.iter().filter(|line| line["outcome"] == "error").collect();
    let found: Vec<_> =
        errors.iter().map(|error| (&error["code"], &error["file"], &error["document"])).collect();
    assert_eq!(
        found,
        [
            (&json!("bad_document"), &json!("a.yaml"), &json!(1)),
            (&json!("unreadable_file"), &Value::Null, &Value::Null),
            (&json!("fail_on"), &Value::Null, &Value::Null),
        ]
    );
    assert!(errors.iter().all(|error| error["message"].as_str().is_some_and(|text| !text.is_empty())));
    assert_eq!(lines.len(), 4);
    let run = mutate(&["--policy", "aws-eva", "--report", "json"], POD).exits(2);
    assert_eq!(run.reports()[0]["code"], "bad_usage");
}
