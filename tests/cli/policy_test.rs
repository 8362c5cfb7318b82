//! `fabric-injector policy test`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;
use tempfile::TempDir;

use super::{POLICY, ROOT, Run, assert_file_snapshot, command, file, place, run_in};

const HEAD: &str = "apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\npolicy: ../lab.yaml\n";

/// A pod with 8 GPUs, for all cases of a file.
const GPU_POD: &str = r#"pod:
  metadata: {annotations: {nmp.nvidia.com/enable-multi-node-networking: "true"}}
  spec:
    containers:
      - name: main
        image: registry.example/train:1
        resources: {limits: {nvidia.com/gpu: 8}}
"#;

/// A folder with the sample policy and these cases of it, each the lines of a list item.
pub(crate) fn lab(cases: &[&str]) -> TempDir {
    let folder = super::folder(&[("lab.yaml", POLICY)]);
    fs::create_dir(folder.path().join("tests")).unwrap();
    write(&folder, "tests/lab.yaml", &(HEAD.to_owned() + GPU_POD + "cases:\n" + &cases.concat()));
    folder
}

pub(crate) fn write(folder: &TempDir, path: &str, text: &str) {
    fs::write(folder.path().join(path), text).unwrap();
}

pub(crate) fn test(folder: &TempDir, args: &[&str]) -> Run {
    run_in(folder.path(), &[&["policy", "test"], args].concat(), "")
}

pub(crate) const PASSES: &str = "  - name: eight GPUs\n    expect: {outcome: mutated, warnings: [], has: {spec: {containers: [{name: main, env: [{name: FABRIC, value: lab}]}]}}}\n";
pub(crate) const NO_GPUS: &str = "  - name: none\n    with: {spec: {containers: [{name: main, resources: null}]}}\n    expect: {outcome: unchanged}\n";
const FAILS: &str = "  - name: too many\n    expect:\n      has:\n        spec:\n          containers:\n            - name: main\n              resources: {limits: {example.com/nic: 99}}\n";

#[test]
fn the_cases_of_the_repository_pass_and_cover_its_policies() {
    // Without the limit of the other runs: it compiles each policy with all parameters of its cases.
    let output =
        command(Path::new(ROOT)).args(["policy", "test", "policies", "--require-coverage"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with(" passed, 0 failed\n"), "{text}");
    for policy in fs::read_dir(Path::new(ROOT).join("policies")).unwrap() {
        let policy = policy.unwrap().path();
        if policy.is_file() {
            let cases = format!("policies/tests/{}: ", policy.file_name().unwrap().to_str().unwrap());
            assert!(text.contains(&cases), "{cases}");
        }
    }
}

#[test]
fn a_case_that_fails_shows_only_what_differs() {
    assert_snapshot!(test(&lab(&[PASSES, FAILS]), &[]).recorded(), @"
    exit status: 1
    ----- stdout -----
    ok    tests/lab.yaml: eight GPUs
    FAIL  tests/lab.yaml:14: too many
            spec.containers[main].resources.limits[example.com/nic]
          -   99
          +   16
    1 passed, 1 failed
    ");
}

#[test]
fn every_format_has_each_case_and_difference() {
    let folder = lab(&[PASSES, FAILS]);
    let report = test(&folder, &["-o", "json"]).exits(1).values().remove(0);
    assert_eq!((&report["passed"], &report["failed"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(report["cases"][0]["passed"], true);
    assert_eq!(report["cases"][1]["differences"][0]["expected"], "99");
    assert_eq!(report["cases"][1]["differences"][0]["actual"], "16");
    let junit = test(&folder, &["-o", "junit"]).exits(1);
    assert!(junit.text().contains("<testsuites tests=\"2\" failures=\"1\">"), "{}", junit.text());
    assert!(junit.text().contains("name=\"eight GPUs\" time=\"0."), "{}", junit.text());
    assert!(junit.text().contains("<failure message="), "{}", junit.text());
    let (line, ..) = place(&fs::read_to_string(folder.path().join("tests/lab.yaml")).unwrap(), "too many");
    let github = test(&folder, &["-o", "github"]).exits(1);
    let command =
        format!("::error file=tests/lab.yaml,line={line},col=1,endColumn=2,title=case_failed::too many%0A");
    assert!(github.text().starts_with(&command), "{}", github.text());
    assert_eq!(github.text().lines().count(), 1);
    let sarif = test(&folder, &["-o", "sarif", "--require-coverage"]).exits(1).values().remove(0);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results[0]["ruleId"], "case_failed");
    assert_eq!(results[0]["locations"][0]["physicalLocation"]["region"]["startLine"], line);
    let uncovered = results.iter().find(|result| result["ruleId"] == "not_covered").unwrap();
    let place_of = &uncovered["locations"][0]["physicalLocation"];
    assert_eq!(place_of["artifactLocation"]["uri"], "lab.yaml");
    assert_eq!(place_of["region"]["startLine"], place(POLICY, "name: nics").0);
    test(&folder, &["-o", "github", "--filter", "eight"]).exits(0).writes_nothing();
}

#[test]
fn a_filter_selects_cases_by_file_and_name() {
    let folder = lab(&[PASSES, FAILS]);
    assert!(test(&folder, &["--filter", "eight"]).exits(0).text().ends_with("1 passed, 0 failed\n"));
    assert!(test(&folder, &["--filter", "tests/lab"]).exits(1).text().ends_with("1 passed, 1 failed\n"));
    assert_snapshot!(test(&folder, &["--filter", "nine"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: no case has `nine` in its file and name
    ");
    assert_snapshot!(run_in(folder.path(), &["policy", "explain", "tests/lab.yaml"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: tests/lab.yaml has cases of policies
    hint: `fabric-injector policy test tests/lab.yaml` runs them
    ");
}

#[test]
fn outcomes_reasons_and_warnings_are_compared() {
    let reason = "    expect: {outcome: unchanged, reason: no_gpu_container}\n";
    let without = "    with: {spec: {containers: [{name: main, resources: null}]}}\n";
    let kept = "    with: {spec: {containers: [{name: main, env: [{name: FABRIC, value: own}]}]}}\n";
    let folder = lab(&[
        "  - name: a\n",
        without,
        reason,
        "  - name: b\n",
        reason,
        "  - name: c\n",
        kept,
        "    expect: {warnings: [kept_env]}\n",
        "  - name: d\n",
        kept,
        "    expect: {warnings: []}\n",
    ]);
    assert_snapshot!(test(&folder, &[]).recorded(), @"
    exit status: 1
    ----- stdout -----
    ok    tests/lab.yaml: a
    FAIL  tests/lab.yaml:15: b
            outcome
          -   unchanged
          +   mutated
            reason
          -   no_gpu_container
          +   no reason, since the pod is mutated
    ok    tests/lab.yaml: c
    FAIL  tests/lab.yaml:20: d
            warnings
          -   []
          +   [kept_env]
    2 passed, 2 failed
    ");
}

#[test]
fn each_template_of_a_workload_has_its_expectation() {
    let workload = "    workload: ../../mpi.yaml\n";
    let launcher = "      - {template: /spec/mpiReplicaSpecs/Launcher/template, outcome: unchanged}\n";
    let worker = "      - {template: /spec/mpiReplicaSpecs/Worker/template, outcome: mutated}\n";
    let folder = lab(&[
        "  - name: both\n",
        workload,
        "    expect:\n",
        launcher,
        worker,
        "  - name: the rest\n",
        workload,
        "    expect:\n",
        launcher,
        "      - {outcome: mutated}\n",
        "  - name: one is missing\n",
        workload,
        "    expect:\n",
        worker,
    ]);
    let root = tempfile::tempdir().unwrap();
    fs::rename(folder.path(), root.path().join("lab")).unwrap();
    fs::copy(Path::new(ROOT).join("tests/workloads/nim-mpijob.yaml"), root.path().join("mpi.yaml")).unwrap();
    assert_snapshot!(run_in(root.path(), &["policy", "test", "lab"], "").recorded(), @"
    exit status: 1
    ----- stdout -----
    ok    lab/tests/lab.yaml: both
    ok    lab/tests/lab.yaml: the rest
    FAIL  lab/tests/lab.yaml:22: one is missing
            /spec/mpiReplicaSpecs/Launcher/template
          -   an expectation for this pod template
    2 passed, 1 failed
    ");
}

#[test]
fn update_rewrites_what_cases_declare_and_nothing_else() {
    let cases = [
        "  # A comment.\n  - name: patch   # kept\n    expect:\n      outcome: refused   # wrong\n      patch: []\n\n",
        "  - name: object\n    with: {spec: {containers: [{name: main, env: [{name: FABRIC, value: own}]}]}}\n    expect:\n      warnings: []   # none\n      object:\n        spec: {}\n      # The end.\n",
        "  - {name: flow, expect: {outcome: unchanged, reason: opted_out, warnings: [replaced, kept_env]}}\n",
        "  - name: patch in braces\n    expect: {patch: [{op: test, path: /a}]}   # braces\n",
        "  - {name: fields, expect: {lacks: [metadata.name], has: {spec: {hostNetwork: true}}}}\n",
    ];
    let folder = lab(&cases);
    let path = folder.path().join("tests/lab.yaml");
    let before = fs::read_to_string(&path).unwrap();
    test(&folder, &[]).exits(1);
    let run = test(&folder, &["--update"]);
    let after = fs::read_to_string(&path).unwrap();
    for kept in [
        "  # A comment.\n  - name: patch   # kept\n",
        "      outcome: mutated   # wrong\n",
        "      warnings:   # none\n        - kept_env\n",
        "      # The end.\n",
    ] {
        assert!(after.contains(kept), "no `{kept}` in\n{after}");
    }
    assert!(after.starts_with(before.split("cases:").next().unwrap()), "{after}");
    assert!(after.contains("        fabric-injector.io/injected: lab@*\n"), "{after}");
    assert!(after.contains("  - {name: flow, expect: {outcome: mutated, warnings: []}}\n"), "{after}");
    assert!(after.contains("   # braces\n"), "{after}");
    let run = run.exits(1);
    assert!(run.text().ends_with("4 passed, 1 failed\n"), "{}", run.text());
    run.says(&[": fields: edit `has`, `lacks`"]);
    let again = test(&folder, &["--update"]).exits(1);
    assert!(again.text().ends_with("4 passed, 1 failed\n"), "{}", again.text());
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
}

#[test]
fn update_replaces_a_file_in_one_step() {
    let folder = lab(&["  - {name: patch, expect: {outcome: refused}}\n"]);
    let path = folder.path().join("tests/lab.yaml");
    let before = fs::read_to_string(&path).unwrap();
    let other = folder.path().join("old");
    fs::hard_link(&path, &other).unwrap();
    test(&folder, &["--update"]).exits(0);
    assert_ne!(fs::read_to_string(&path).unwrap(), before);
    assert_eq!(fs::read_to_string(&other).unwrap(), before, "it is written anew, and not over the old one");
}

#[test]
fn a_code_that_no_result_has_is_an_error() {
    let answers = ["reason: no_gpu_containr", "warnings: [kept_enf]", "outcome: mutatet"].map(|expect| {
        let case = format!("  - name: code\n    expect:\n      {expect}\n");
        test(&lab(&[&case]), &[]).recorded()
    });
    assert_file_snapshot!(answers.join("\n"));
    // The requests of a template are in the `spec` of its `spec`.
    let claim =
        "{kind: ResourceClaimTemplate, metadata: {name: a}, spec: {devices: {requests: [{name: a}]}}}";
    let case =
        format!("  - name: claim\n    context: {{claims: [{claim}]}}\n    expect: {{outcome: mutated}}\n");
    assert_snapshot!(test(&lab(&[&case]), &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: an entry of `claims` is no object that says what claims bring
      --> tests/lab.yaml:13:24
       |
    13 |     context: {claims: [{kind: ResourceClaimTemplate, metadata: {name: a}, spec: {devices: {requests: [{name: a}]}}}]}
       |                        ^
       |
       = hint: write one with a name, a `kind` of `ResourceClaim`, `ResourceClaimTemplate`, `ComputeDomain`, `DeviceClass`, and its `devices.requests` as the API has them
    ");
}

#[test]
fn a_reason_that_differs_is_shown_with_the_one_that_comes_out() {
    let run = test(&lab(&["  - {name: reason, expect: {reason: opted_out}}\n"]), &[]);
    assert_snapshot!(run.recorded(), @"
    exit status: 1
    ----- stdout -----
    FAIL  tests/lab.yaml:12: reason
            reason
          -   opted_out
          +   no reason, since the pod is mutated
    0 passed, 1 failed
    ");
    let other =
        "  - name: reason\n    with: {metadata: {annotations: null}}\n    expect: {reason: opted_out}\n";
    assert_snapshot!(test(&lab(&[other]), &[]).recorded(), @"
    exit status: 1
    ----- stdout -----
    FAIL  tests/lab.yaml:12: reason
            reason
          -   opted_out
          +   no_policy_matches (no policy matches this pod)
    0 passed, 1 failed
    ");
}

#[test]
fn a_number_is_no_string_of_its_digits() {
    let number = "{spec: {containers: [{name: main, env: [{name: FABRIC, value: 1}]}]}}";
    let case = |expect: &str| format!("  - {{name: number, expect: {expect}}}\n");
    assert_snapshot!(test(&lab(&[&case(&format!("{{has: {number}}}"))]), &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: a pod has a string here, and this is the number `1`
      --> tests/lab.yaml:12:96
       |
    12 |   - {name: number, expect: {has: {spec: {containers: [{name: main, env: [{name: FABRIC, value: 1}]}]}}}}
       |                                                                                                ^
       |
       = hint: put it in quotes
    ");
    let object = format!(
        "  - name: number\n    with: {}\n    expect: {{object: {number}}}\n",
        number.replace("value: 1", "value: \"1\"")
    );
    assert_file_snapshot!(test(&lab(&[&object]), &[]).recorded());
}

#[test]
fn a_file_of_another_kind_has_one_error_and_manifests_next_to_policies_none() {
    let folder = lab(&[PASSES]);
    assert_snapshot!(test(&folder, &["lab.yaml"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `kind` is `FabricPolicy`, so the file has no cases
     --> lab.yaml:2:7
      |
    2 | kind: FabricPolicy
      |       ^^^^^^^^^^^^
      |
      = hint: the cases of a policy are in the folder `tests` next to it: name its folder
    ");
    write(&folder, "job.yaml", "apiVersion: batch/v1\nkind: Job\nspec: {}\n");
    assert_snapshot!(test(&folder, &["job.yaml"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `kind` is `Job`, so the file has no cases
     --> job.yaml:2:7
      |
    2 | kind: Job
      |       ^^^
      |
      = hint: a file of cases has `kind: PolicyTest`
    ");
    test(&folder, &[]).exits(0);
}

#[test]
fn files_that_no_case_uses_fail() {
    let folder = lab(&[PASSES]);
    fs::create_dir(folder.path().join("tests/workloads")).unwrap();
    write(&folder, "tests/workloads/old.yaml", "kind: Job\n");
    assert_snapshot!(test(&folder, &[]).recorded(), @"
    exit status: 1
    ----- stdout -----
    ok    tests/lab.yaml: eight GPUs
    FAIL  tests/workloads/old.yaml: no case uses this file
    1 passed, 0 failed, 1 not used
    ");
}

#[test]
fn the_cases_of_ported_policies_pass() {
    let folder = Path::new(ROOT).join("tests/policies/ported");
    let run = run_in(&folder, &["policy", "test", ".", "--require-coverage=rules"], "").exits(0);
    assert!(run.text().ends_with("36 passed, 0 failed\n"), "{}", run.text());
}

#[test]
fn a_policy_in_place_of_cases_has_a_located_error() {
    let folder = super::folder(&[("lab.yaml", POLICY)]);
    assert_snapshot!(test(&folder, &["lab.yaml"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `kind` is `FabricPolicy`, so the file has no cases
     --> lab.yaml:2:7
      |
    2 | kind: FabricPolicy
      |       ^^^^^^^^^^^^
      |
      = hint: the cases of a policy are in the folder `tests` next to it: name its folder
    ");
}

#[test]
fn a_broken_file_of_cases_is_an_error_at_its_line() {
    let answers = [
        "  - {name: a, expct: {outcome: mutated}}\n",
        "  - {name: a, expect: {outcme: mutated}}\n",
        "  - {name: a, expect: {outcome: mutate}}\n",
        "  - {name: a, expect: {}}\n",
        "  - {name: a, expect: {lacks: []}}\n",
        "  - {name: a, expect: {has: {spec: {volumes: []}}}}\n",
        "  - {name: a, expect: {has: {spec: {volume: []}}}}\n",
        "  - {name: a, expect: {lacks: [spec.volume]}}\n",
        "  - {name: a, with: {spec: {hostNetwrk: true}}, expect: {outcome: mutated}}\n",
        "  - {name: a, expect: {outcome: mutated}}\n  - {name: a, expect: {outcome: mutated}}\n",
        "  - {name: a, parameters: {nicsPerGP: 1}, expect: {outcome: mutated}}\n",
        "  - {name: a, parameters: {nicsPerGPU: -1}, expect: {outcome: mutated}}\n",
        "  - {name: a, policy: ../lib.yaml, expect: {outcome: mutated}}\n",
        "  - {name: a, workload: none.yaml, expect: {outcome: mutated}}\n",
        "  - {name: a, workload: none.yaml, pod: {}, expect: {outcome: mutated}}\n",
        "  - {name: a, values: {lob: {enabled: true}}, expect: {outcome: mutated}}\n",
        "  []\n",
    ]
    .map(|cases| test(&lab(&[cases]), &[]).recorded());
    assert_file_snapshot!(answers.join("\n"));
}

#[test]
fn a_folder_without_cases_is_bad_usage() {
    let folder = super::folder(&[("lab.yaml", POLICY)]);
    assert_snapshot!(test(&folder, &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: . has no cases; a file of cases is in the folder `tests` and has `kind: PolicyTest`
    ");
    assert_snapshot!(test(&folder, &["nothing"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: nothing cannot be read: No such file or directory (os error 2)
    ");
}

/// The blocks of a language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = file(document);
    let start = format!("```{language}\n");
    let blocks = text.split(&start).skip(1);
    blocks.map(|block| block.split_once("```").expect("a block ends").0.to_owned()).collect()
}

#[test]
fn the_cases_of_the_document_pass() {
    let examples = blocks("docs/testing-policies.md", "yaml");
    let (first, others) = examples.split_first().unwrap();
    assert!(first.starts_with("apiVersion:") && !others.is_empty());
    let folder = super::folder(&[("lab-roce.yaml", &blocks("docs/policy.md", "yaml")[0])]);
    fs::create_dir(folder.path().join("tests")).unwrap();
    write(&folder, "tests/lab-roce.yaml", &format!("{first}\n{}", others.concat()));
    let run = test(&folder, &[]).exits(0);
    let cases = (first.to_owned() + &others.concat()).matches("\n  - name: ").count();
    assert!(run.text().ends_with(&format!("{cases} passed, 0 failed\n")), "{}", run.text());
}
