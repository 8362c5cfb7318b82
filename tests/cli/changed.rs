//! Files that are edited: what someone else wrote in the meantime stays, and so does what is outside of a folder.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tempfile::TempDir;

use super::{POD, POLICY, SMALL, folder, run_in};

#[test]
fn a_file_that_changes_during_an_edit_in_place_stays_as_it_was_changed() {
    // The report is longer than what a pipe holds, so that the command waits for its reader before it writes.
    let pods = format!("{POD}---\n").repeat(3000);
    let folder = folder(&[("a.yaml", &*pods), ("b.yaml", POD)]);
    let mut child = super::command(folder.path())
        .args(["mutate", "--policy", SMALL, "--in-place", "-f", "."])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut report = child.stderr.take().unwrap();
    report.read_exact(&mut [0]).unwrap();
    let changed = pods.replacen("trainer", "changed", 1);
    fs::write(folder.path().join("a.yaml"), &changed).unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let error = "error: ./a.yaml cannot be written: it has changed since it was read; run the command again";
    assert!(text.contains(error), "{}", text.lines().last().unwrap());
    assert_eq!(fs::read_to_string(folder.path().join("a.yaml")).unwrap(), changed);
    assert!(fs::read_to_string(folder.path().join("b.yaml")).unwrap().contains("vpc.amazonaws.com/efa"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file stays");
}

const CASES: &str = "apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\npolicy: ../lab.yaml\ncases:\n\
    - name: one\n  workload: pod.yaml\n  expect: {outcome: skipped}\n";

/// A policy and a file of cases, of which `--update` rewrites one.
fn lab() -> TempDir {
    let folder = folder(&[("lab.yaml", POLICY)]);
    fs::create_dir(folder.path().join("tests")).unwrap();
    fs::write(folder.path().join("tests/a.yaml"), CASES).unwrap();
    fs::write(folder.path().join("tests/pod.yaml"), POD).unwrap();
    folder
}

#[test]
fn cases_that_change_during_an_update_stay_as_they_were_changed() {
    let folder = lab();
    let (cases, pipe) = (folder.path().join("tests/a.yaml"), folder.path().join("tests/pod.yaml"));
    fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = super::command(folder.path())
        .args(["policy", "test", "--update", "tests/a.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command opens the pipe when it has read the cases, and waits for the pod.
    let mut pod = opened(&pipe);
    let changed = CASES.replace("name: one", "name: changed");
    fs::write(&cases, &changed).unwrap();
    // A command that overwrites the cases reads the pod once more.
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, POD).unwrap();
    pod.write_all(POD.as_bytes()).unwrap();
    drop(pod);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("tests/a.yaml cannot be written: it has changed since it was read"), "{text}");
    assert_eq!(fs::read_to_string(&cases).unwrap(), changed);
}

/// A pipe to write to, when it has a reader.
fn opened(pipe: &Path) -> fs::File {
    let started = Instant::now();
    loop {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        match fs::File::options().write(true).custom_flags(flags).open(pipe) {
            Ok(opened) => return opened,
            Err(error) if started.elapsed() > Duration::from_mins(1) => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A link in `folder/` to a file next to it, and one to a file in it.
fn links(text: &str) -> TempDir {
    let outer = folder(&[("other.yaml", text), ("folder/inner.yml", text)]);
    symlink("../other.yaml", outer.path().join("folder/a.yaml")).unwrap();
    symlink("inner.yml", outer.path().join("folder/b.yaml")).unwrap();
    outer
}

fn is_edited(folder: &Path, name: &str) -> bool {
    fs::read_to_string(folder.join(name)).unwrap().contains("vpc.amazonaws.com/efa")
}

#[test]
fn a_link_in_a_folder_does_not_lead_an_edit_out_of_it() {
    let outer = links(POD);
    let path = outer.path();
    let args = ["mutate", "--policy", SMALL, "--in-place", "-f", "folder"];
    let other = fs::canonicalize(path.join("other.yaml")).unwrap();
    run_in(path, &args, "").exits(2).writes_nothing().says(&[&format!(
        "error: folder/a.yaml cannot be written: it is a link to {}, outside of folder; name the file itself to edit it",
        other.display()
    )]);
    assert!(!is_edited(path, "other.yaml") && is_edited(path, "folder/inner.yml"));
    // Reading follows it, as kubectl does.
    let read = run_in(path, &["mutate", "--policy", SMALL, "-q", "-f", "folder"], "").exits(0);
    assert_eq!(read.documents().len(), 3);
    run_in(path, &["mutate", "--policy", SMALL, "--in-place", "-f", "folder/a.yaml"], "").exits(0);
    assert!(is_edited(path, "other.yaml"));
    assert!(fs::symlink_metadata(path.join("folder/a.yaml")).unwrap().is_symlink());
    // Nothing is left to edit.
    run_in(path, &args, "").exits(0);
}

#[test]
fn a_link_among_cases_does_not_lead_an_update_out_of_their_folder() {
    let folder = lab();
    let outside = tempfile::tempdir().unwrap();
    let other = outside.path().join("cases.yaml");
    fs::write(&other, CASES).unwrap();
    fs::remove_file(folder.path().join("tests/a.yaml")).unwrap();
    symlink(&other, folder.path().join("tests/a.yaml")).unwrap();
    let run = run_in(folder.path(), &["policy", "test", "--update", "."], "").exits(2);
    run.says(&["tests/a.yaml cannot be written: it is a link to ", "cases.yaml, outside of ."]);
    assert_eq!(fs::read_to_string(&other).unwrap(), CASES);
    run_in(folder.path(), &["policy", "test", "--update", "tests/a.yaml"], "").exits(0);
    assert_ne!(fs::read_to_string(&other).unwrap(), CASES);
}
