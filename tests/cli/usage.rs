//! How the program is called, and how it ends.

use std::fs;

use insta::assert_snapshot;

use super::{
    POD, POLICY, SETTINGS, assert_file_snapshot, aws, folder, mutate, refusing, run, run_in, sections,
};

const BUILT_IN: [&str; 4] = ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"];

#[test]
fn the_status_is_0_when_something_changed() {
    let run = aws(&[], POD).exits(0);
    assert_ne!(run.text(), POD);
}

#[test]
fn the_status_is_0_when_nothing_changed() {
    let run = aws(&[], SETTINGS).exits(0);
    assert_eq!(run.text(), SETTINGS);
}

#[test]
fn the_status_is_1_when_a_pod_was_refused() {
    let folder = folder(&[("lab.yaml", &refusing())]);
    let pod = POD.replace("    resources:", "    env: [{name: FABRIC, value: mine}]\n    resources:");
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml"], &pod);
    assert_snapshot!(run.recorded(), @"
    exit status: 1
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: `spec.containers[main].env[FABRIC]`: `FABRIC` is `mine`; remove it (other_fabric)
    ");
}

#[test]
fn the_status_is_1_when_two_policies_match_and_both_are_named() {
    let folder = folder(&[
        ("lab.yaml", POLICY),
        ("other.yaml", &POLICY.replace("name: lab", "name: other")),
        ("pod.yaml", POD),
    ]);
    let args = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml", "-f", "pod.yaml"];
    assert_snapshot!(run_in(folder.path(), &args, "").recorded(), @"
    exit status: 1
    ----- stderr -----
    pod.yaml: document 1: Pod/trainer: refused: the policies `lab`, `other` all match this pod, but only one can inject it; make their conditions (`match.when`) exclude each other, or load only one of them (several_policies_match)
    ");
}

#[test]
fn other_documents_are_served_beside_a_refused_one() {
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &POLICY.replace("name: lab", "name: other"))]);
    let stream = format!("{SETTINGS}---\n{POD}---\n{SETTINGS}");
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--policy", "other.yaml"], &stream);
    let run = run.exits(1);
    assert_eq!(run.documents().len(), 2, "{}", run.text());
    assert!(run.documents().iter().all(|document| document["kind"] == "ConfigMap"));
}

#[test]
fn the_status_is_2_for_bad_input_also_beside_a_refused_pod() {
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &POLICY.replace("name: lab", "name: other"))]);
    let run = |stream: String| {
        run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--policy", "other.yaml"], stream)
    };
    assert_snapshot!(run(format!("{POD}---\na: [\n")).recorded(), @"
    exit status: 2
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: the policies `lab`, `other` all match this pod, but only one can inject it; make their conditions (`match.when`) exclude each other, or load only one of them (several_policies_match)
    error: stdin: document 2: line 16, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 15
    ");
    assert_snapshot!(run(format!("a: [\n---\n{POD}")).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
    stdin: document 2: Pod/trainer: refused: the policies `lab`, `other` all match this pod, but only one can inject it; make their conditions (`match.when`) exclude each other, or load only one of them (several_policies_match)
    ");
}

#[test]
fn the_status_is_2_for_bad_usage() {
    let answers = [
        &["mutate", "--polici", "aws-efa"][..],
        &["mutate", "--policy", "aws-efa", "-o", "toml"],
        &["mutate", "--policy", "aws-efa", "--report", "xml"],
        &["mutate", "--policy"],
        &["mutat"],
        &[],
    ]
    .map(|args| (args.join(" "), run(args, POD).recorded()));
    assert_file_snapshot!(sections(answers));
}

#[test]
fn the_statuses_are_documented_in_the_help() {
    let run = run(&["mutate", "--help"], "").exits(0);
    assert_eq!(run.stderr, "");
    let help = run.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["Exit status: 0 done", "1 a pod was refused", "2 bad usage, input or policy"] {
        assert!(help.contains(part), "no `{part}` in {help}");
    }
    for option in ["-f", "--policy", "--values", "--set", "-o", "--report", "--quiet"] {
        assert!(help.contains(option), "no `{option}` in {help}");
    }
}

#[test]
fn help_and_version_are_data() {
    for args in [&["--help"][..], &["--version"], &["policy", "--help"]] {
        let run = run(args, "").exits(0);
        assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn without_a_policy_the_built_in_ones_are_listed() {
    assert_snapshot!(mutate(&[], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: no policy is named; use `--policy NAME`, or `--values FILE` with a provider enabled
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
}

#[test]
fn a_policy_is_named_by_its_built_in_name() {
    for name in BUILT_IN {
        let run = mutate(&["--policy", name], POD).exits(0);
        run.says(&["mutated", name]);
        assert_ne!(run.text(), POD);
    }
}

#[test]
fn a_policy_is_named_by_the_path_of_its_file() {
    let folder = folder(&[("lab.yaml", POLICY), ("lab", POLICY)]);
    let absolute = folder.path().join("lab.yaml");
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::copy(&absolute, folder.path().join("sub/lab.yaml")).unwrap();
    for path in ["lab.yaml", "lab", "./lab.yaml", "sub/lab.yaml", absolute.to_str().unwrap()] {
        let run = run_in(folder.path(), &["mutate", "--policy", path, "-q", "-o", "json"], POD).exits(0);
        assert_eq!(super::limits(&run.values()[0])["example.com/nic"], "16", "{path}");
    }
}

#[test]
fn an_unknown_policy_is_named_and_the_built_in_ones_are_listed() {
    assert_snapshot!(mutate(&["--policy", "unknown"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: there is no built-in policy `unknown`, nor a file or folder of that name
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
}

#[test]
fn a_missing_policy_file_is_named() {
    assert_snapshot!(mutate(&["--policy", "nowhere/lab.yaml"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: nowhere/lab.yaml cannot be read: No such file or directory (os error 2)
    ");
    let folder = folder(&[("pods/pod.yaml", POD)]);
    let run = run_in(folder.path(), &["mutate", "--policy", "pods/"], POD);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: pods/ has no policy in it; a policy has `kind: FabricPolicy`
    hint: not used, no policies: pods/pod.yaml (Pod)
    ");
}

#[test]
fn two_policies_of_one_provider_may_be_in_use() {
    let second = POLICY.replace("name: lab", "name: other").replace(super::TRIGGER, "example.com/other");
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &second)]);
    let stream = format!("{POD}---\n{}", POD.replace(super::TRIGGER, "example.com/other"));
    let args =
        ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml", "--report", "json", "-o", "patch"];
    let run = run_in(folder.path(), &args, &stream).exits(0);
    let policies: Vec<_> = run.reports().iter().map(|report| report["policy"].clone()).collect();
    assert_eq!(policies, ["lab", "other"]);
}

#[test]
fn two_policies_of_different_providers_are_bad_usage() {
    assert_snapshot!(mutate(&["--policy", "aws-efa", "--policy", "oci-sriov"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: policy `aws-efa` is for `aws` and `oci-sriov` for `oci`; one provider at a time
    ");
}

#[test]
fn quiet_silences_the_report_and_not_the_errors() {
    for quiet in ["--quiet", "-q"] {
        assert_eq!(mutate(&["--policy", "aws-efa", quiet], POD).exits(0).stderr, "");
        mutate(&["--policy", "aws-efa", quiet], "a: [").exits(2).says(&["error", "document 1"]);
    }
}

#[test]
fn a_file_without_its_option_is_an_error_that_names_the_option() {
    let answers = [
        &["mutate", "job.yaml"][..],
        &["mutate", "--policy", "aws-efa", "job.yaml"],
        &["lint", "--policy", "aws-efa", "job.yaml"],
        &["nodes", "job.yaml"],
    ]
    .map(|args| (args.join(" "), run(args, POD).recorded()));
    assert_file_snapshot!(sections(answers));
}

#[test]
fn an_option_for_a_file_that_is_an_argument_is_an_error_that_says_so() {
    let answers = [
        &["policy", "check", "-f", "lab.yaml"][..],
        &["policy", "check", "--filename", "lab.yaml"],
        &["policy", "test", "-f", "lab.yaml"],
        &["policy", "show", "-f", "lab.yaml"],
        // Has no advice of ours.
        &["serve", "x"],
    ]
    .map(|args| (args.join(" "), run(args, "").recorded()));
    assert_file_snapshot!(sections(answers));
}
