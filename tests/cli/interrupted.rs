//! Ctrl-C while files are written: each is the old one or the new one as a whole, and no temporary file stays.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{POD, command, folder};

/// The names of the files of a folder.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs the program in a folder, and sends SIGINT when there is a file with such a name. Returns `None` if the program
/// ended before.
fn interrupt(folder: &Path, args: &[&str], is_temporary: fn(&str) -> bool) -> Option<ExitStatus> {
    let mut child = command(folder)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !names(folder).iter().any(|name| is_temporary(name)) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Some(child.wait().unwrap())
}

#[test]
fn an_interrupted_edit_in_place_leaves_each_file_whole_and_no_other() {
    // Writing this takes long enough for a signal to come in between.
    let big = format!("{}{POD}", "# A comment.\n".repeat(500_000));
    let manifests = [("a.yaml", &*big), ("b.yaml", &*big)];
    let args = ["mutate", "--policy", "aws-efa", "--quiet", "--in-place", "-f", "."];
    let done = folder(&manifests);
    assert!(command(done.path()).args(args).status().unwrap().success());
    let edited = fs::read_to_string(done.path().join("a.yaml")).unwrap();

    let mut ended_between = false;
    for _ in 0..100 {
        let folder = folder(&manifests);
        let Some(status) = interrupt(folder.path(), &args, |name| name.starts_with('.')) else { continue };
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for name in names(folder.path()) {
            files.insert(name.clone(), fs::read_to_string(folder.path().join(name)).unwrap());
        }
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a.yaml", "b.yaml"]);
        assert!(files.values().all(|text| *text == big || *text == edited), "a file is cut off");
        // On a busy machine, the signal can come during the second change.
        ended_between = status.signal() == Some(Signal::INT.as_raw()) && files["b.yaml"] == big;
        if ended_between {
            assert!(files["a.yaml"] == edited, "it ends after the change");
            break;
        }
    }
    assert!(ended_between, "no signal came during a change");
}

#[test]
fn interrupted_certificates_leave_no_temporary_key() {
    let mut interrupted = 0;
    for _ in 0..400 {
        let folder = folder(&[]);
        let args = ["certs", ".", "--dns", "a.test"];
        if interrupt(folder.path(), &args, |name| name.contains(".new")).is_none() {
            continue;
        }
        let mut files = names(folder.path());
        files.sort();
        assert_eq!(files, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);
        interrupted += 1;
        if interrupted == 5 {
            return;
        }
    }
    panic!("{interrupted} signals came during a change");
}
