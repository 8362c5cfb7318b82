//! The report on standard error.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{POD, POLICY, SETTINGS, folder, mutate, run_in};

/// The one report of a run with `--report json`.
#[track_caller]
fn only(run: &super::Run) -> Value {
    let mut reports = run.reports();
    assert_eq!(reports.len(), 1, "{}", run.stderr);
    reports.remove(0)
}

#[test]
fn the_text_names_the_place_the_policy_the_additions_and_every_warning() {
    let pod =
        POD.replace("    resources:", "    env: [{name: NCCL_SOCKET_IFNAME, value: eth9}]\n    resources:");
    let run = mutate(&["--policy", "aws-efa"], format!("---\n{SETTINGS}---\n{pod}")).exits(0);
    assert_snapshot!(run.said(), @"
    stdin: document 2: Pod/trainer: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 8, env NCCL_NET_PLUGIN FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
      warning: `efaDevicesPerGPU` is assumed to be 1; set it, or select nodes that a table knows: no table has a value for a pod that selects no `node.kubernetes.io/instance-type`, no `nvidia.com/gpu.product`, nor one of 4 other labels (parameter_assumed)
      warning: `spec.containers[main].env[NCCL_SOCKET_IFNAME]` stays `eth9`; rule `nccl` would set `^lo,docker,veth,eni,pod-id-link0` (kept_env)
      near miss: write an interface of the pod in `spec.containers[main].env[NCCL_SOCKET_IFNAME].value`, or leave it out: the pod has `eth0` and `lo`, and no `eth9`, so its ranks do not find each other (interface_not_in_pod)
    ");
}

#[test]
fn the_text_has_one_head_line_for_each_template() {
    let run = mutate(&["--policy", "aws-efa", "-f", "tests/workloads/horovod-mpijob.yaml"], "").exits(0);
    assert_snapshot!(run.said(), @r#"
    tests/workloads/horovod-mpijob.yaml: document 1: MPIJob/hvd-vision /spec/mpiReplicaSpecs/Launcher/template: unchanged: no policy matches this pod; to inject it, add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `spec.mpiReplicaSpecs.Launcher.template.metadata.annotations` (no_policy_matches)
    tests/workloads/horovod-mpijob.yaml: document 1: MPIJob/hvd-vision /spec/mpiReplicaSpecs/Worker/template: mutated by aws-efa@<digest>
      + mpi: vpc.amazonaws.com/efa 32, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
    "#);
}

#[test]
fn documents_without_templates_are_not_reported() {
    assert_eq!(mutate(&["--policy", "aws-efa"], SETTINGS).exits(0).stderr, "");
}

#[test]
fn the_json_has_every_key_for_a_mutated_template() {
    let folder = folder(&[("a.yaml", &format!("---\n{SETTINGS}---\n# nothing\n---\n{POD}"))]);
    let args = ["mutate", "--policy", "aws-efa", "--report", "json", "-f", "a.yaml"];
    let report = only(&run_in(folder.path(), &args, "").exits(0));
    assert_eq!(report["file"], "a.yaml");
    assert_eq!(report["document"], 3);
    assert_eq!(report["path"], "");
    assert_eq!(report["outcome"], "mutated");
    assert_eq!(report["policy"], "aws-efa");
    assert_eq!(report.get("reason"), Some(&Value::Null));
    let warnings = report["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{report}");
    assert_eq!(warnings[0]["code"], "parameter_assumed");
    assert!(warnings[0]["path"].is_string());
    assert!(warnings[0]["message"].as_str().unwrap().contains("`efaDevicesPerGPU`"), "{report}");
}

#[test]
fn the_json_gives_the_path_of_a_kept_value() {
    let pod =
        POD.replace("    resources:", "    env: [{name: NCCL_SOCKET_IFNAME, value: eth9}]\n    resources:");
    let args = ["--policy", "aws-efa", "--set", "efaDevicesPerGPU=1", "--report", "json"];
    let report = only(&mutate(&args, &pod).exits(0));
    let warnings = report["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{report}");
    assert_eq!(warnings[0]["code"], "kept_env");
    assert_eq!(warnings[0]["path"], "spec.containers[main].env[NCCL_SOCKET_IFNAME]");
}

#[test]
fn the_json_gives_the_reason_of_an_unchanged_template() {
    let untriggered = POD.replace("\"true\"", "\"false\"");
    let opted_out = POD.replace("annotations:\n", "annotations:\n    disable-rdma-injection: \"true\"\n");
    for (pod, reason) in [
        (POD.replace(super::TRIGGER, "example.com/other"), "no_policy_matches"),
        (untriggered, "trigger_value"),
        (opted_out, "opted_out"),
        (POD.replace("nvidia.com/gpu", "cpu"), "no_gpu_container"),
        (POD.replace("annotations:\n", "annotations:\n    kubernetes.io/config.mirror: a\n"), "mirror_pod"),
    ] {
        let report = only(&mutate(&["--policy", "aws-efa", "--report", "json"], &pod).exits(0));
        assert_eq!(report["outcome"], "unchanged");
        assert_eq!(report["reason"], reason);
        assert_eq!(report["warnings"], json!([]));
        assert!(report.as_object().unwrap().contains_key("policy"), "{report}");
    }
}

#[test]
fn the_json_gives_the_reason_of_a_refused_template() {
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &POLICY.replace("name: lab", "name: other"))]);
    let args = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml", "--report", "json"];
    let report = only(&run_in(folder.path(), &args, POD).exits(1));
    assert_eq!(
        (&report["outcome"], &report["reason"]),
        (&json!("refused"), &json!("several_policies_match"))
    );
}

#[test]
fn the_report_does_not_depend_on_the_form_of_the_output() {
    let text = mutate(&["--policy", "aws-efa"], POD).exits(0).stderr;
    for format in ["yaml", "json", "patch", "diff", "review"] {
        assert_eq!(mutate(&["--policy", "aws-efa", "-o", format], POD).exits(0).stderr, text, "{format}");
    }
}
