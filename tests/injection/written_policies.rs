//! Policies that somebody wrote who knew only the documentation, each with pods. What each needs of the language is a
//! fabric that people run.

mod by_node;
mod gke;
mod providers;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Outcome, SKIPPED};
use fabric_injector::policy_sources::PolicySources;
use fabric_policy::PodContext;
use serde_json::{Value, json};

use crate::helpers::{Served, gpu_container, pod, serve_as};

/// The policies of these files, with values as `--set` gives them.
fn policies(files: &[&str], sets: &[&str]) -> PolicySet {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/written");
    let sources = PolicySources {
        policies: files.iter().map(|file| format!("{folder}/{file}.yaml")).collect(),
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        ..PolicySources::default()
    };
    sources.load().unwrap_or_else(|error| panic!("{error}"))
}

/// A pod with 8 GPUs in one container, on nodes with these labels.
#[allow(clippy::needless_pass_by_value, reason = "labels are written where they are used")]
fn on(labels: Value) -> Value {
    pod(&json!({"nodeSelector": labels, "containers": [gpu_container("worker", 8)]}))
}

/// What comes out. The API server would accept it, and a second injection changes nothing.
fn serve(policies: &PolicySet, pod: Value) -> Mutation {
    serve_as(policies, pod, &PodContext::default())
}

fn served(policies: &PolicySet, pod: Value) -> Served {
    Served::of(serve(policies, pod))
}

/// The reason in the annotation of a pod that is left alone on purpose, and the names of the policies there.
fn skipped(policies: &PolicySet, pod: Value) -> (String, Vec<String>) {
    let Outcome::Skipped { marked, .. } = serve(policies, pod).outcome else { panic!("not skipped") };
    let mark = marked.pod["metadata"]["annotations"][SKIPPED].as_str().unwrap();
    let (reason, stamps) = mark.strip_suffix(')').unwrap().rsplit_once(" (").unwrap();
    let names = stamps.split(',').map(|stamp| stamp.split_once('@').unwrap().0.to_owned());
    (reason.to_owned(), names.collect())
}

/// The code and the sentence of a refusal.
fn refused(policies: &PolicySet, pod: Value) -> (String, String) {
    let Outcome::Refused { reason } = serve(policies, pod).outcome else { panic!("not refused") };
    (reason.code().to_owned(), reason.to_string())
}
