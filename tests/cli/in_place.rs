//! `mutate --in-place` and `-o diff` on files: what is edited, what stays, and what `patch` makes of a diff.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use fabric_engine::policy_set::PolicySet;
use fabric_injector::builtin;
use fabric_injector::stream::RawDocuments;
use fabric_workloads::manifest::{self, Document, Wanted};
use insta::assert_snapshot;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use tempfile::TempDir;

use super::{POD, ROOT, SETTINGS, SMALL, folder, mutate, refusing, run_in, sections};

const POLICIES: [&str; 5] = ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov", "onprem-rdma"];

/// Files by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// The workloads and the manifests of the repository.
static MANIFESTS: LazyLock<Files> = LazyLock::new(|| {
    let mut files = Files::new();
    for name in ["with a blank.yaml", "with \"quotes\".yaml"] {
        files.insert(name.to_owned(), POD.into());
    }
    for folder in ["tests/workloads", "tests/manifests"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{}-{}", &folder[6..], path.file_name().unwrap().to_str().unwrap());
            files.insert(name, fs::read(path).unwrap());
        }
    }
    assert!(files.len() > 80, "{}", files.len());
    files
});

/// The files after `mutate --in-place` with each policy.
static EDITED: LazyLock<[(&str, Files); 5]> =
    LazyLock::new(|| POLICIES.map(|policy| (policy, edited(policy))));

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "json")
}

fn folder_of(files: &Files) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn edited(policy: &str) -> Files {
    let folder = folder_of(&MANIFESTS);
    let args = ["mutate", "--policy", policy, "--quiet", "--in-place", "-f", "."];
    run_in(folder.path(), &args, "").exits(0).writes_nothing();
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, MANIFESTS.len(), "no other file is left in the folder");
    MANIFESTS.keys().map(|name| (name.clone(), fs::read(folder.path().join(name)).unwrap())).collect()
}

/// The values of the documents of a file, injected if there is a policy.
fn values(content: &[u8], policies: Option<&PolicySet>) -> Vec<Option<Value>> {
    let value = |raw| {
        let mut document = Document::read(&raw).unwrap();
        let Some(policies) = policies else { return document.value };
        let injected = manifest::inject(policies, &mut document, &raw, Wanted::default()).unwrap();
        injected.value.or(document.value)
    };
    RawDocuments::new(content).map(|raw| value(raw.unwrap())).collect()
}

#[test]
fn an_edited_file_reads_as_the_injected_objects() {
    for (policy, after) in &*EDITED {
        let definition = builtin::find(policy).unwrap().definition().unwrap();
        let policies = PolicySet::new(vec![(definition, BTreeMap::new())]).unwrap();
        let mut changed = 0;
        for (name, before) in &*MANIFESTS {
            assert_eq!(values(&after[name], None), values(before, Some(&policies)), "{policy}: {name}");
            changed += usize::from(after[name] != *before);
        }
        assert!(changed > 60, "{policy}: {changed}");
    }
}

/// The comments of a text, and whatever else follows a `#`.
fn comments(text: &str) -> Vec<&str> {
    let comment = |line: &'_ str| -> Option<usize> {
        let at = line.find('#')?;
        (at == 0 || line[..at].ends_with([' ', '\t'])).then_some(at)
    };
    text.lines().filter_map(|line| Some(line[comment(line)?..].trim_end())).collect()
}

/// Returns true for a line whose value another value can replace: in flow style, an alias, nothing, or a list of
/// networks; and for the last line of a list in flow style, which gets a comma.
fn can_change(line: &str, new: &str) -> bool {
    let content = line.split(" #").next().unwrap_or_default().trim_end();
    let value = content.split_once(": ").map_or(content, |(_, value)| value).trim();
    value.contains(['{', '}', '[', ']', '*', '~', '?'])
        || value == "null"
        || line.contains("cni.cncf.io/networks")
        || new.contains(&format!("{content},"))
        || content.trim() == ": \"true\""
}

#[test]
fn an_edit_keeps_comments_and_every_line_whose_value_stays() {
    for (policy, after) in &*EDITED {
        for (name, before) in &*MANIFESTS {
            let (old, new) =
                (std::str::from_utf8(before).unwrap(), std::str::from_utf8(&after[name]).unwrap());
            assert_eq!(comments(new), comments(old), "{policy}: {name}");
            assert_eq!(new.starts_with('\u{feff}'), old.starts_with('\u{feff}'), "{policy}: {name}");
            assert_eq!(new.ends_with('\n'), old.ends_with('\n'), "{policy}: {name}");
            if old.contains("\r\n") {
                assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{policy}: {name}");
            }
            if is_json(name) {
                continue;
            }
            for change in TextDiff::from_lines(old, new).iter_all_changes() {
                let line = change.value();
                let unended = !old.ends_with('\n') && old.ends_with(line);
                let touched = change.tag() == ChangeTag::Delete && !unended;
                assert!(!touched || can_change(line, new), "{policy}: {name}: `{line}` in\n{new}");
            }
        }
    }
}

#[test]
fn the_default_output_and_yaml_are_the_edited_text() {
    let (policy, after) = &EDITED[0];
    let folder = folder_of(&MANIFESTS);
    let names = MANIFESTS.keys().filter(|name| !is_json(name));
    // Each run takes as long as many files would.
    for (at, name) in names.enumerate().filter(|(at, _)| at % 3 == 0) {
        let format = if at % 2 == 0 { &[][..] } else { &["-o", "yaml"] };
        let args = [&["mutate", "--policy", policy, "-q", "-f", name][..], format].concat();
        assert_eq!(run_in(folder.path(), &args, "").exits(0).stdout, after[name], "{name}");
    }
}

/// `patch` is a program of its own: without it, this shows nothing.
#[test]
fn patch_applies_a_diff_and_gives_the_edited_files() {
    if Command::new("patch").arg("--version").output().is_err() {
        return;
    }
    for (policy, edited) in &*EDITED {
        let folder = folder_of(&MANIFESTS);
        let diff = run_in(folder.path(), &["mutate", "--policy", policy, "-q", "-o", "diff", "-f", "."], "");
        // `git apply` refuses a path with `.` in it.
        assert!(!diff.text_lossy().contains("/./"), "{}", diff.text_lossy());
        let diff = diff.exits(0).stdout;
        fs::write(folder.path().join("x.diff"), &diff).unwrap();
        // Without `--binary`, `patch` takes CRLF for an accident of transport.
        let patch = Command::new("patch")
            .args(["-p1", "--binary", "--fuzz=0", "-i", "x.diff"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&patch.stdout).into_owned();
        assert!(patch.status.success(), "{policy}: {said}");
        assert!(!said.contains("offset") && !said.contains("fuzz"), "{policy}: {said}");
        for (name, content) in edited {
            assert!(fs::read(folder.path().join(name)).unwrap() == *content, "{policy}: {name}");
        }
    }
}

#[test]
fn a_file_that_does_not_change_is_not_written() {
    let folder = folder(&[("a.yaml", SETTINGS), ("b.yaml", POD)]);
    let inode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().ino();
    let args = ["mutate", "--policy", SMALL, "-i", "-f", "."];
    let before = (inode("a.yaml"), inode("b.yaml"));
    assert_snapshot!(run_in(folder.path(), &args, "").recorded(), @"
    exit status: 0
    ----- stderr -----
    ./b.yaml: document 1: Pod/trainer: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    ");
    assert_eq!(inode("a.yaml"), before.0);
    assert_ne!(inode("b.yaml"), before.1);
    let once = (inode("b.yaml"), fs::read(folder.path().join("b.yaml")).unwrap());
    run_in(folder.path(), &args, "").exits(0).writes_nothing();
    assert_eq!((inode("b.yaml"), fs::read(folder.path().join("b.yaml")).unwrap()), once);
}

#[test]
fn the_mode_of_a_file_and_a_link_to_it_stay() {
    let folder = folder(&[("pod.yaml", POD)]);
    let file = folder.path().join("pod.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("pod.yaml", folder.path().join("link.yaml")).unwrap();
    let args = ["mutate", "--policy", SMALL, "-q", "--in-place", "-f", "link.yaml"];
    run_in(folder.path(), &args, "").exits(0);
    assert!(fs::symlink_metadata(folder.path().join("link.yaml")).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(fs::read_to_string(&file).unwrap().contains("vpc.amazonaws.com/efa"));
}

#[test]
fn a_file_with_a_refused_or_a_bad_document_stays_and_the_others_are_edited() {
    let policy = refusing();
    let refused = POD.replace("    resources:", "    env: [{name: FABRIC, value: mine}]\n    resources:");
    let bad = format!("{POD}---\na: [\n");
    let answers = [format!("{POD}---\n{refused}"), bad].map(|content| {
        let folder = folder(&[("lab.yml", &policy), ("a.yaml", &content), ("b.yaml", POD)]);
        let args = ["mutate", "--policy", "lab.yml", "--in-place", "-f", "a.yaml", "-f", "b.yaml"];
        let run = run_in(folder.path(), &args, "");
        assert_eq!(fs::read_to_string(folder.path().join("a.yaml")).unwrap(), content);
        assert!(fs::read_to_string(folder.path().join("b.yaml")).unwrap().contains("example.com/nic"));
        run.recorded()
    });
    assert_snapshot!(answers.join("\n"), @"
    exit status: 1
    ----- stderr -----
    a.yaml: document 1: Pod/trainer: mutated by lab@<digest>
      + main: example.com/nic 16, env FABRIC, capability IPC_LOCK
      + pod: annotation fabric-injector.io/injected
    a.yaml: document 2: Pod/trainer: refused: `spec.containers[main].env[FABRIC]`: `FABRIC` is `mine`; remove it (other_fabric)
    a.yaml stays as it is, without these changes
    b.yaml: document 1: Pod/trainer: mutated by lab@<digest>
      + main: example.com/nic 16, env FABRIC, capability IPC_LOCK
      + pod: annotation fabric-injector.io/injected

    exit status: 2
    ----- stderr -----
    a.yaml: document 1: Pod/trainer: mutated by lab@<digest>
      + main: example.com/nic 16, env FABRIC, capability IPC_LOCK
      + pod: annotation fabric-injector.io/injected
    error: a.yaml: document 2: line 16, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 15
    a.yaml stays as it is, without these changes
    b.yaml: document 1: Pod/trainer: mutated by lab@<digest>
      + main: example.com/nic 16, env FABRIC, capability IPC_LOCK
      + pod: annotation fabric-injector.io/injected
    ");
}

#[test]
fn a_refused_document_is_not_in_a_diff_and_the_lines_after_it_count_right() {
    let policy = refusing();
    let refused = POD.replace("    resources:", "    env: [{name: FABRIC, value: mine}]\n    resources:");
    let folder = folder(&[("lab.yml", &policy), ("a.yaml", &format!("{refused}---\na: [\n---\n{POD}"))]);
    let args = ["mutate", "--policy", "lab.yml", "-o", "diff", "-f", "a.yaml"];
    let run = run_in(folder.path(), &args, "").exits(2);
    let heads: Vec<&str> = run.text().lines().filter(|line| line.starts_with("@@ ")).collect();
    let first = refused.lines().count() + 4 + POD.lines().position(|line| line.contains("true")).unwrap();
    assert!(heads[0].starts_with(&format!("@@ -{},", first - 2)), "{first}: {heads:?}");
}

#[test]
fn in_place_needs_files_and_prints_no_format() {
    let in_place =
        |args: &[&str]| mutate(&[&["--policy", SMALL, "--in-place"], args].concat(), POD).recorded();
    assert_snapshot!(in_place(&[]), @"
    exit status: 2
    ----- stderr -----
    error: the following required arguments were not provided:
      --filename <FILE|DIR|->

    Usage: fabric-injector mutate --filename <FILE|DIR|-> --policy <NAME|PATH|DIR> --in-place

    For more information, try '--help'.
    ");
    assert_snapshot!(in_place(&["-f", "-"]), @"
    exit status: 2
    ----- stderr -----
    error: `--in-place` edits files, and `-` is standard input
    ");
    assert_snapshot!(in_place(&["-o", "yaml", "-f", "tests/workloads/pod.yaml"]), @"
    exit status: 2
    ----- stderr -----
    error: the argument '--in-place' cannot be used with '--output <FORMAT>'

    Usage: fabric-injector mutate --policy <NAME|PATH|DIR> --in-place --filename <FILE|DIR|->

    For more information, try '--help'.
    ");
    assert_snapshot!(in_place(&["-f", "/dev/null"]), @"
    exit status: 2
    ----- stderr -----
    error: /dev/null is not a regular file
    ");
}

/// Which of the two blocks counts decides whether the pod is injected.
#[test]
fn a_second_block_of_annotations_is_an_error_whichever_comes_first() {
    let other = "  annotations: {team: a}\n";
    let answers = [
        POD.replace("  annotations:\n", &format!("{other}  annotations:\n")),
        POD.replace("spec:\n", &format!("{other}spec:\n")),
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"annotations\": {\"@\": \"true\"}, \"annotations\": {}}, \
          \"spec\": {\"containers\": [{\"name\": \"a\", \"image\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": 8}}}]}}"
            .replace('@', super::TRIGGER),
    ]
    .map(|pod| mutate(&["--policy", SMALL], &pod).recorded());
    assert_snapshot!(answers.join("\n"), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 6, column 3: the key `annotations` appears twice in one map, and one of the two values would be lost

    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 7, column 3: the key `annotations` appears twice in one map, and one of the two values would be lost

    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 122: the key `annotations` appears twice in one map, and one of the two values would be lost
    ");
    // In any other document, it is not this program's affair.
    let pod = POD.replace(super::TRIGGER, "other").replace("spec:\n", &format!("{other}spec:\n"));
    assert_eq!(mutate(&["--policy", SMALL], &pod).exits(0).text(), pod);
}

#[test]
fn a_text_at_the_end_that_readers_end_differently_is_not_edited() {
    let note = |header: &str| {
        format!("{POD}  hostname: {header}\n    first\n    second").replace("hostname", "note")
    };
    let answers = ["|", ">", "|+", "|2"].map(|header| {
        let pod = note(header);
        let other =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: {header}\n    b");
        let folder = folder(&[("pod.yaml", &pod), ("other.yaml", &other)]);
        let args = ["mutate", "--policy", SMALL, "--in-place", "-f", "pod.yaml", "-f", "other.yaml"];
        let run = run_in(folder.path(), &args, "").exits(2);
        assert_eq!(fs::read_to_string(folder.path().join("pod.yaml")).unwrap(), pod);
        fs::write(folder.path().join("pod.yaml"), format!("{pod}\n")).unwrap();
        run_in(folder.path(), &args, "").exits(0);
        (header, run.recorded())
    });
    // A document that does not change is passed on.
    assert_snapshot!(sections(answers), @"
    ## |
    exit status: 2
    ----- stderr -----
    error: pod.yaml: document 1: line 15, column 5: add a line end at the end of the file: kubectl reads this text with one, and other YAML readers without, and one of the two values would be lost
    pod.yaml stays as it is

    ## >
    exit status: 2
    ----- stderr -----
    error: pod.yaml: document 1: line 15, column 5: add a line end at the end of the file: kubectl reads this text with one, and other YAML readers without, and one of the two values would be lost
    pod.yaml stays as it is

    ## |+
    exit status: 2
    ----- stderr -----
    error: pod.yaml: document 1: line 15, column 5: add a line end at the end of the file: kubectl reads this text with one, and other YAML readers without, and one of the two values would be lost
    pod.yaml stays as it is

    ## |2
    exit status: 2
    ----- stderr -----
    error: pod.yaml: document 1: line 15, column 5: add a line end at the end of the file: kubectl reads this text with one, and other YAML readers without, and one of the two values would be lost
    pod.yaml stays as it is
    ");
    let pod = note("|-");
    let folder = folder(&[("pod.yaml", &pod)]);
    run_in(folder.path(), &["mutate", "--policy", SMALL, "-i", "-f", "pod.yaml"], "").exits(0);
}
