//! `extends`: policies that add to another one.

use insta::assert_snapshot;
use serde_json::Value;

use super::{POD, POLICY, Run, folder, limits, run, run_in};

/// An extension of the sample policy.
const EXTENSION: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: ours
spec:
  extends: lab
  parameters:
    nicsPerGPU:
      default: 4
      maximum: 8
    debug:
      type: string
      description: NCCL's log level
      default: WARN
  variables:
    level: "${debug}"
  checks:
    - name: one_gpu
      when: totalGpus == 1
      message: the pod has one GPU
  rules:
    - name: debug
      env:
        NCCL_DEBUG: ${level}
"#;

/// Injects the sample pod by the sample policy and an extension, with more arguments.
fn with(extension: &str, args: &[&str]) -> Run {
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", extension)]);
    let policies = ["mutate", "--policy", "lab.yaml", "--policy", "ours.yaml", "-o", "json"];
    run_in(folder.path(), &[&policies, args].concat(), POD)
}

pub(crate) fn stamp(pod: &Value) -> String {
    pod["metadata"]["annotations"]["fabric-injector.io/injected"].as_str().unwrap().to_owned()
}

#[test]
fn an_extension_replaces_its_base_and_has_all_of_it() {
    let run = with(EXTENSION, &["--set", "debug=INFO"]).exits(0);
    let pod = &run.values()[0];
    assert!(stamp(pod).starts_with("ours@"), "{pod}");
    assert_eq!(limits(pod)["example.com/nic"], "32");
    let env = &pod["spec"]["containers"][0]["env"];
    assert_eq!((&env[0]["value"], &env[1]["value"]), (&"lab".into(), &"INFO".into()));
}

#[test]
fn the_values_of_the_provider_apply_to_an_extension() {
    let values = "multinodeNetworking: {lab: {enabled: true, nicsPerGPU: 1, debug: TRACE}}";
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", EXTENSION), ("values.yaml", values)]);
    let args = ["mutate", "--policy", ".", "--values", "values.yaml", "-q", "-o", "json"];
    // The folder has the values too, which are no policy.
    let run = run_in(folder.path(), &args, POD).exits(0);
    assert_eq!(limits(&run.values()[0])["example.com/nic"], "8");
    assert_eq!(run.values()[0]["spec"]["containers"][0]["env"][1]["value"], "TRACE");
}

#[test]
fn a_built_in_policy_can_be_extended_and_its_tables_too() {
    let extension = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: our-efa}\nspec:\n  \
                     extends: aws-efa\n  machines:\n    node.kubernetes.io/instance-type:\n      lab.large: {efaDevicesPerGPU: 3}\n      \
                     p5.48xlarge: {efaDevicesPerGPU: 2}\n";
    let on = |instance_type: &str| {
        let folder = folder(&[
            ("ours.yaml", extension),
            ("values.yaml", "multinodeNetworking: {aws: {enabled: true}}"),
        ]);
        let pod = POD.replace(
            "spec:\n",
            &format!("spec:\n  nodeSelector:\n    node.kubernetes.io/instance-type: {instance_type}\n"),
        );
        let args = ["mutate", "--policy", "ours.yaml", "--values", "values.yaml", "-q", "-o", "json"];
        let run = run_in(folder.path(), &args, pod).exits(0);
        assert!(stamp(&run.values()[0]).starts_with("our-efa@"));
        limits(&run.values()[0])["vpc.amazonaws.com/efa"].clone()
    };
    assert_eq!(on("lab.large"), "24");
    assert_eq!(on("p5.48xlarge"), "16");
    assert_eq!(on("p5e.48xlarge"), "32");
}

#[test]
fn an_extension_of_an_extension_has_all_of_both() {
    let third = EXTENSION
        .replace("name: ours", "name: third")
        .replace("extends: lab", "extends: ours")
        .split("  parameters:")
        .next()
        .unwrap()
        .to_owned()
        + "  match:\n    anyAnnotation: {third: \"on\"}\n  rules:\n    - {name: third, env: {THIRD: \"${level}\"}}\n";
    let folder = folder(&[("a.yaml", &third), ("b.yaml", EXTENSION), ("c.yaml", POLICY)]);
    let pod = POD.replace("nmp.nvidia.com/enable-multi-node-networking: \"true\"", "third: \"on\"");
    let run = run_in(folder.path(), &["mutate", "--policy", ".", "-q", "-o", "json"], pod).exits(0);
    let pod = &run.values()[0];
    assert!(stamp(pod).starts_with("third@"));
    let names: Vec<&str> = pod["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|env| env["name"].as_str())
        .collect();
    assert_eq!(names, ["FABRIC", "NCCL_DEBUG", "THIRD"]);
    // A key of `match` replaces that of the base, which has the pods that are left.
    let run = run_in(folder.path(), &["mutate", "--policy", ".", "-q", "-o", "json"], POD).exits(0);
    assert!(stamp(&run.values()[0]).starts_with("ours@"));
}

#[test]
fn the_digest_covers_base_extension_and_values() {
    let of = |base: &str, extension: &str, args: &[&str]| {
        let folder = folder(&[("lab.yaml", base), ("ours.yaml", extension)]);
        let policies = ["mutate", "--policy", "lab.yaml,ours.yaml", "-q", "-o", "json"];
        stamp(&run_in(folder.path(), &[&policies, args].concat(), POD).exits(0).values()[0])
    };
    let first = of(POLICY, EXTENSION, &[]);
    assert_eq!(of(POLICY, EXTENSION, &[]), first);
    assert_ne!(of(&format!("{POLICY}# more\n"), EXTENSION, &[]), first);
    assert_ne!(of(POLICY, &format!("{EXTENSION}# more\n"), &[]), first);
    assert_ne!(of(POLICY, EXTENSION, &["--set", "nicsPerGPU=3"]), first);
}

#[test]
fn set_is_held_to_the_bounds_of_the_extension() {
    assert_snapshot!(with(EXTENSION, &["--set", "nicsPerGPU=9"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--set nicsPerGPU=9`: `nicsPerGPU` is 9, more than its maximum 8
    ");
}

#[test]
fn an_installation_has_the_files_of_an_extension_and_of_its_base() {
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", EXTENSION)]);
    let run = run_in(folder.path(), &["manifests", "--policy", "lab.yaml,ours.yaml", "--image", "fi:1"], "")
        .exits(0);
    let documents = run.documents();
    let policies =
        documents.iter().find(|one| one["metadata"]["name"] == "fabric-injector-policies").unwrap();
    assert_eq!(policies["data"]["lab.yaml"], POLICY);
    assert_eq!(policies["data"]["ours.yaml"], EXTENSION);
}

#[test]
fn a_list_of_policies_names_the_base() {
    let text = run(&["policy", "list"], "").exits(0).text().to_owned();
    // The parts of a policy are no base.
    assert!(
        text.contains("aws-efa ") && !text.contains(" extends ") && !text.contains("shared-memory"),
        "{text}"
    );
}

/// The policy of a team: an extension for the pods of a namespace.
fn team(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: team-{name}}}\nspec:\n  \
         extends: lab\n{spec}\n  parameters: {{nicsPerGPU: {{default: {}}}}}\n",
        name.len()
    )
}

#[test]
fn extensions_of_one_base_live_next_to_each_other_and_next_to_the_base() {
    let of = |name: &str| team(name, &format!("  match: {{namespaces: [{name}]}}"));
    let case = |namespace: &str, nics: usize| {
        format!(
            "  - name: {namespace}\n    context: {{namespace: {namespace}}}\n    expect:\n      warnings: []\n      \
             has: {{spec: {{containers: [{{name: train, resources: {{limits: {{example.com/nic: {nics}}}}}}}]}}}}\n"
        )
    };
    let cases = "apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\npolicy: [../lab.yaml, ../a.yaml, ../b.yaml]\n\
        pod:\n  metadata: {annotations: {nmp.nvidia.com/enable-multi-node-networking: 'true'}}\n  \
        spec: {containers: [{name: train, resources: {limits: {nvidia.com/gpu: 1}}}]}\ncases:\n"
        .to_owned()
        + &case("a", 1)
        + &case("bbb", 3)
        + &case("other", 2);
    let folder = folder(&[
        ("lab.yaml", POLICY),
        ("a.yaml", &of("a")),
        ("b.yaml", &of("bbb")),
        ("tests/lab.yaml", &cases),
    ]);
    let run = run_in(folder.path(), &["policy", "test", "tests"], "").exits(0);
    assert!(run.text().ends_with("3 passed, 0 failed\n"), "{}", run.text());
    run_in(folder.path(), &["policy", "check", "."], "")
        .exits(0)
        .says(&["0 errors and 0 warnings in 3 files"]);
    // Without namespaces, a pod matches both, of which none extends the other.
    let both = super::folder(&[("lab.yaml", POLICY), ("a.yaml", &team("a", "")), ("b.yaml", &team("b", ""))]);
    run_in(both.path(), &["mutate", "--policy", "."], POD)
        .exits(1)
        .says(&["`team-a`, `team-b` all match this pod"]);
    assert_snapshot!(run_in(both.path(), &["policy", "check", "."], "").recorded(), @"
    exit status: 0
    ----- stdout -----
    warning[policies_overlap]: the policies `team-a` and `team-b` can match the same pod, which is then refused
     --> ./b.yaml:5:12
      |
    5 |   extends: lab
      |            ^^^
      |
      = hint: let the `match.when` of each exclude the pods of the other, or load only one of them

    ----- stderr -----
    0 errors and 1 warning in 3 files
    ");
}
