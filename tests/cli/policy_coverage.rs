//! Coverage of policies by their cases.

use std::fs;

use insta::assert_snapshot;

use super::POLICY;
use super::policy_test::{NO_GPUS, PASSES, lab, test, write};

#[test]
fn coverage_of_an_extension_is_about_its_own_parts() {
    let extension = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: our-efa}\nspec:\n  extends: aws-efa\n  \
        checks:\n    - {name: many_gpus, when: totalGpus > 8, message: many}\n  rules:\n    \
        - {name: debug, when: 'totalGpus > 4', env: {A: b}}\n";
    let case = |name: &str, gpus: u8, codes: &str| {
        format!(
            "  - name: {name}\n    with: {{spec: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}\n    \
             expect: {{outcome: mutated, warnings: [parameter_assumed{codes}]}}\n"
        )
    };
    let folder = lab(&[&case("few", 4, ""), &case("many", 16, ", many_gpus")]);
    let cases = fs::read_to_string(folder.path().join("tests/lab.yaml")).unwrap();
    write(&folder, "tests/lab.yaml", &cases.replace("../lab.yaml", "../our-efa.yaml"));
    fs::remove_file(folder.path().join("lab.yaml")).unwrap();
    write(&folder, "our-efa.yaml", extension);
    let run = test(&folder, &["--require-coverage"]).exits(0);
    assert!(run.text().contains("coverage: 6 of 6 values"), "{}", run.text());
    write(&folder, "our-efa.yaml", &extension.replace("totalGpus > 4", "totalGpus > 2"));
    test(&folder, &["--require-coverage"]).exits(1).says(&["do not cover"]);
}

#[test]
fn coverage_names_what_the_cases_have_not_seen() {
    let folder = lab(&[PASSES]);
    assert_snapshot!(test(&folder, &["--coverage"]).recorded(), @"
    exit status: 0
    ----- stdout -----
    ok    tests/lab.yaml: eight GPUs
    lab  rule `nics`                  always applies
    lab  `containers` of rule `nics`  never false
    coverage: 2 of 4 values of rules and conditions
    1 passed, 0 failed
    ");
    test(&folder, &["--require-coverage"]).exits(1).says(&["do not cover"]);
    write(&folder, "other.yaml", &POLICY.replace("name: lab\n", "name: other\n"));
    assert_snapshot!(test(&folder, &["--coverage"]).recorded(), @"
    exit status: 0
    ----- stdout -----
    ok    tests/lab.yaml: eight GPUs
    lab    rule `nics`                  always applies
    lab    `containers` of rule `nics`  never false
    other  rule `nics`                  never evaluated
    other  `containers` of rule `nics`  never evaluated
    coverage: 2 of 8 values of rules and conditions
    1 passed, 0 failed
    ");
    let folder = lab(&[PASSES, NO_GPUS]);
    test(&folder, &["--require-coverage"]).exits(0);
    // A built-in policy that a case names has cases of its own.
    let built_in = NO_GPUS.replace("- name: none", "- name: built-in\n    policy: aws-efa");
    test(&lab(&[PASSES, NO_GPUS, &built_in]), &["--require-coverage"]).exits(0);
    // A condition that is written out as `true` needs no case for which it is false.
    let always = POLICY.replace(
        "- name: nics",
        "- name: always\n      containers: true\n      env: {X: \"1\"}\n    - name: nics",
    );
    write(&folder, "lab.yaml", &always);
    assert!(test(&folder, &["--coverage"]).text().contains("coverage: 4 of 4 values"));
}

#[test]
fn each_value_of_machines_has_to_be_given() {
    let folder = lab(&[PASSES, NO_GPUS]);
    let (family, zone) = ("example.com/family", "example.com/zone");
    let machines = format!(
        "\n  variables: {{kind: none}}\n  machines:\n    {family}: {{'b1, b2*': &b {{kind: b}}, c1: {{kind: c}}}}\n    {zone}: {{east: *b}}\n  rules:"
    );
    write(&folder, "lab.yaml", &POLICY.replace("\n  rules:", &machines));
    let run = test(&folder, &["--require-coverage"]);
    assert_snapshot!(run.recorded(), @"
    exit status: 1
    ----- stdout -----
    ok    tests/lab.yaml: eight GPUs
    ok    tests/lab.yaml: none
    lab  row `b1, b2*` of `kind` by `example.com/family`  never gives a value
    lab  row `c1` of `kind` by `example.com/family`       never gives a value
    lab  row `east` of `kind` by `example.com/zone`       never gives a value
    coverage: 4 of 4 values of rules and conditions, 0 of 3 values of machines
    2 passed, 0 failed
    ----- stderr -----
    error: the cases do not cover the policies; the table shows what is missing
    ");
    test(&folder, &["--require-coverage=conditions"]).exits(0);
    let on = |name: &str, label: &str, value: &str| {
        format!(
            "  - name: {name}\n    with: {{spec: {{nodeSelector: {{{label}: {value}}}}}}}\n    expect: {{outcome: mutated}}\n"
        )
    };
    let cases = [on("b", family, "b27"), on("c", family, "C1"), on("east", zone, "east")].concat();
    let known = fs::read_to_string(folder.path().join("tests/lab.yaml")).unwrap();
    write(&folder, "tests/lab.yaml", &(known + &cases));
    let run = test(&folder, &["--require-coverage"]).exits(0);
    assert!(run.text().contains(", 3 of 3 values of machines\n"), "{}", run.text());
}

#[test]
fn a_refusal_that_reads_what_rules_add_is_covered_by_a_case_that_it_refuses() {
    let refusal = "  checks:\n    - name: too_many\n      when: podRequests[?'example.com/nic'].orValue(0) > 4\n      action: refuse\n      message: too many NICs\n  rules:";
    let policy = POLICY.replacen("  rules:", refusal, 1);
    let few = "  - name: few\n    with: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}\n    expect: {outcome: mutated}\n";
    let many = "  - name: many\n    expect: {outcome: refused}\n";
    let folder = lab(&[few, many]);
    write(&folder, "lab.yaml", &policy);
    let run = test(&folder, &["--coverage"]).exits(0);
    assert!(!run.text().contains("too_many"), "{}", run.text());
}

#[test]
fn a_case_covers_what_the_engine_evaluates_for_its_pod_and_nothing_else() {
    let lacking = |with: &str, part: &str| {
        let case = format!("  - name: refused\n    with: {with}\n    expect: {{outcome: refused}}\n");
        let check = |code: &str, gpus: u8, then: &str| {
            format!("    - {{name: {code}, when: totalGpus > {gpus}, action: {then}, message: too many}}\n")
        };
        let checks =
            [check("first", 4, "warn"), check("big", 8, "refuse"), check("last", 4, "warn")].concat();
        let folder = lab(&[&case]);
        write(&folder, "lab.yaml", &POLICY.replacen("  rules:", &format!("  checks:\n{checks}  rules:"), 1));
        let run = test(&folder, &["--coverage"]).exits(0);
        let line = run.text().lines().find(|line| line.contains(part)).unwrap_or_default();
        line.rsplit("  ").next().unwrap_or_default().to_owned()
    };
    let many = "{spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 16}}}]}}";
    assert_eq!(lacking(many, "rule `nics`"), "always applies");
    assert_eq!(lacking(many, "check `first`"), "never false");
    assert_eq!(lacking(many, "check `last`"), "never evaluated");
    // The pod is refused before a policy is chosen.
    let elsewhere = "{metadata: {annotations: {fabric-injector.io/provider: other}}}";
    assert_eq!(lacking(elsewhere, "rule `nics`"), "never evaluated");
    assert_eq!(lacking(elsewhere, "`containers` of rule `nics`"), "never evaluated");
}

#[test]
fn junit_has_a_failure_for_what_is_not_covered() {
    let run = test(&lab(&[PASSES]), &["-o", "junit", "--require-coverage"]).exits(1);
    let text = run.text();
    assert!(text.contains("<testsuites tests=\"3\" failures=\"2\">"), "{text}");
    assert!(text.contains("name=\"rule `nics`\"><failure message=\"always applies\"/>"), "{text}");
}
