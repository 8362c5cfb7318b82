//! `fabric-injector policy list` and `policy show`.

use std::fs;
use std::path::Path;

use super::{ROOT, documents, file, run};

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
    assert_eq!(run.stderr, "");
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines.len(), names().len(), "{}", run.text());
    for (line, name) in lines.iter().zip(names()) {
        let policy = &documents(&file(&format!("policies/{name}.yaml")))[0];
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(name.as_str()));
        assert_eq!(words.next(), policy["spec"]["provider"].as_str());
        let description = policy["spec"]["description"].as_str().unwrap();
        assert!(line.ends_with(description), "no `{description}` in {line}");
    }
}

#[test]
fn the_listing_for_programs_has_what_each_policy_matches_and_takes() {
    let listed = run(&["policy", "list", "-o", "json"], "").exits(0);
    let listed: Vec<serde_json::Value> = serde_json::from_str(listed.text()).unwrap();
    assert_eq!(listed.len(), names().len());
    for (entry, name) in listed.iter().zip(names()) {
        assert_eq!(entry["name"], name.as_str());
        let spec = &documents(&file(&format!("policies/{name}.yaml")))[0]["spec"];
        assert_eq!(entry["provider"], spec["provider"]);
        assert_eq!(entry["gpuResources"], spec["gpuResources"]);
        for key in ["anyAnnotation", "exceptAnnotation", "labels", "namespaces", "ownerKinds"] {
            assert_eq!(entry["match"][key], spec["match"][key], "{name}: {key}");
        }
        assert_eq!(entry["match"]["when"].is_boolean(), spec["match"]["when"].is_string(), "{name}");
        let parameters = spec["parameters"].as_object().unwrap();
        assert_eq!(entry["parameters"].as_object().unwrap().len(), parameters.len(), "{name}");
        for (key, parameter) in parameters {
            for field in ["type", "enum", "minItems", "maxItems"] {
                assert_eq!(entry["parameters"][key][field], parameter[field], "{name}: {key}.{field}");
            }
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
fn show_prints_the_file_as_it_is() {
    for name in names() {
        let run = run(&["policy", "show", &name], "").exits(0);
        assert_eq!(run.text(), file(&format!("policies/{name}.yaml")), "{name}");
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn what_show_prints_is_a_policy_file() {
    let folder = super::folder(&[("mine.yaml", run(&["policy", "show", "aws-efa"], "").exits(0).text())]);
    let mine = super::run_in(folder.path(), &["mutate", "--policy", "mine.yaml", "-q"], super::POD).exits(0);
    assert_eq!(mine.text(), super::aws(&[], super::POD).exits(0).text());
}

#[test]
fn show_of_an_unknown_policy_is_bad_usage() {
    let run = run(&["policy", "show", "something"], "").exits(2);
    run.writes_nothing().says(&["`something`"]);
    for name in names() {
        run.says(&[&name]);
    }
}

#[test]
fn show_prints_a_file_by_its_path_and_no_folder_of_several() {
    let text = file("policies/aws-efa.yaml");
    let folder = super::folder(&[("one.yaml", &text)]);
    let shown = super::run_in(folder.path(), &["policy", "show", "one.yaml"], "").exits(0);
    assert_eq!(shown.text(), text);
    std::fs::write(folder.path().join("two.yaml"), &text).unwrap();
    super::run_in(folder.path(), &["policy", "show", "."], "")
        .exits(2)
        .writes_nothing()
        .says(&["name one of its files"]);
}

#[test]
fn show_needs_a_name() {
    run(&["policy", "show"], "").exits(2).writes_nothing();
}

#[test]
fn an_unknown_name_has_the_nearest_one() {
    for name in ["aws-eff", "aws"] {
        let run = run(&["policy", "show", name], "").exits(2);
        run.writes_nothing().says(&["did you mean `aws-efa`?"]);
        assert!(!run.stderr.contains("nebius"), "{}", run.stderr);
    }
}
