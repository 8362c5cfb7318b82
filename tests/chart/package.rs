//! The policies in the chart: a symbolic link, which Helm follows.

use std::fs;
use std::path::Path;
use std::process::Command;

use fabric_injector::shell::builtin;

use crate::cases::{enabled, providers};
use crate::helm::Helm;
use crate::{chart, root};

pub(crate) fn the_policies_of_the_chart_are_a_link_to_those_of_the_program() {
    let link = chart().join("files/policies");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("../../../../policies"));
    assert_eq!(link.canonicalize().unwrap(), root().join("policies").canonicalize().unwrap());
    let built_in: Vec<String> =
        builtin::POLICIES.iter().map(|policy| format!("{}.yaml", policy.name)).collect();
    assert_eq!(names(&link), built_in);
}

pub(crate) fn the_packaged_chart_has_the_policies_byte_for_byte(helm: &Helm) {
    let folder = tempfile::tempdir().unwrap();
    let package = helm.package(folder.path());
    let mut tar = Command::new("tar");
    let tar = tar.current_dir(folder.path()).args(["--extract", "--gzip", "--file"]).arg(&package).status();
    assert!(tar.unwrap().success());
    let packaged = folder.path().join("fabric-injector/files/policies");
    assert_eq!(names(&packaged), names(&root().join("policies")));
    for folder in ["tests", "template"] {
        assert!(!packaged.join(folder).exists(), "the package has `{folder}`");
    }
    for policy in builtin::POLICIES {
        let file = format!("{}.yaml", policy.name);
        assert_eq!(fs::read_to_string(packaged.join(&file)).unwrap(), policy.text, "{file}");
    }
    for provider in providers().keys() {
        let output = helm.lint(&package, &enabled(provider));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The names of the files in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.path().is_file());
    let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
