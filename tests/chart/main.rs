//! The Helm chart, and the plain and kustomize manifests that are rendered from it.
//!
//! What has to be rendered needs `helm`: the one that `HELM` names, else the one that `tests/control-plane` builds.
//! Without either, those tests say so and pass, unless `CI_REQUIRE_CONTROL_PLANE=1` is set. The others always run.
//!
//! `UPDATE_DEPLOY=1 cargo test --test chart` writes anew what is copied or rendered: the policies in the chart, and the
//! plain and kustomize manifests. Read the difference before committing it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and one that cannot run says why"
)]

mod agreement;
mod cases;
mod conditions;
mod helm;
mod images;
mod invariants;
mod metrics;
mod names;
mod objects;
mod pods;
mod refused;
mod registration;
mod rendered;
mod rights;
mod schema;
mod selection;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("deploy/helm/fabric-injector")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether files are to be written anew instead of being compared.
fn updates() -> bool {
    std::env::var_os("UPDATE_DEPLOY").is_some()
}

/// Compares a file with what it should be, or writes it.
fn compare_or_write(path: &Path, wanted: &str) {
    if updates() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, wanted).unwrap();
        return;
    }
    let seen = fs::read_to_string(path).unwrap_or_default();
    let line = seen.lines().zip(wanted.lines()).position(|(seen, wanted)| seen != wanted);
    let line = line.unwrap_or_else(|| seen.lines().count().min(wanted.lines().count()));
    assert!(
        seen == wanted,
        "{} is not in step, from line {}:\n  is        {:?}\n  should be {:?}\n\
         hint: UPDATE_DEPLOY=1 cargo test --test chart",
        path.display(),
        line + 1,
        seen.lines().nth(line),
        wanted.lines().nth(line)
    );
}
