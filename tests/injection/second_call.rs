//! A second call: the API server may call a webhook again for the pod that it changed.
//!
//! The samples of loading have no container with a name of five letters, so these policies load. A call then runs
//! again by itself, and has the outcome that a second call would have.

use std::collections::BTreeSet;

use fabric_engine::policy_set::{PolicySet, mutate_traced};
use fabric_engine::{Mutation, Outcome, Warning};
use fabric_policy::PodContext;
use serde_json::{Value, json};

use super::helpers::{gpu_container, inject, policy, reason, set};

/// A policy with this body.
fn lab(body: &str) -> PolicySet {
    set(vec![policy("test", "labels: {fabric: fast}", body)])
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "train", "labels": {"fabric": "fast"}},
        "spec": {"containers": [gpu_container("train", 8)]},
    })
}

fn codes(mutation: &Mutation) -> BTreeSet<&str> {
    mutation.warnings.iter().map(Warning::code).collect()
}

/// The outcome of a call, which a second one does not change, and which is the same with a trace.
#[track_caller]
fn of_each_call(policies: &PolicySet) -> Mutation {
    let first = inject(policies, pod());
    let (traced, _) = mutate_traced(policies, pod(), &PodContext::default());
    assert_eq!(traced.outcome, first.outcome);
    assert_eq!(traced.warnings, first.warnings);
    if let Outcome::Mutated(mutated) = &first.outcome {
        let second = inject(policies, mutated.pod.clone());
        assert!(matches!(second.outcome, Outcome::Unchanged { .. }), "{:?}", second.outcome);
        assert!(codes(&second).is_subset(&codes(&first)), "{:?}", second.warnings);
    }
    first
}

/// A rule that applies to the pod only, and the check of what it writes.
fn check_of_own_write(action: &str) -> PolicySet {
    lab(&format!(
        "  checks:\n    - {{name: own, when: 'pod.spec.?hostIPC.orValue(false)', action: {action}, message: m}}\n  rules:\n    \
         - {{name: ipc, containers: \"size(container.name) == 5\", pod: {{spec: {{hostIPC: true}}}}}}\n"
    ))
}

#[test]
fn a_check_of_what_a_rule_writes_decides_at_once() {
    for (action, wanted) in [("refuse", "own"), ("skip", "own"), ("warn", "mutated")] {
        let mutation = of_each_call(&check_of_own_write(action));
        assert_eq!(reason(&mutation), wanted, "{action}");
        assert_eq!(codes(&mutation).contains("own"), action == "warn", "{:?}", mutation.warnings);
    }
}

#[test]
fn a_check_of_a_variable_is_about_the_value_that_it_has_in_the_end() {
    let policies = lab(
        "  checks:\n    - {name: own, env: A, when: \"value == 'b:a'\", message: m}\n  rules:\n    \
         - {name: all, containers: gpus > 0, env: {A: a}}\n    \
         - {name: edits, pod: {spec: {containers: [{name: train, image: nemo, env: [{name: A, value: 'b:$(A)'}]}]}}}\n",
    );
    let mutation = of_each_call(&policies);
    assert_eq!((reason(&mutation), codes(&mutation)), ("mutated", BTreeSet::from(["own"])));
}

#[test]
fn a_check_of_containers_is_about_those_that_a_rule_adds() {
    let policies = lab(
        "  checks:\n    - {name: no_gpus, containers: 'gpus == 0', action: refuse, message: m}\n  rules:\n    \
         - {name: side, containers: \"size(container.name) == 5\", pod: {spec: {containers: [{name: side, image: s}]}}}\n",
    );
    assert_eq!(reason(&of_each_call(&policies)), "no_gpus");
}

/// A rule applies before the pod has a label, and another one after it.
#[test]
fn a_rule_that_no_longer_applies_changes_nothing_more() {
    let policies = lab(
        "  rules:\n    - {name: label, containers: \"size(container.name) == 5\", pod: {metadata: {labels: {x: z}}}}\n    \
         - {name: before, when: \"!pod.metadata.?labels[?'x'].hasValue()\", containers: gpus > 8, env: {MODE: first}}\n    \
         - {name: after, when: \"pod.metadata.?labels[?'x'].hasValue()\", containers: \"size(container.name) == 5\", env: {MODE: second}}\n",
    );
    let mutation = of_each_call(&policies);
    let Outcome::Mutated(mutated) = mutation.outcome else { panic!("{:?}", mutation.outcome) };
    assert_eq!(mutated.pod["spec"]["containers"][0]["env"], json!([{"name": "MODE", "value": "second"}]));
}

#[test]
fn the_annotations_of_the_engine_are_read_as_in_a_second_call() {
    let policies = lab(
        "  variables:\n    again: \"${pod.metadata.?annotations[?'fabric-injector.io/injected'].hasValue()}\"\n  \
         rules:\n    - {name: first, env: {A: a}}\n    \
         - {name: again, when: again, containers: \"size(container.name) == 5\", env: {B: b}}\n",
    );
    let mutation = of_each_call(&policies);
    let Outcome::Mutated(mutated) = mutation.outcome else { panic!("{:?}", mutation.outcome) };
    assert_eq!(mutated.pod["spec"]["containers"][0]["env"].as_array().map(Vec::len), Some(2));
}
