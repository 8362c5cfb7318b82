//! `-o yaml`, `json`, `patch` and `diff`.

use std::io::Read;
use std::path::Path;

use json_patch::Patch;
use serde_json::{Value, json};

use super::{POD, SETTINGS, SMALL, all_workloads, documents, mutate, small};

/// The values of a run with `-o json`, those of blank documents left out.
fn values(run: &super::Run) -> Vec<Value> {
    run.values().into_iter().filter(|value| !value.is_null()).collect()
}

#[test]
fn the_default_and_yaml_and_json_say_the_same() {
    let stream = all_workloads();
    let json = values(&small(&["-o", "json"], &stream).exits(0));
    assert!(json.len() > 20);
    assert_eq!(small(&["-o", "yaml"], &stream).exits(0).documents(), json);
    assert_eq!(small(&[], &stream).exits(0).documents(), json);
}

#[test]
fn json_is_one_value_after_another() {
    let run = small(&["-o", "json"], format!("{SETTINGS}---\n{POD}")).exits(0);
    let kinds: Vec<_> = run.values().iter().map(|value| value["kind"].clone()).collect();
    assert_eq!(kinds, ["ConfigMap", "Pod"]);
    assert_eq!(run.values()[0], documents(SETTINGS)[0]);
}

#[test]
fn yaml_of_changed_json_is_yaml() {
    let run = small(&["-o", "yaml"], documents(POD)[0].to_string()).exits(0);
    assert!(run.text().starts_with("apiVersion: v1\nkind: Pod\n"), "{}", run.text());
    assert_eq!(run.documents(), small(&[], POD).exits(0).documents());
}

#[test]
fn a_patch_turns_each_changed_document_into_what_json_prints() {
    let stream = all_workloads();
    let before = documents(&stream);
    for policy in ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"] {
        let args = ["--quiet", "--policy", policy, "-o"];
        let after = values(&mutate(&[&args[..], &["json"]].concat(), &stream).exits(0));
        assert_eq!(before.len(), after.len());
        let changed: Vec<usize> = (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
        assert!(changed.len() > 15, "{policy}");
        let patches = mutate(&[&args[..], &["patch"]].concat(), &stream).exits(0).lines();
        assert_eq!(patches.len(), changed.len(), "{policy}");
        for (patch, at) in patches.into_iter().zip(changed) {
            let patch: Patch = serde_json::from_value(patch["patch"].clone()).expect("a JSON Patch");
            let mut document = before[at].clone();
            json_patch::patch(&mut document, &patch).unwrap();
            assert_eq!(document, after[at], "{policy}");
        }
    }
}

#[test]
fn a_patch_is_one_object_a_line_with_its_document_and_paths_from_the_root() {
    let list = super::file("tests/workloads/list.yaml");
    let run = small(&["-o", "patch"], format!("---\n{SETTINGS}---\n{list}---\n{POD}")).exits(0);
    let lines = run.lines();
    assert_eq!(lines.len(), 2, "{}", run.text());
    let places = [(2, "List", "/items/1/"), (3, "Pod/trainer", "/")];
    for (line, (document, object, root)) in lines.iter().zip(places) {
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["version", "file", "document", "object", "patch"]);
        assert_eq!((&line["version"], &line["file"]), (&json!(1), &json!("stdin")));
        assert_eq!((&line["document"], &line["object"]), (&json!(document), &json!(object)));
        let operations = line["patch"].as_array().unwrap();
        assert!(!operations.is_empty());
        for operation in operations {
            assert!(["add", "replace"].contains(&operation["op"].as_str().unwrap()), "{operation}");
            let path = operation["path"].as_str().unwrap();
            assert!(
                ["spec/", "metadata/"].iter().any(|part| path.starts_with(&format!("{root}{part}"))),
                "{path}"
            );
            assert!(operation.get("value").is_some(), "{operation}");
        }
    }
    let efa = json!({"op": "add", "path": "/spec/containers/0/resources/limits/vpc.amazonaws.com~1efa", "value": "8"});
    assert!(lines[1]["patch"].as_array().unwrap().contains(&efa), "{}", lines[1]);
}

#[test]
fn documents_that_do_not_change_have_neither_patch_nor_diff() {
    for format in ["patch", "diff"] {
        small(&["-o", format, "-f", "tests/workloads/untriggered.yaml"], "").exits(0).writes_nothing();
    }
}

/// The hunks of a unified diff: the four numbers of its head, and its lines.
fn hunks(text: &str) -> Vec<([usize; 4], Vec<&str>)> {
    let mut hunks: Vec<([usize; 4], Vec<&str>)> = Vec::new();
    for line in text.lines().skip(2) {
        if let Some(head) = line.strip_prefix("@@ -").and_then(|rest| rest.strip_suffix(" @@")) {
            let numbers: Vec<usize> = head
                .split(" +")
                .flat_map(|side| {
                    let (start, length) = side.split_once(',').unwrap_or((side, "1"));
                    [start.parse().unwrap(), length.parse().unwrap()]
                })
                .collect();
            hunks.push((numbers.try_into().unwrap(), Vec::new()));
        } else {
            hunks.last_mut().unwrap_or_else(|| panic!("`{line}` stands in no hunk")).1.push(line);
        }
    }
    hunks
}

#[test]
fn a_diff_is_unified_and_leads_to_the_yaml_that_comes_out() {
    let run = small(&["-o", "diff"], POD).exits(0);
    let mut head = run.text().lines();
    assert!(
        head.next().is_some_and(|line| line.starts_with("--- ") && line.contains("stdin")),
        "{}",
        run.text()
    );
    assert!(
        head.next().is_some_and(|line| line.starts_with("+++ ") && line.contains("stdin")),
        "{}",
        run.text()
    );
    let yaml = small(&["-o", "yaml"], POD).exits(0);
    let new: Vec<&str> = yaml.text().lines().collect();
    let old: Vec<&str> = POD.lines().collect();
    let hunks = hunks(run.text());
    assert!(!hunks.is_empty(), "{}", run.text());
    for ([old_start, old_length, new_start, new_length], lines) in hunks {
        let side = |sign: char| -> Vec<&str> {
            lines.iter().filter(|line| line.starts_with([' ', sign])).map(|line| &line[1..]).collect()
        };
        assert_eq!(side('-'), old[old_start - 1..old_start - 1 + old_length]);
        assert_eq!(side('+'), new[new_start - 1..new_start - 1 + new_length]);
        assert!(lines.iter().any(|line| line.starts_with(' ')), "a hunk has context");
        assert!(lines.iter().all(|line| !line.starts_with('-')), "nothing of the pod is removed");
    }
    assert!(run.text().contains("\n+        vpc.amazonaws.com/efa: \"8\"\n"), "{}", run.text());
}

#[test]
fn a_diff_names_each_file_once() {
    let folder =
        super::folder(&[("a.yaml", &format!("---\n{POD}---\n{SETTINGS}---\n{POD}")), ("b.yaml", POD)]);
    let args = ["mutate", "--policy", SMALL, "-q", "-o", "diff", "-f", "a.yaml", "-f", "b.yaml"];
    let run = super::run_in(folder.path(), &args, "").exits(0);
    let heads = |mark| run.text().lines().filter(|line| line.starts_with(mark)).collect::<Vec<_>>();
    assert_eq!(heads("--- "), ["--- a/a.yaml", "--- a/b.yaml"]);
    assert_eq!(heads("+++ "), ["+++ b/a.yaml", "+++ b/b.yaml"]);
}

#[test]
fn a_diff_has_no_colour_in_a_pipe() {
    assert!(!small(&["-o", "diff"], POD).exits(0).text().contains('\u{1b}'));
    assert!(!mutate(&["--policy", SMALL], format!("{POD}---\na: [")).exits(2).stderr.contains('\u{1b}'));
}

/// The output of `mutate -o diff` on a terminal, with these variables in its environment.
#[cfg(target_os = "linux")]
fn on_terminal(variables: &[(&str, &str)]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let terminal = std::fs::OpenOptions::new().write(true).open(name).unwrap();
    let mut command = super::command(Path::new(super::ROOT));
    command.args(["mutate", "--policy", SMALL, "-q", "-o", "diff", "-f", "tests/workloads/pod.yaml"]);
    let mut child = command.envs(variables.iter().copied()).stdout(terminal).spawn().unwrap();
    // With the command goes its end of the terminal, and a read fails once that is closed.
    drop(command);
    let mut shown = Vec::new();
    let _ = std::fs::File::from(controller).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_diff_has_colour_on_a_terminal() {
    let shown = on_terminal(&[("TERM", "xterm-256color")]);
    assert!(shown.contains("\u{1b}[32m+"), "{shown:?}");
    assert!(!on_terminal(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).contains('\u{1b}'));
}
