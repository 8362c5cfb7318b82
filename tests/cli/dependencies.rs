//! The dependencies of the tests, and their snapshots.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::{ROOT, file};

/// The crates of a build with these edges, each with its features.
fn crates(edges: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--workspace",
            "--locked",
            "--offline",
            "--prefix",
            "none",
            "--no-dedupe",
            "--format",
            "{p} with {f}",
        ])
        .args(["--edges", edges])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    String::from_utf8(tree.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// `cargo test` would build such a crate, and all that use it, a second time.
#[test]
fn no_crate_of_the_program_has_other_features_in_the_tests() {
    let (program, tests) = (crates("normal,build"), crates("normal,build,dev"));
    assert!(program.len() > 200 && tests.len() > program.len(), "{} {}", program.len(), tests.len());
    let other: Vec<_> = program.difference(&tests).collect();
    assert!(other.is_empty(), "built again for the tests: {other:#?}");
}

#[test]
fn every_snapshot_has_its_test() {
    for entry in fs::read_dir(format!("{ROOT}/tests/cli/snapshots")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some((module, test)) = name.trim_start_matches("cli__").split_once("__") else {
            panic!("{name}")
        };
        let test = test.split(['.', '-']).next().unwrap();
        let source = file(&format!("tests/cli/{module}.rs"));
        let body =
            source.split_once(&format!("fn {test}()")).and_then(|(_, rest)| rest.split("\n}\n").next());
        assert!(body.is_some_and(|body| body.contains("assert_file_snapshot!")), "no test has {name}");
    }
}
