//! The recipe of `docs/workloads.md` for pipelines, with `git`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{POD, file, folder};

/// The commands of the document.
fn recipe() -> String {
    let text = file("docs/workloads.md");
    let mut blocks = text.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.find(|block| block.contains("git diff")).expect("docs/workloads.md has a recipe").to_owned()
}

/// Runs commands of a shell, which ends at the first that fails.
fn shell(folder: &Path, commands: &str) -> (bool, String) {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_fabric-injector"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", binary.parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-ec", commands])
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// `git` is a program of its own: without it, this shows nothing.
#[test]
fn a_pipeline_fails_until_the_manifests_are_injected_and_committed() {
    if Command::new("git").arg("--version").output().is_err() {
        return;
    }
    let folder = folder(&[]);
    let path = folder.path();
    fs::create_dir(path.join("manifests")).unwrap();
    let pod = POD.replacen(
        "spec:\n",
        "spec:\n  nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n",
        1,
    );
    fs::write(path.join("manifests/pod.yaml"), &pod).unwrap();
    let commit = "git add -A; git -c user.name=a -c user.email=a@example.com commit -qm manifests";
    assert!(shell(path, &format!("git init -q; {commit}")).0);
    // The edits are not committed, which the second command finds.
    let (done, said) = shell(path, &recipe());
    assert!(!done && said.contains('+') && said.contains("vpc.amazonaws.com/efa"), "{said}");
    assert!(shell(path, commit).0);
    let (done, said) = shell(path, &recipe());
    assert!(done, "{said}");
    // The first command fails before `git` has anything to compare.
    fs::write(path.join("manifests/pod.yaml"), pod.replace("networking", "netwroking")).unwrap();
    assert!(shell(path, commit).0);
    let (done, said) = shell(path, &recipe());
    assert!(!done && said.contains("misspelled_trigger") && !said.contains("diff --git"), "{said}");
}
