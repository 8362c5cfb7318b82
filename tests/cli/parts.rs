//! Policies that take parts.

use insta::assert_snapshot;

use super::extends::stamp;
use super::{POD, Run, folder, run_in};

/// A policy that takes two parts, and the parts, of which each takes the third.
const COMPOSED: [(&str, &str); 4] = [
    (
        "whole.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: whole}
spec:
  extends: [sizes, debug]
  provider: lab
  description: A policy of parts
  gpus: {resources: [nvidia.com/gpu]}
  match: {anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: 'true'}}
  parameters: {level: {default: TRACE}}
  variables:
    sizes: {small: {a: 2}, large: 3}
    fast: ${totalGpus > 1}
  rules:
    - {name: own, env: {SIZE: \"${string(sizes.large)}${string(sizes.small.a)}${string(sizes.small.b)}\"}}
",
    ),
    (
        "parts/sizes.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: sizes}
spec:
  extends: base
  variables: {sizes: {small: {a: 1, b: 1}, medium: 2}}
",
    ),
    (
        "parts/debug.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: debug}
spec:
  extends: [base]
  rules:
    - {name: debug, when: 'fast', env: {NCCL_DEBUG: '${level}'}}
",
    ),
    (
        "parts/base.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: base}
spec:
  parameters:
    level: {type: string, description: NCCL's log level, default: WARN, enum: [WARN, INFO, TRACE]}
  rules:
    - {name: base, env: {BASE: '1'}}
",
    ),
];

/// A part that has what pods ask by, which is there where the policy takes it.
const ASKS: &str = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: asks}
spec:
  match: {anyAnnotation: {lab.test/fabric: 'true'}, exceptAnnotation: {lab.test/no: '*'}}
  gpus: {resources: [lab.test/gpu, nvidia.com/gpu], claims: {gpus: 4, channel: 0}}
";

/// Runs the program in a folder with the composed policy, of which one text is another one.
fn composed(right: &str, wrong: &str, args: &[&str]) -> Run {
    composed_for(POD, right, wrong, args)
}

fn composed_for(pod: &str, right: &str, wrong: &str, args: &[&str]) -> Run {
    let texts = COMPOSED.map(|(file, text)| (file, text.replacen(right, wrong, 1)));
    assert!(
        right == wrong || texts.iter().zip(COMPOSED).any(|((_, text), (_, before))| text != before),
        "{right}"
    );
    let mut files: Vec<(&str, &str)> = texts.iter().map(|(file, text)| (*file, text.as_str())).collect();
    if wrong.contains("asks") {
        files.push(("parts/asks.yaml", ASKS));
    }
    run_in(folder(&files).path(), args, pod)
}

const INJECT: [&str; 6] = ["mutate", "--policy", ".", "-q", "-o", "json"];

#[test]
fn a_policy_has_what_its_parts_have_before_its_own() {
    let run = composed("", "", &INJECT).exits(0);
    let env = run.values()[0]["spec"]["containers"][0]["env"].clone();
    let env: Vec<(&str, &str)> = env
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["value"].as_str().unwrap()))
        .collect();
    assert_eq!(env, [("BASE", "1"), ("NCCL_DEBUG", "TRACE"), ("SIZE", "321")]);
    let digest = stamp(&run.values()[0]);
    let changed = composed("BASE: '1'", "BASE: '2'", &INJECT).exits(0);
    assert_ne!(stamp(&changed.values()[0]), digest, "the digest covers the parts");
    composed("", "", &["policy", "check", "."]).exits(0).says(&["0 errors and 0 warnings in 4 files"]);
}

/// What pods ask by, what counts as GPUs and what is a device of their own can stand in parts, whose lists add up.
#[test]
fn lists_of_parts_and_policies_add_up() {
    let (right, wrong) = ("[sizes, debug]", "[asks, sizes, debug]");
    let explain = composed(right, wrong, &["policy", "explain", ".", "-o", "json"]).exits(0);
    let fact = &explain.values()[0]["policies"][0];
    let gpus = &fact["spec"]["gpus"];
    assert_eq!(gpus["resources"], serde_json::json!(["lab.test/gpu", "nvidia.com/gpu"]), "{fact}");
    assert_eq!(gpus["claims"], serde_json::json!({"channel": 0, "gpus": 4}));
    let inject = |pod: &str| composed_for(pod, right, wrong, &INJECT).exits(0).values()[0].clone();
    assert_eq!(inject(POD)["spec"]["containers"][0]["env"][0]["name"], "BASE");
    // The policy's own annotation replaces the part's.
    let asks = POD.replace("nmp.nvidia.com/enable-multi-node-networking", "lab.test/fabric");
    assert!(inject(&asks)["spec"]["containers"][0]["env"].is_null());
    let no = POD.replace("  annotations:", "  annotations:\n    lab.test/no: x");
    assert!(inject(&no)["spec"]["containers"][0]["env"].is_null());
}

#[test]
fn a_part_alone_is_no_policy() {
    let run = composed("", "", &["mutate", "--policy", "parts/debug.yaml,parts/base.yaml"]);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `debug` is a part of policies: it has no `provider`, and matches no pod
     --> parts/debug.yaml:3:18
      |
    3 | metadata: {name: debug}
      |                  ^^^^^
      |
      = hint: name it in `extends` of a policy, and load that; a policy has a `provider`

    error: `base` is a part of policies: it has no `provider`, and matches no pod
     --> parts/base.yaml:3:18
      |
    3 | metadata: {name: base}
      |                  ^^^^
      |
      = hint: name it in `extends` of a policy, and load that; a policy has a `provider`
    ");
    assert_snapshot!(super::run(&["mutate", "--policy", "shared-memory"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `shared-memory` is a part of policies: it has no `provider`, and matches no pod
     --> policies/parts/shared-memory.yaml:4:18
      |
    4 | metadata: {name: shared-memory}
      |                  ^^^^^^^^^^^^^
      |
      = hint: name it in `extends` of a policy, and load that; a policy has a `provider`
    ");
    let run = composed("[sizes, debug]", "[sizes]", &["policy", "check", "."]);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stdout -----
    warning[unused_variable]: no expression reads the variable `fast`
      --> ./whole.yaml:13:5
       |
    13 |     fast: ${totalGpus > 1}
       |     ^^^^
       |
       = hint: use it in a rule, or remove it

    warning[unused_part]: no policy here takes the part `debug`, so it is not checked
     --> ./parts/debug.yaml:3:18
      |
    3 | metadata: {name: debug}
      |                  ^^^^^
      |
      = hint: check it together with a policy that names it in `extends`

    ----- stderr -----
    0 errors and 2 warnings in 4 files
    ");
    // A policy that lacks `match` is no part.
    let run = composed("  match: {", "  matches: {", &["policy", "check", "."]);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stdout -----
    error[unknown_key]: `spec` has no field `matches`
     --> ./whole.yaml:9:3
      |
    9 |   matches: {anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: 'true'}}
      |   ^^^^^^^
      |
      = hint: did you mean `match`?

    ----- stderr -----
    1 error and 0 warnings in 4 files
    ");
}

/// What a part declares may be for one of the policies that take it.
#[test]
fn a_warning_in_a_part_is_one_if_every_policy_that_takes_it_has_it() {
    let part = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: lock}
spec:
  variables: {debug: INFO}
  rules:
    - {name: lock, container: {securityContext: {capabilities: {add: [IPC_LOKC]}}}}
";
    let policy = |name: &str, level: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {{name: {name}}}
spec:
  extends: lock
  provider: {name}
  description: A policy of a part
  gpus: {{resources: [nvidia.com/gpu]}}
  match: {{anyAnnotation: {{lab.test/{name}: 'true'}}}}
  rules:
    - {{name: debug, env: {{NCCL_DEBUG: '{level}'}}}}
"
        )
    };
    let (reads, other) = (policy("one", "${debug}"), policy("two", "WARN"));
    let files = folder(&[("lock.yaml", part), ("one.yaml", &reads), ("two.yaml", &other)]);
    assert_snapshot!(run_in(files.path(), &["policy", "check", "."], "").recorded(), @"
    exit status: 0
    ----- stdout -----
    warning[unknown_enum_value]: Kubernetes has no capability `IPC_LOKC`, so the container may not start
     --> ./lock.yaml:7:71
      |
    7 |     - {name: lock, container: {securityContext: {capabilities: {add: [IPC_LOKC]}}}}
      |                                                                       ^^^^^^^^
      |
      = hint: did you mean `IPC_LOCK`?

    ----- stderr -----
    0 errors and 1 warning in 3 files
    ");
}

#[test]
fn a_warning_in_a_base_is_that_of_the_base() {
    let policy = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: base}
spec:
  provider: lab
  description: A policy with a mistake
  gpus: {resources: [nvidia.com/gpu]}
  match: {anyAnnotation: {lab.test/base: 'true'}}
  rules:
    - {name: lock, container: {securityContext: {capabilities: {add: [IPC_LOKC]}}}}
";
    let own = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: own}
spec:
  extends: base
  match: {anyAnnotation: {lab.test/own: 'true'}}
  rules:
    - {name: debug, env: {NCCL_DEBUG: INFO}}
";
    let files = folder(&[("base.yaml", policy), ("own.yaml", own)]);
    let found = run_in(files.path(), &["policy", "check", "base.yaml", "own.yaml"], "");
    assert_snapshot!(found.recorded(), @"
    exit status: 0
    ----- stdout -----
    warning[unknown_enum_value]: Kubernetes has no capability `IPC_LOKC`, so the container may not start
      --> base.yaml:10:71
       |
    10 |     - {name: lock, container: {securityContext: {capabilities: {add: [IPC_LOKC]}}}}
       |                                                                       ^^^^^^^^
       |
       = hint: did you mean `IPC_LOCK`?

    ----- stderr -----
    0 errors and 1 warning in 2 files
    ");
}

#[test]
fn a_way_through_files_that_extend_each_other_ends() {
    let text = |at: usize| {
        let extends = if at == 20 { "{}".to_owned() } else { format!("{{extends: part-{}}}", at + 1) };
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: part-{at}}}\nspec: {extends}\n"
        )
    };
    let files: Vec<(String, String)> = (0..=20).map(|at| (format!("{at}.yaml"), text(at))).collect();
    let folder = folder(&files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect::<Vec<_>>());
    assert_snapshot!(run_in(folder.path(), &["policy", "check", "."], "").recorded(), @"
    exit status: 2
    ----- stdout -----
    error[extension]: more than 16 files extend each other in a row
     --> ./15.yaml:4:17
      |
    4 | spec: {extends: part-16}
      |                 ^^^^^^^
      |
      = hint: name the parts in one list

    error[extension]: more than 16 files extend each other in a row
     --> ./16.yaml:4:17
      |
    4 | spec: {extends: part-17}
      |                 ^^^^^^^
      |
      = hint: name the parts in one list

    error[extension]: more than 16 files extend each other in a row
     --> ./17.yaml:4:17
      |
    4 | spec: {extends: part-18}
      |                 ^^^^^^^
      |
      = hint: name the parts in one list

    error[extension]: more than 16 files extend each other in a row
     --> ./18.yaml:4:17
      |
    4 | spec: {extends: part-19}
      |                 ^^^^^^^
      |
      = hint: name the parts in one list

    error[extension]: more than 16 files extend each other in a row
     --> ./19.yaml:4:17
      |
    4 | spec: {extends: part-20}
      |                 ^^^^^^^
      |
      = hint: name the parts in one list

    ----- stderr -----
    5 errors and 0 warnings in 21 files
    ");
}

/// Of the names of claims that match, the first one counts.
#[test]
fn claims_of_an_extension_precede_those_of_its_base() {
    let extension = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: own}
spec: {extends: aws-efa, description: Own claims, gpus: {claims: {single-*: 2}}}
";
    let folder = folder(&[("own.yaml", extension)]);
    let explain = run_in(folder.path(), &["policy", "explain", "own.yaml", "-o", "json"], "").exits(0);
    let claims = explain.values()[0]["policies"][0]["spec"]["gpus"]["claims"].as_object().unwrap().clone();
    let at = |name: &str| claims.keys().position(|claim| claim == name);
    assert!(at("single-*").unwrap() < at("single-gpu").unwrap(), "{claims:?}");
    assert_eq!((&claims["single-*"], &claims["single-gpu"]), (&2.into(), &1.into()));
}
