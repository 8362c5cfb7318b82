//! The options of `mutate` for continuous integration.

use insta::assert_snapshot;

use super::{POD, SETTINGS, TRIGGER, assert_file_snapshot, folder, mutate, run_in};

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
    assert_snapshot!(failed.said(), @"
    stdin: document 1: Pod/trainer: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 8, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
      warning: `efaDevicesPerGPU` is assumed to be 1; set it, or select nodes that a table knows: no table has a value for a pod that selects no `node.kubernetes.io/instance-type`, no `nvidia.com/gpu.product`, nor one of 4 other labels (parameter_assumed)
    error: --fail-on: the report has parameter_assumed (1 in all)
    ");
    // The output is the same.
    assert_eq!(failed.text(), mutate(&AWS, POD).exits(0).text());
    run("--fail-on=warning=kept_env,parameter_assumed", POD, 1);
    run("--fail-on=warning=kept_env", POD, 0);
    run("--fail-on=warning", SETTINGS, 0);
    assert_snapshot!(run("--fail-on=warning", &misspelled(), 1).said(), @r#"
    stdin: document 1: Pod/trainer: unchanged: no policy matches this pod (no_policy_matches)
      near miss: write `nmp.nvidia.com/enable-multi-node-networking: "true"` instead of `nmp.nvidia.com/enable-multi-node-netwroking: "true"` in `metadata.annotations`: no policy reads an annotation with that name (misspelled_trigger)
    error: --fail-on: the report has misspelled_trigger (1 in all)
    "#);
    run("--fail-on=warning=misspelled_trigger", &misspelled(), 1);
    // A warning that a policy declares.
    run("--fail-on=warning=other_fi_provider", POD, 0);
}

#[test]
fn a_quiet_run_fails_as_well() {
    let args = [&AWS[..], &["--quiet", "--fail-on", "warning"]].concat();
    assert_snapshot!(mutate(&args, misspelled()).exits(1).said(), @"error: --fail-on: the report has misspelled_trigger (1 in all)");
}

#[test]
fn a_code_that_no_warning_has_is_bad_usage() {
    let options = [
        "--fail-on=warning=kept_enf",
        "--fail-on=warning=few_gpus",
        "--fail-on=warning=xyz",
        "--fail-on=error",
        "--fail-on=warning=",
    ];
    let answers = options.map(|option| mutate(&[&AWS[..], &[option]].concat(), POD).recorded());
    assert_snapshot!(answers.join("\n"), @"
    exit status: 2
    ----- stderr -----
    error: --fail-on: no warning has the code `kept_enf`
    hint: did you mean `kept_env`?

    exit status: 2
    ----- stderr -----
    error: --fail-on: no warning has the code `few_gpus`
    hint: did you mean `fewer_gpus_than_node`?

    exit status: 2
    ----- stderr -----
    error: --fail-on: no warning has the code `xyz`
    hint: a report has the code of each warning next to it

    exit status: 2
    ----- stderr -----
    error: invalid value 'error' for '--fail-on <warning[=CODE,…]>': write `warning`, or `warning=CODE,…` with the codes of a report

    For more information, try '--help'.

    exit status: 2
    ----- stderr -----
    error: invalid value 'warning=' for '--fail-on <warning[=CODE,…]>': write `warning`, or `warning=CODE,…` with the codes of a report

    For more information, try '--help'.
    ");
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
    assert_snapshot!(run(SETTINGS, 1).said(), @"error: --require-mutated: no pod template is injected");
    assert_snapshot!(run(&unannotated(), 1).said(), @r#"
    stdin: document 1: Pod/trainer: unchanged: no policy matches this pod; to inject it, add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `metadata.annotations` (no_policy_matches)
    error: --require-mutated: no pod template is injected
    "#);
    let left_out = [POD.replace("nvidia.com/gpu", "cpu"), misspelled()];
    let answers = left_out.map(|pod| run(&format!("{POD}---\n{pod}"), 1).said());
    assert_snapshot!(answers.join("\n"), @r#"
    stdin: document 1: Pod/trainer: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 8, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
      warning: `efaDevicesPerGPU` is assumed to be 1; set it, or select nodes that a table knows: no table has a value for a pod that selects no `node.kubernetes.io/instance-type`, no `nvidia.com/gpu.product`, nor one of 4 other labels (parameter_assumed)
    stdin: document 2: Pod/trainer: unchanged: no container requests GPUs, as with `nvidia.com/gpu` or a claim (no_gpu_container)
      near miss: request `nvidia.com/gpu` in `spec.containers[main].resources.limits`: the fabric is for containers with GPUs (no_gpu_request)
    error: --require-mutated: stdin: document 2: Pod/trainer requests the fabric, but is not injected

    stdin: document 1: Pod/trainer: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 8, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
      warning: `efaDevicesPerGPU` is assumed to be 1; set it, or select nodes that a table knows: no table has a value for a pod that selects no `node.kubernetes.io/instance-type`, no `nvidia.com/gpu.product`, nor one of 4 other labels (parameter_assumed)
    stdin: document 2: Pod/trainer: unchanged: no policy matches this pod (no_policy_matches)
      near miss: write `nmp.nvidia.com/enable-multi-node-networking: "true"` instead of `nmp.nvidia.com/enable-multi-node-netwroking: "true"` in `metadata.annotations`: no policy reads an annotation with that name (misspelled_trigger)
    error: --require-mutated: stdin: document 2: Pod/trainer requests the fabric, but is not injected
    "#);
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
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--assume-annotated"], POD);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: --assume-annotated: no policy in use has `match.anyAnnotation`, so there is no annotation to assume
    ");
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
    assert_eq!(run.reports().len(), 4);
    assert_file_snapshot!(run.said());
    let run = mutate(&["--policy", "aws-eva", "--report", "json"], POD).exits(2);
    assert_eq!(run.reports()[0]["code"], "bad_usage");
}
