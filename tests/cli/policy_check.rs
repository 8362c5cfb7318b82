//! `policy check`: every error of a file, at its place.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{POLICY, ROOT, Run, assert_file_snapshot, file, folder, run, run_in};

/// The sample policy with another value of its variable.
fn with_value(value: &str) -> String {
    POLICY.replacen("FABRIC: lab", &format!("FABRIC: {value}"), 1)
}

/// Checks files in a folder of their own.
fn check(files: &[(&str, &str)], arguments: &[&str]) -> Run {
    let folder = folder(files);
    run_in(folder.path(), &[&["policy", "check"], arguments].concat(), "")
}

/// The errors and warnings of `policy check`, as objects.
fn found(files: &[(&str, &str)], arguments: &[&str]) -> Vec<Value> {
    let run = check(files, &[&["-o", "json"], arguments].concat());
    serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{error} in {}", run.text_lossy()))
}

/// The code and line of everything found in one policy.
fn codes(policy: &str) -> Vec<(String, u64)> {
    let all = found(&[("lab.yaml", policy)], &["lab.yaml"]);
    all.iter().map(|one| (one["code"].as_str().unwrap().to_owned(), one["line"].as_u64().unwrap())).collect()
}

/// A hundred warnings of one code are reported, and the last one of them tells that there are more.
#[test]
fn what_is_not_reported_is_told() {
    let warnings = |count: usize| {
        let spare = |at| format!("    spare{at}: {{type: string, description: d}}\n");
        let parameters: String = (0..count).map(spare).collect();
        let policy = POLICY.replacen("  parameters:\n", &format!("  parameters:\n{parameters}"), 1);
        found(&[("lab.yaml", &policy)], &["lab.yaml"])
            .iter()
            .map(|one| one["message"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let of = |at| format!("no expression reads the parameter `spare{at}`");
    let hundred: Vec<String> = (0..100).map(of).collect();
    assert_eq!(warnings(100), hundred);
    let mut shown = hundred;
    *shown.last_mut().unwrap() += " (others like this one are reported once these are corrected)";
    assert_eq!(warnings(150), shown);
}

#[test]
fn a_comment_suppresses_a_warning_at_its_place() {
    let unused = "  parameters:\n    spare: {type: string, description: d}\n";
    let policy = POLICY.replacen("  parameters:\n", unused, 1);
    let with = |right: &str, wrong: &str| codes(&policy.replacen(right, wrong, 1));
    let line = "    spare: {type: string, description: d}\n";
    let code = |found: Vec<(String, u64)>| found.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    let none = Vec::<String>::new();
    assert_eq!(code(codes(&policy)), ["unused_parameter"]);
    let mark = "# fabric-injector: ignore unused_parameter";
    assert_eq!(code(with(line, &line.replace('\n', &format!("    {mark}\n")))), none);
    assert_eq!(code(with(line, &format!("    {mark}\n    # as the next cluster reads it\n{line}"))), none);
    assert_eq!(code(with("apiVersion", &format!("{mark}\napiVersion"))), none);
    // Elsewhere, it suppresses nothing, and neither does another code.
    let both = ["unused_parameter", "unused_suppression"];
    let sorted = |found| {
        let mut codes = code(found);
        codes.sort();
        codes
    };
    assert_eq!(sorted(with("  rules:", &format!("  rules:    {mark}"))), both);
    assert_eq!(sorted(with("apiVersion", "# fabric-injector: ignore unused_paramter\napiVersion")), both);
    let two = with("apiVersion", &format!("{mark}, always_false\napiVersion"));
    assert_eq!(two, [("unused_suppression".to_owned(), 1)]);
    // No comment suppresses an error, next to which not all warnings are known.
    let error = POLICY.replacen("  parameters:", "# fabric-injector: ignore unknown_key\n  paramters:", 1);
    assert!(code(codes(&error)).contains(&"unknown_key".to_owned()));
    assert!(!code(codes(&error)).contains(&"unused_suppression".to_owned()));
}

#[test]
fn every_error_of_a_file_is_reported_and_none_twice() {
    let broken = "apiVersion: fabric-injector.io/v1
kind: FabricPolicy
metadata: {name: lab, labels: {}}
spec:
  provider: Lab
  description: d
  gpu: {resources: [nvidia.com/gpu]}
  match: {anyAnotation: {a: b}, when: 'nope'}
  parameters:
    ratio: {type: numbr, description: d, default: x}
    count: {type: integer, description: d, minimum: x, defualt: 3}
    count: {type: string}
  variables:
    a: ${ratio}
    b: ${ratoi}
    c: ${b + 1}
  rules:
    - name: One
      when: gpus > 0
      containers: ${gpus > 0}
      container:
        imgae: x
      env:
        A: \"${bb}\"
        B: [c]
        C: true
    - name: two
      pod:
        spec:
          containers:
            - name: \"${cc}\"
              image: 3
          hostNetwork: \"true\"
";
    let run = check(&[("lab.yaml", broken)], &["lab.yaml"]);
    assert_file_snapshot!(run.recorded());
    // Loading the policy reports the same.
    let loaded = super::policy_errors::with_policy(broken, super::POD).exits(2);
    assert_eq!(
        loaded.stderr.matches("error: ").count(),
        run.text().matches("error[").count(),
        "{}",
        loaded.stderr
    );
}

#[test]
fn files_are_checked_together() {
    let ours = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: ours}\nspec:\n  extends: lab\n";
    let files = [("lab.yaml", POLICY), ("ours.yaml", ours), ("twin.yaml", POLICY)];
    let check = |files: &[(&str, &str)]| check(files, &["."]).recorded();
    assert_snapshot!(check(&files[..2]), @"
    exit status: 0
    ----- stderr -----
    0 errors and 0 warnings in 2 files
    ");
    assert_snapshot!(check(&[files[0], files[2]]), @"
    exit status: 2
    ----- stdout -----
    error[duplicate_name]: two policies are called `lab`, here and in ./lab.yaml
     --> ./twin.yaml:4:9
      |
    4 |   name: lab
      |         ^^^
      |
      = hint: give one of them another name

    ----- stderr -----
    1 error and 0 warnings in 2 files
    ");
    // An error of the base is reported once, in its own file.
    let broken = POLICY.replacen("gpus, nicsPerGPU", "gpus, nicPerGPU", 1);
    assert_snapshot!(check(&[("lab.yaml", &broken), files[1]]), @"
    exit status: 2
    ----- stdout -----
    error[unknown_name]: `nicPerGPU` is neither a parameter nor a variable
      --> ./lab.yaml:24:46
       |
    24 |             example.com/nic: ${devices(gpus, nicPerGPU)}
       |                                              ^^^^^^^^^
       |
       = hint: did you mean `nicsPerGPU`?

    ----- stderr -----
    1 error and 0 warnings in 2 files
    ");
    // A base that cannot be read is not missing.
    assert_snapshot!(check(&[("lab.yaml", "a: [\n"), files[1]]), @"
    exit status: 2
    ----- stdout -----
    error[yaml_syntax]: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
     --> ./lab.yaml:2:1
      |
    2 |
      | ^

    ----- stderr -----
    1 error and 0 warnings in 2 files
    ");
}

#[test]
fn a_parameter_has_one_type_in_all_policies_of_a_provider() {
    let other = POLICY.replacen("name: lab", "name: other", 1).replacen("type: number", "type: integer", 1);
    assert_snapshot!(check(&[("lab.yaml", POLICY), ("other.yaml", &other)], &["."]).recorded(), @"
    exit status: 2
    ----- stdout -----
    error[duplicate_name]: the parameter `nicsPerGPU` is `integer`, and `number` in the policy `lab` (./lab.yaml)
      --> ./other.yaml:13:5
       |
    13 |     nicsPerGPU:
       |     ^^^^^^^^^^
       |
       = hint: give it one type in all policies of the provider, or another name

    ----- stderr -----
    1 error and 0 warnings in 2 files
    ");
    let elsewhere = other.replacen("provider: lab", "provider: elsewhere", 1);
    check(&[("lab.yaml", POLICY), ("other.yaml", &elsewhere)], &["."]).exits(0);
}

#[test]
fn the_exit_status_tells_errors_from_warnings() {
    let warned = with_value("'{{ gpus }}'");
    check(&[("lab.yaml", &warned)], &["lab.yaml"]).exits(0).says(&["0 errors and 1 warning in 1 file"]);
    check(&[("lab.yaml", &warned)], &["--fail-on-warning", "lab.yaml"]).exits(1);
    check(&[("lab.yaml", POLICY)], &["--fail-on-warning", "lab.yaml"]).exits(0);
    for (option, status) in [
        ("warning", 1),
        ("warning=template_braces", 1),
        ("warning=tiny_amount,template_braces", 1),
        ("warning=tiny_amount", 0),
        ("warning=template_brace", 2),
        ("error", 2),
    ] {
        check(&[("lab.yaml", &warned)], &["--fail-on", option, "lab.yaml"]).exits(status);
    }
    let wrong = with_value("${nope}");
    check(&[("lab.yaml", &wrong)], &["lab.yaml"]).exits(2).says(&["1 error and 0 warnings in 1 file"]);
    check(&[], &["lab.yaml"]).exits(2);
}

#[test]
fn json_and_text_have_the_place_the_line_and_the_hint() {
    let wrong = with_value("${nope + 1}");
    let check = |format| check(&[("lab.yaml", &wrong)], &["-o", format, "lab.yaml"]).recorded();
    assert_snapshot!(check("json"), @r#"
    exit status: 2
    ----- stdout -----
    [
      {
        "file": "lab.yaml",
        "line": 29,
        "column": 19,
        "length": 4,
        "severity": "error",
        "code": "unknown_name",
        "message": "`nope` is neither a parameter nor a variable",
        "hint": "did you mean `node`?",
        "source": "        FABRIC: ${nope + 1}"
      }
    ]
    ----- stderr -----
    1 error and 0 warnings in 1 file
    "#);
    assert_snapshot!(check("text"), @"
    exit status: 2
    ----- stdout -----
    error[unknown_name]: `nope` is neither a parameter nor a variable
      --> lab.yaml:29:19
       |
    29 |         FABRIC: ${nope + 1}
       |                   ^^^^
       |
       = hint: did you mean `node`?

    ----- stderr -----
    1 error and 0 warnings in 1 file
    ");
}

#[test]
fn sarif_has_a_rule_for_each_result_and_relative_addresses() {
    let wrong = with_value("${nope}");
    let run = check(&[("our lab.yaml", &wrong)], &["-o", "sarif", "./our lab.yaml"]).exits(2);
    assert_file_snapshot!(run.said() + &run.text().replace(env!("CARGO_PKG_VERSION"), "[version]"));
    let empty = check(&[("lab.yaml", POLICY)], &["-o", "sarif", "lab.yaml"]).exits(0);
    let sarif: Value = serde_json::from_slice(&empty.stdout).unwrap();
    assert_eq!(sarif["runs"][0]["results"], json!([]));
}

#[test]
fn a_workflow_command_is_one_line() {
    let wrong = with_value("100%${nope}");
    let run = check(&[("lab,1.yaml", &wrong)], &["-o", "github", "lab,1.yaml"]).exits(2);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stdout -----
    ::error file=lab%2C1.yaml,line=29,col=23,endColumn=27,title=unknown_name::`nope` is neither a parameter nor a variable%0Ahint: did you mean `node`?
    ----- stderr -----
    1 error and 0 warnings in 1 file
    ");
    let percent = POLICY.replacen("onitor", "", 1).replacen("name: lab", "name: 100%", 1);
    assert_snapshot!(check(&[("lab.yaml", &percent)], &["-o", "github", "lab.yaml"]).recorded(), @"
    exit status: 2
    ----- stdout -----
    ::error file=lab.yaml,line=4,col=9,endColumn=13,title=invalid_value::the name of a policy is `100%25`%0Ahint: use lower-case letters, digits and hyphens, at most 63
    ----- stderr -----
    1 error and 0 warnings in 1 file
    ");
}

#[test]
fn the_policies_of_the_repository_have_neither_errors_nor_warnings() {
    let policies = fs::read_dir(Path::new(ROOT).join("policies")).unwrap();
    let names: Vec<String> = policies
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let parts = fs::read_dir(Path::new(ROOT).join("policies/parts")).unwrap().count();
    let folder = format!("{ROOT}/policies");
    for (arguments, files) in [(names.as_slice(), names.len()), (&[folder.as_str()], names.len() + parts)] {
        let run = run(&[&["policy", "check", "--fail-on-warning"], arguments].concat(), "").exits(0);
        assert_eq!(run.text(), "");
        run.says(&[&format!("in {files} files")]);
    }
}

#[test]
fn the_page_about_checking_shows_what_the_program_prints() {
    let wrong = POLICY.replacen("gpus, nicsPerGPU", "gpus, nicPerGPU", 1);
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("our-policies")).unwrap();
    fs::write(folder.path().join("our-policies/lab.yaml"), wrong).unwrap();
    let run = run_in(folder.path(), &["policy", "check", "our-policies/"], "").exits(2);
    let page = file("docs/check.md");
    let example = page.split_once("policy check our-policies/\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(run.text().to_owned() + &run.stderr, example);
}

#[test]
fn the_page_about_checking_explains_every_code() {
    let page = file("docs/check.md");
    let rows = |heading: &str| -> Vec<String> {
        let section = page.split_once(&format!("## {heading}\n")).unwrap().1;
        let section = section.split("\n## ").next().unwrap();
        // The codes in the first cells.
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
        cells.map(str::to_owned).collect()
    };
    assert_eq!(rows("Errors"), fabric_policy::ERRORS);
    assert_eq!(rows("Warnings"), fabric_policy::WARNINGS);
}

#[test]
fn a_folder_is_checked_without_its_other_files_which_are_named() {
    let job = "apiVersion: batch/v1\nkind: Job\nspec: {}\n---\napiVersion: v1\nkind: Service\n";
    let cases = "apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\ncases: []\n";
    let template = "apiVersion: v1\nkind: Pod\n{{- range .Values.x }}\n{{- end }}\n";
    let others =
        [("job.yaml", job), ("lab-cases.yaml", cases), ("pod.yaml", template), ("values.yaml", "a: {}\n")];
    let run = check(&[&[("lab.yaml", POLICY)], &others[..]].concat(), &["."]).exits(0);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stderr -----
    not checked, cases: ./lab-cases.yaml (PolicyTest); run `fabric-injector policy test .`
    not checked, no policies: ./job.yaml (Job), ./pod.yaml (Pod), ./values.yaml
    0 errors and 0 warnings in 1 file
    ");
    // A file that is named is meant.
    assert_snapshot!(check(&others, &["job.yaml"]).recorded(), @"
    exit status: 2
    ----- stdout -----
    error[yaml_syntax]: found a second document
     --> job.yaml:4:1
      |
    4 | ---
      | ^^^
      |
      = hint: this file is of another kind: a policy has `kind: FabricPolicy`

    ----- stderr -----
    1 error and 0 warnings in 1 file
    ");
    // A policy whose kind is misspelled is one.
    let misspelled = POLICY.replacen("kind: FabricPolicy", "kind: FabricPolcy", 1);
    let run = check(&[&[("lab.yaml", &misspelled[..])], &others[..]].concat(), &["."]);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stdout -----
    error[invalid_value]: `kind` is `FabricPolcy`
     --> ./lab.yaml:2:7
      |
    2 | kind: FabricPolcy
      |       ^^^^^^^^^^^
      |
      = hint: did you mean `kind: FabricPolicy`?

    ----- stderr -----
    not checked, cases: ./lab-cases.yaml (PolicyTest); run `fabric-injector policy test .`
    not checked, no policies: ./job.yaml (Job), ./pod.yaml (Pod), ./values.yaml
    1 error and 0 warnings in 1 file
    ");
    assert_snapshot!(check(&others, &["."]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: . has no policy in it; a policy has `kind: FabricPolicy`
    hint: not used, cases: ./lab-cases.yaml (PolicyTest); run `fabric-injector policy test .`; not used, no policies: ./job.yaml (Job), ./pod.yaml (Pod), ./values.yaml
    ");
}

#[test]
fn a_file_that_is_no_text_does_not_end_the_check_of_the_others() {
    let wrong = POLICY.replacen("name: lab\n", "name: wrong\n", 1);
    let wrong = wrong.replacen("kind: FabricPolicy", "kind: FabricPolcy", 1);
    let folder = folder(&[("lab.yaml", POLICY), ("wrong.yaml", &wrong)]);
    fs::write(folder.path().join("bytes.yaml"), b"kind: \xff\n").unwrap();
    let check = |format: &str| run_in(folder.path(), &["policy", "check", ".", "-o", format], "").exits(2);
    assert_file_snapshot!(check("text").recorded());
    for format in ["json", "sarif", "github"] {
        let run = check(format);
        run.says(&["2 errors", "in 3 files"]);
        assert!(run.text().contains("bytes.yaml") && run.text().contains("wrong.yaml"), "{}", run.text());
    }
}

#[test]
fn other_files_in_a_folder_of_policies_are_passed_over_by_every_command() {
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, image: i}]}\n";
    let others = [("pod.yaml", pod), ("kustomization.yaml", "resources: [pod.yaml]\n")];
    let folder = folder(&[&[("lab.yaml", POLICY)], &others[..]].concat());
    let run = |arguments: &[&str]| run_in(folder.path(), arguments, "").exits(0);
    assert_snapshot!(run(&["policy", "check", "."]).said(), @"
    not checked, no policies: ./kustomization.yaml, ./pod.yaml (Pod)
    0 errors and 0 warnings in 1 file
    ");
    assert_snapshot!(run(&["policy", "explain", "."]).said(), @"not used, no policies: ./kustomization.yaml, ./pod.yaml (Pod)");
    assert_snapshot!(run(&["mutate", "--policy", ".", "-f", "pod.yaml"]).said(), @"
    not used, no policies: ./kustomization.yaml, ./pod.yaml (Pod) (not_a_policy)
    pod.yaml: document 1: Pod/p: unchanged: no policy matches this pod (no_policy_matches)
    ");
    let report = run(&["mutate", "--policy", ".", "-f", "pod.yaml", "--report", "json"]).stderr;
    let first: Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
    assert_eq!(first["code"], "not_a_policy", "{first}");
}

/// The file of `policy new` has the check; without it, and wherever the number passes through a variable, a row with 0 is
/// told at its place.
#[test]
fn a_row_without_devices_needs_a_check_that_reads_it() {
    let new = folder(&[]);
    run(&["policy", "new", "--provider", "acme", new.path().to_str().unwrap()], "").exits(0);
    let right = fs::read_to_string(new.path().join("acme-rdma.yaml")).unwrap();
    let place = right.lines().position(|line| line.contains("gpu-none:")).unwrap() as u64 + 1;
    let (without, _) = right.split_once("  checks:").unwrap();
    let by_variable = without
        .replace("devices(gpus, rdmaDevicesPerGPU)", "devices(gpus, ratio)")
        .replace("  devices:\n", "  variables: {ratio: \"${rdmaDevicesPerGPU}\"}\n  devices:\n");
    let matched = without.replace("  gpus:", "  match: {when: rdmaDevicesPerGPU > 0.0}\n  gpus:");
    let told = vec![("no_devices".to_owned(), place)];
    for (policy, wanted) in [
        (right.as_str(), vec![]),
        (without, told.clone()),
        (&without.replace("rdmaDevicesPerGPU: 0}", "rdmaDevicesPerGPU: 0.0}"), told.clone()),
        (&without.replace("rdmaDevicesPerGPU: 0}", "rdmaDevicesPerGPU: 0.25}"), vec![]),
        (&by_variable, told),
        (&matched, vec![]),
    ] {
        let found: Vec<_> = codes(policy).into_iter().filter(|(code, _)| code == "no_devices").collect();
        assert_eq!(found, wanted, "{policy}");
    }
}

/// A parameter of the type `number` with a whole value fits a field that takes integers, and reaches the pod as one.
#[test]
fn a_whole_number_fits_where_a_field_needs_an_integer() {
    let policy = |default: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec:\n  provider: lab\n  \
             description: d\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{anyAnnotation: {{lab.example/on: \"true\"}}}}\n  \
             parameters:\n    user: {{description: d, type: number, default: {default}}}\n  rules:\n  - name: user\n    \
             containers: \"true\"\n    container:\n      securityContext: {{runAsUser: \"${{user}}\"}}\n      \
             livenessProbe: {{httpGet: {{port: \"${{user}}\"}}}}\n"
        )
    };
    assert_eq!(codes(&policy("1000")), []);
    let code = |found: Vec<(String, u64)>| found.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    assert!(!code(codes(&policy("2.5"))).is_empty());
    let files = folder(&[("lab.yaml", &policy("1000"))]);
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {lab.example/on: \"true\"}}\nspec:\n  containers:\n  - \
               {name: a, image: b, resources: {limits: {nvidia.com/gpu: 1}}}\n";
    let run = run_in(files.path(), &["mutate", "--policy", "lab.yaml", "-o", "json"], pod).exits(0);
    let pod: Value = serde_json::from_slice(&run.stdout).unwrap();
    let container = &pod["spec"]["containers"][0];
    let values = [&container["securityContext"]["runAsUser"], &container["livenessProbe"]["httpGet"]["port"]];
    assert_eq!(values, [&json!(1000), &json!(1000)], "{pod}");
}

#[test]
fn a_name_that_stands_twice_in_without_is_told() {
    let policy = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: own}\nspec:\n  extends: aws-efa\n  \
                  description: d\n  without: [neuron, neuron]\n";
    let all = found(&[("own.yaml", policy)], &["own.yaml"]);
    let message = all[0]["message"].as_str().unwrap();
    assert_eq!((all.len(), message), (1, "`without` names `neuron` twice"), "{all:?}");
}
