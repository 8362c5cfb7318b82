//! `fabric-injector policy list` and `policy show`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use super::{ROOT, assert_file_snapshot, documents, file, run};

/// The names of the files in `policies`.
fn names() -> Vec<String> {
    let entries = fs::read_dir(Path::new(ROOT).join("policies")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut names: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    names
}

#[test]
fn every_policy_of_the_repository_is_listed_with_provider_and_description() {
    let run = run(&["policy", "list"], "").exits(0);
    assert_eq!(run.text().lines().count(), names().len(), "{}", run.text());
    assert_file_snapshot!(run.recorded());
}

#[test]
fn the_listing_for_programs_has_what_each_policy_matches_and_takes() {
    let listed = run(&["policy", "list", "-o", "json"], "").exits(0);
    let listed: Vec<serde_json::Value> = serde_json::from_str(listed.text()).unwrap();
    assert_eq!(listed.len(), names().len());
    for (entry, name) in listed.iter().zip(names()) {
        assert_eq!(entry["name"], name.as_str());
        let spec = &documents(run(&["policy", "show", &name], "").exits(0).text())[0]["spec"];
        let provider = &spec["provider"];
        assert_eq!(entry["provider"].as_str(), provider["name"].as_str().or(provider.as_str()));
        assert_eq!(entry["gpuResources"], spec["gpus"]["resources"]);
        for key in ["anyAnnotation", "exceptAnnotation", "labels", "namespaces", "ownerKinds"] {
            assert_eq!(entry["match"][key], spec["match"][key], "{name}: {key}");
        }
        assert_eq!(entry["match"]["when"].is_boolean(), spec["match"]["when"].is_string(), "{name}");
        let parameters = spec["parameters"].as_object().unwrap();
        assert_eq!(entry["parameters"].as_object().unwrap().len(), parameters.len(), "{name}");
        for (key, parameter) in parameters {
            assert_eq!(entry["parameters"][key]["enum"], parameter["enum"], "{name}: {key}.enum");
            let kind = &entry["parameters"][key]["type"];
            // A default or an `enum` can tell the type, too.
            assert!(
                kind.is_string() && (parameter["type"].is_null() || *kind == parameter["type"]),
                "{name}: {key}.type"
            );
            for field in ["minimum", "maximum"] {
                // The bound of a quantity is a text.
                let number =
                    |value: &serde_json::Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
                assert_eq!(
                    number(&entry["parameters"][key][field]),
                    number(&parameter[field]),
                    "{name}: {key}.{field}"
                );
            }
        }
    }
}

#[test]
fn show_prints_the_file_as_it_is_if_asked_to() {
    for name in names() {
        let run = run(&["policy", "show", "--source", &name], "").exits(0);
        assert_eq!(run.text(), file(&format!("policies/{name}.yaml")), "{name}");
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn what_show_prints_is_one_file_that_has_all_of_the_policy() {
    let without_digest = |text: &str| {
        let stamp = text.find("fabric-injector.io/injected").unwrap();
        let digest = stamp + text[stamp..].find('@').unwrap();
        format!("{}{}", &text[..digest], &text[digest + 13..])
    };
    let mut compared = 0;
    for name in names() {
        let shown = run(&["policy", "show", &name], "").exits(0);
        assert!(
            shown.text().starts_with("# Composed of\n#   policies/parts/multinode.yaml\n"),
            "{}",
            shown.text()
        );
        assert!(shown.text().contains(&format!("#   policies/{name}.yaml\n")), "{}", shown.text());
        assert!(!shown.text().contains("extends"), "{}", shown.text());
        let folder = super::folder(&[("mine.yaml", shown.text())]);
        let workload = file("tests/workloads/hgx-job.yaml");
        let mine =
            super::run_in(folder.path(), &["mutate", "--policy", "mine.yaml", "-q"], &workload).exits(0);
        let built_in = super::run_in(folder.path(), &["mutate", "--policy", &name, "-q"], &workload).exits(0);
        // The conditions of two policies leave the job to others.
        if built_in.text().contains("fabric-injector.io/injected") {
            assert_eq!(without_digest(mine.text()), without_digest(built_in.text()), "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

#[test]
fn show_of_an_extension_needs_its_base_and_shows_a_part_with_its_parts() {
    let ours = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: ours}\nspec: {extends: lab}\n";
    let folder = super::folder(&[("lab.yaml", super::POLICY), ("ours.yaml", ours)]);
    let run_in = |args: &[&str]| super::run_in(folder.path(), &[&["policy", "show"], args].concat(), "");
    assert_snapshot!(run_in(&["ours.yaml"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: there is no policy `lab` to extend
     --> ours.yaml:4:17
      |
    4 | spec: {extends: lab}
      |                 ^^^
      |
      = hint: known here: `aws-efa`, `azure-infiniband`, `compute-domain`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `gke`, `gpu-claims`, `gpudirect-tcp`, `host-interface`, `host-ssh`, `infiniband`, `lingjun-rdma`, `locked-memory`, `multinode`, `nccl`, `nccl-file`, `nccl-log`, `nebius-infiniband`, `net-plugin`, `nic-claims`, `nic-class`, …
    ");
    let run = run_in(&["ours.yaml", "lab.yaml"]).exits(0);
    assert!(
        run.text().contains("metadata: {name: ours}\n") && run.text().contains("example.com/nic"),
        "{}",
        run.text()
    );
    let part = run_in(&["infiniband"]).exits(0);
    assert!(part.text().contains("name: nccl-debug") && !part.text().contains("match:"), "{}", part.text());
}

#[test]
fn show_reports_what_parts_of_an_extension_both_have() {
    let part = |name: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\n\
             spec: {{match: {{namespaces: [{name}]}}}}\n"
        )
    };
    let ours = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: ours}\n\
                spec: {extends: [aws-efa, one, two]}\n";
    let files = [("ours.yaml", ours), ("one.yaml", &*part("one")), ("two.yaml", &*part("two"))];
    let folder = super::folder(&files);
    let run = super::run_in(folder.path(), &["policy", "show", "ours.yaml", "one.yaml", "two.yaml"], "");
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the base `one` has `match.namespaces`, too
     --> two.yaml:4:16
      |
    4 | spec: {match: {namespaces: [two]}}
      |                ^^^^^^^^^^
      |
      = hint: take one of the two in `extends`, or leave out that of `two` and write it in the policy itself
    ");
}

#[test]
fn show_of_an_unknown_policy_is_bad_usage() {
    assert_snapshot!(run(&["policy", "show", "something"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: there is no built-in policy `something`, nor a file or folder of that name
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
}

#[test]
fn show_prints_a_file_by_its_path_and_no_folder_of_several() {
    let text = file("policies/aws-efa.yaml");
    let folder = super::folder(&[("one.yaml", &text)]);
    let shown = super::run_in(folder.path(), &["policy", "show", "--source", "one.yaml"], "").exits(0);
    assert_eq!(shown.text(), text);
    std::fs::write(folder.path().join("two.yaml"), &text).unwrap();
    assert_snapshot!(super::run_in(folder.path(), &["policy", "show", "."], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: . is a folder with several policies; name one of its files
    ");
}

#[test]
fn show_needs_a_name() {
    assert_snapshot!(run(&["policy", "show"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the following required arguments were not provided:
      <NAME|FILE>

    Usage: fabric-injector policy show <NAME|FILE> [BASE]...

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_name_has_the_nearest_one() {
    let answers = ["aws-eff", "aws"].map(|name| run(&["policy", "show", name], "").recorded());
    assert_snapshot!(answers.join("\n"), @"
    exit status: 2
    ----- stderr -----
    error: there is no built-in policy `aws-eff`, nor a file or folder of that name
    hint: did you mean `aws-efa`? `fabric-injector policy list` lists them all

    exit status: 2
    ----- stderr -----
    error: there is no built-in policy `aws`, nor a file or folder of that name
    hint: did you mean `aws-efa`? `fabric-injector policy list` lists them all
    ");
}
