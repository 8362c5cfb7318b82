//! `match.when`, refusals, and which pods a policy matches.

use insta::assert_snapshot;

use super::{POD, POLICY, Run, assert_file_snapshot, folder, run_in, sections};

/// The sample policy with this instead of something else.
fn policy(right: &str, other: &str) -> String {
    assert!(POLICY.contains(right), "the sample policy has no `{right}`");
    POLICY.replacen(right, other, 1)
}

fn mutate(policies: &[&str], pod: &str, args: &[&str]) -> Run {
    let names = ["a.yaml", "b.yaml"];
    let files: Vec<(&str, &str)> = names.into_iter().zip(policies.iter().copied()).collect();
    let folder = folder(&files);
    run_in(folder.path(), &[&["mutate", "--policy", "."], args].concat(), pod)
}

fn when(condition: &str) -> String {
    policy("  match:\n", &format!("  match:\n    when: \"{condition}\"\n"))
}

#[test]
fn a_skipped_pod_is_reported_and_the_exit_status_is_0() {
    let run = mutate(&[&when("totalGpus == nicsPerGPU")], POD, &["--report", "json", "-o", "json"]).exits(0);
    let report = &run.reports()[0];
    assert_eq!((&report["outcome"], &report["reason"]), (&"skipped".into(), &"condition_false".into()));
    assert_eq!(report["added"][0], "pod: annotation fabric-injector.io/skipped");
    assert!(report["message"].as_str().unwrap().contains("`match.when` of the policy `lab`"), "{report}");
    let mark = run.values()[0]["metadata"]["annotations"]["fabric-injector.io/skipped"].clone();
    let mark = mark.as_str().unwrap();
    assert!(mark.starts_with("the condition `match.when`") && mark.contains("(lab@"), "{mark}");
    assert!(mark.contains(": `nicsPerGPU` is `2` ("), "{mark}");
    let run = mutate(&[&when("hostNetwork")], POD, &["-o", "patch"]).exits(0);
    assert_eq!(run.lines()[0]["patch"].as_array().unwrap().len(), 1);
    assert_snapshot!(run.said(), @"
    stdin: document 1: Pod/trainer: skipped: the condition `match.when` of the policy `lab` is false for this pod (condition_false)
      + pod: annotation fabric-injector.io/skipped
    ");
}

#[test]
fn a_condition_reads_parameters_variables_and_the_pod() {
    let base = when("large && podNamespace == 'default' && nicsPerGPU == 2.0");
    let base = base.replace("  rules:\n", "  variables: {large: \"${totalGpus >= 8}\"}\n  rules:\n");
    let outcome = |args: &[&str]| {
        mutate(&[&base], POD, &[args, &["--report", "json"]].concat()).exits(0).reports()[0]["outcome"]
            .clone()
    };
    assert_eq!(outcome(&[]), "mutated");
    assert_eq!(outcome(&["--set", "nicsPerGPU=1"]), "skipped");
}

#[test]
fn objects_that_name_no_namespace_are_in_that_of_the_option() {
    let policy = policy("  match:\n", "  match:\n    namespaces: [team-a]\n");
    let of_team_b = workload("apps/v1", "Deployment").replace("{name: w}", "{name: w, namespace: team-b}");
    for (manifest, options, outcome) in [
        (POD, &[][..], "unchanged"),
        (POD, &["-n", "team-a"], "mutated"),
        (POD, &["--namespace", "team-b"], "unchanged"),
        (&workload("apps/v1", "Deployment"), &["-n", "team-a"], "mutated"),
        (&of_team_b, &["-n", "team-a"], "unchanged"),
    ] {
        let run = mutate(&[&policy], manifest, &[options, &["--report", "json"]].concat()).exits(0);
        assert_eq!(run.reports()[0]["outcome"], outcome, "{options:?}: {manifest}");
    }
    assert_snapshot!(mutate(&[&policy], POD, &["-n", "Team"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'Team' for '--namespace <NAME>': the name of a namespace has at most 63 lower case letters, digits and `-`

    For more information, try '--help'.
    ");
}

#[test]
fn sample_pods_are_in_a_namespace_for_which_the_condition_holds() {
    let namespaces =
        ["podNamespace.startsWith('ml-')", "podNamespace == 'ml'", "podNamespace.endsWith('-ml')"];
    let answers = namespaces.map(|namespace| {
        let policy = when(namespace).replace("FABRIC: lab", "FABRIC: ${pod.metadata.labels.team}");
        (namespace, mutate(&[&policy], POD, &[]).recorded())
    });
    assert_file_snapshot!(sections(answers));
}

#[test]
fn a_condition_must_not_read_what_the_policy_adds() {
    let condition = "!pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'FABRIC'))";
    assert_snapshot!(mutate(&[&when(condition)], POD, &[]).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    error: the policy is not idempotent: `match.when` holds for a sample pod (one container with GPUs), but no longer after the policy injects it
      --> ./a.yaml:10:11
       |
    10 |     when: "!pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'FABRIC'))"
       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: a value must not depend on what the policy itself adds
    "#);
    // For pods that no sample is like, the pod is refused.
    let condition = "!has(pod.metadata.labels) || !pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'FABRIC'))";
    let pod = POD.replace("  name: trainer\n", "  name: trainer\n  labels: {a: b}\n");
    assert_snapshot!(mutate(&[&when(condition)], &pod, &[]).recorded(), @"
    exit status: 1
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: the policy is not idempotent for this pod: what is added to it changes the decision about it; correct the `match` or the check that reads it (not_idempotent)
    ");
    // A policy that makes another one match the pod is found, too.
    let second = when("pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'FABRIC'))")
        .replace("name: lab\n", "name: second\n")
        .replace("FABRIC: lab", "SECOND: lab");
    assert_snapshot!(mutate(&[POLICY, &second], POD, &[]).recorded(), @"
    exit status: 1
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: the policies `lab`, `second` all match this pod, but only one can inject it; make their conditions (`match.when`) exclude each other, or load only one of them (several_policies_match)
    ");
}

#[test]
fn the_advice_about_several_policies_is_true_for_one_annotation() {
    let second = POLICY.replace("name: lab\n", "name: second\n");
    assert_snapshot!(mutate(&[POLICY, &second], POD, &[]).recorded(), @"
    exit status: 1
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: the policies `lab`, `second` all match this pod, but only one can inject it; make their conditions (`match.when`) exclude each other, or load only one of them (several_policies_match)
    ");
}

#[test]
fn a_refusal_is_reported_with_its_code_and_leaves_the_pod_out() {
    let refusing = policy(
        "  rules:\n",
        "  checks:\n    - {name: too_many, when: totalGpus > 4, action: refuse, message: \"at most 4 GPUs, not ${totalGpus}\"}\n  rules:\n",
    );
    let run = mutate(&[&refusing], POD, &["--report", "json"]).exits(1);
    run.writes_nothing();
    let report = &run.reports()[0];
    assert_eq!((&report["outcome"], &report["reason"]), (&"refused".into(), &"too_many".into()));
    assert_eq!(report["message"], "at most 4 GPUs, not 8");
    mutate(&[&refusing], &POD.replace("gpu: 8", "gpu: 4"), &[]).exits(0);
    // Also where no rule applies.
    let no_rule = refusing.replace("    - name: nics\n", "    - name: nics\n      when: totalGpus > 100\n");
    assert_snapshot!(mutate(&[&no_rule], POD, &[]).recorded(), @"
    exit status: 1
    ----- stderr -----
    stdin: document 1: Pod/trainer: refused: at most 4 GPUs, not 8 (too_many)
    ");
}

#[test]
fn a_wildcard_takes_out_every_value() {
    let matcher = "  match:\n    exceptAnnotation: {no-fabric: \"*\", later: \"true\"}\n";
    let taken_out = policy("  match:\n", matcher);
    let reason = |annotation: &str| {
        let pod = POD.replace("  annotations:\n", &format!("  annotations:\n    {annotation}\n"));
        mutate(&[&taken_out], &pod, &["--report", "json"]).exits(0).reports()[0]["reason"].clone()
    };
    assert_eq!(reason("no-fabric: whatever"), "opted_out");
    assert_eq!(reason("no-fabric: \"\""), "opted_out");
    assert_eq!(reason("later: \"true\""), "opted_out");
    assert_eq!(reason("later: \"*\""), serde_json::Value::Null);
}

/// A workload around the template of the sample pod.
fn workload(api_version: &str, kind: &str) -> String {
    let (metadata, spec) = POD.split_once("metadata:\n").unwrap().1.split_once("spec:\n").unwrap();
    let indented =
        |text: &str| text.lines().map(|line| format!("      {line}\n")).collect::<Vec<_>>().concat();
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: w}}\nspec:\n  template:\n    metadata:\n{}    spec:\n{}",
        indented(metadata),
        indented(spec)
    )
}

#[test]
fn an_owner_may_be_named_with_its_group() {
    let outcome = |owners: &str, manifest: &str| {
        let policy = policy("  match:\n", &format!("  match:\n    ownerKinds: {owners}\n"));
        mutate(&[&policy], manifest, &["--report", "json"]).exits(0).reports()[0]["outcome"].clone()
    };
    for (owners, api_version, kind, expected) in [
        ("[Job]", "batch/v1", "Job", "mutated"),
        ("[Job.batch]", "batch/v1", "Job", "mutated"),
        ("[Job.batch]", "batch/v1", "CronJob", "mutated"),
        ("[Job.batch]", "batch.volcano.sh/v1alpha1", "Job", "unchanged"),
        ("[Job.batch.volcano.sh]", "batch.volcano.sh/v1alpha1", "Job", "mutated"),
        ("[Job]", "batch.volcano.sh/v1alpha1", "Job", "mutated"),
        ("[ReplicaSet.apps, Job.batch]", "apps/v1", "Deployment", "mutated"),
        ("[RayCluster.ray.io]", "ray.io/v1", "RayJob", "mutated"),
    ] {
        assert_eq!(outcome(owners, &workload(api_version, kind)), expected, "{owners} {api_version} {kind}");
    }
    let owned = |api_version: &str| {
        let owner =
            format!("  ownerReferences: [{{apiVersion: {api_version}, kind: Job, name: j, uid: u}}]\n");
        POD.replace("  name: trainer\n", &format!("  name: trainer\n{owner}"))
    };
    assert_eq!(outcome("[Job.batch]", &owned("batch/v1")), "mutated");
    assert_eq!(outcome("[Job.batch]", &owned("batch.volcano.sh/v1alpha1")), "unchanged");
}

#[test]
fn a_pod_with_the_annotation_learns_which_key_of_match_it_does_not_meet() {
    let keys = ["namespaces: [ml, hpc]", "labels: {team: ml}", "ownerKinds: [Job.batch]"];
    let without = POD.replace("enable-multi-node-networking: \"true\"", "other: \"true\"");
    let answers = keys.map(|key| {
        let policy = policy("  match:\n", &format!("  match:\n    {key}\n"));
        (key, [POD, &without].map(|pod| mutate(&[&policy], pod, &[]).exits(0).said()).concat())
    });
    assert_snapshot!(sections(answers), @"
    ## namespaces: [ml, hpc]
    stdin: document 1: Pod/trainer: unchanged: the pod has the annotation of the policy `lab`, whose `match.namespaces` needs `ml`, `hpc`, but the pod has `default` (match_failed)
    stdin: document 1: Pod/trainer: unchanged: no policy matches this pod (no_policy_matches)

    ## labels: {team: ml}
    stdin: document 1: Pod/trainer: unchanged: the pod has the annotation of the policy `lab`, whose `match.labels` needs `team: ml`, but the pod has none (match_failed)
    stdin: document 1: Pod/trainer: unchanged: no policy matches this pod (no_policy_matches)

    ## ownerKinds: [Job.batch]
    stdin: document 1: Pod/trainer: unchanged: the pod has the annotation of the policy `lab`, whose `match.ownerKinds` needs `Job.batch`, but the pod has none (match_failed)
    stdin: document 1: Pod/trainer: unchanged: no policy matches this pod (no_policy_matches)
    ");
}
