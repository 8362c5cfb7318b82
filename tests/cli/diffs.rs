//! `-o diff` for `patch` and `git apply`: the names of files, symbolic links, and files outside of the working directory.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;

use super::{POD, Run, SMALL, command, finish, folder, run_in};

const PATCH: &[&str] = &["patch", "-p1", "--binary", "--fuzz=0", "--no-backup-if-mismatch"];
const GIT: &[&str] = &["git", "apply", "-"];

/// Applies a diff in a folder. `None` if there is no such program here.
fn apply(program: &[&str], folder: &Path, diff: &[u8]) -> Option<Output> {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).current_dir(folder).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    child.stdin.take().unwrap().write_all(diff).unwrap();
    Some(child.wait_with_output().unwrap())
}

fn diff(folder: &Path, files: &[&OsStr]) -> Run {
    let mut command = command(folder);
    command.args(["mutate", "--policy", SMALL, "--quiet", "-o", "diff"]);
    for file in files {
        command.arg("-f").arg(file);
    }
    finish(&mut command, b"").exits(0)
}

/// Fails unless both programs take the diff in a folder, and make an injected pod of each file.
#[track_caller]
fn applies(run: &Run, folder: &Path, files: &[&Path]) {
    let before: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for program in [PATCH, GIT] {
        let Some(output) = apply(program, folder, &run.stdout) else { continue };
        assert!(output.status.success(), "{program:?}: {output:?}\n{}", run.text_lossy());
        for (file, before) in files.iter().zip(&before) {
            let after = fs::read_to_string(file).unwrap();
            assert_eq!(after.matches("vpc.amazonaws.com/efa").count(), 2, "{program:?}: {after}");
            fs::write(file, before).unwrap();
        }
    }
}

#[test]
fn a_diff_applies_to_a_file_with_any_name() {
    let names: [&[u8]; 14] = [
        b"plain.yaml",
        b"with a blank.yaml",
        b"two  blanks.yaml",
        b" first.yaml",
        b"last.yaml ",
        b"a tab\t.yaml",
        b"last tab.yaml\t",
        b"two\nlines.yaml",
        b"a return\r.yaml",
        b"\"quotes\".yaml",
        b"back\\slash.yaml",
        "ümlaut.yaml".as_bytes(),
        b"\xff not UTF-8.yaml",
        b"\t2020-01-01",
    ];
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let name = OsStr::from_bytes(name);
        let file = folder.path().join(name);
        fs::write(&file, POD).unwrap();
        // An argument has to be UTF-8.
        let argument = if name.to_str().is_some() { name } else { OsStr::new(".") };
        applies(&diff(folder.path(), &[argument]), folder.path(), &[&file]);
    }
}

#[test]
fn a_diff_changes_the_file_of_a_link_once() {
    let folder = folder(&[("pod.yaml", POD)]);
    fs::create_dir(folder.path().join("sub")).unwrap();
    let file = folder.path().join("sub/other.yaml");
    fs::write(&file, POD).unwrap();
    for (target, link) in [("pod.yaml", "a.yaml"), ("a.yaml", "b.yaml"), ("sub", "linked")] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    let files = ["b.yaml", "pod.yaml", "a.yaml", "./pod.yaml", "linked/other.yaml"].map(OsStr::new);
    let run = diff(folder.path(), &files);
    assert_snapshot!(run.said(), @"
    pod.yaml is a file that the diff has already (repeated_file)
    a.yaml is a file that the diff has already (repeated_file)
    ./pod.yaml is a file that the diff has already (repeated_file)
    ");
    assert_eq!(run.text().matches("+++ b/pod.yaml\n").count(), 1, "{}", run.text());
    applies(&run, folder.path(), &[&folder.path().join("pod.yaml"), &file]);
}

#[test]
fn a_diff_of_files_outside_of_the_working_directory_says_where_it_applies() {
    let root = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(root.path()).unwrap();
    let (base, overlay) = (root.join("base"), root.join("over/lay"));
    fs::create_dir_all(&overlay).unwrap();
    fs::create_dir_all(&base).unwrap();
    let (own, other) = (overlay.join("own.yaml"), base.join("other.yaml"));
    fs::write(&own, POD).unwrap();
    fs::write(&other, POD).unwrap();
    symlink(&other, overlay.join("link.yaml")).unwrap();
    for outside in [OsStr::new("../../base"), other.as_os_str(), OsStr::new("link.yaml")] {
        let run = diff(&overlay, &[OsStr::new("own.yaml"), outside]);
        run.says(&["outside of the working directory", &format!("apply the diff in `{}`", root.display())]);
        applies(&run, &root, &[&own, &other]);
    }
    // An absolute path to a file in the working directory needs no other folder.
    let run = diff(&overlay, &[own.as_os_str()]);
    assert_eq!(run.stderr, "");
    applies(&run, &overlay, &[&own]);
}

#[test]
fn the_warnings_about_a_diff_are_json_lines() {
    let folder = folder(&[("pod.yaml", POD)]);
    let args = ["mutate", "--policy", SMALL, "-q", "-o", "diff", "--report", "json", "-f", "pod.yaml"];
    let run = run_in(folder.path(), &[&args[..], &["-f", "./pod.yaml"]].concat(), "").exits(0);
    let warning = &run.reports()[0];
    assert_eq!((&warning["outcome"], &warning["code"]), (&"warning".into(), &"repeated_file".into()));
    assert_eq!(warning["file"], "./pod.yaml");
}
