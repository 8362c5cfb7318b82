//! What holds for every pod and every policy: properties of the engine on generated pods, and on a Pod that has
//! every field which the Kubernetes API knows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod adapter;
mod counterexamples;
mod full_pod;
mod generate;
mod generator;
mod invariants;
mod leaves;
mod model;
mod pairs;
mod properties;
mod reports;
mod rules;
mod shrink;
mod validity;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fabric_injector::core::engine::{Mutated, Mutation, Outcome};
use fabric_injector::core::policy::PodContext;
use fabric_injector::core::policy_set::PolicySet;
use fabric_injector::core::policy_set::mutate;
use fabric_injector::shell::builtin;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

static POLICIES: LazyLock<Vec<PolicySet>> = LazyLock::new(|| {
    let load = |policy: &builtin::BuiltIn| {
        PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap()
    };
    builtin::POLICIES.iter().map(load).collect()
});

fn serve(policies: &PolicySet, pod: &Value) -> Mutation {
    mutate(policies, pod.clone(), &PodContext::default())
}

fn mutated(mutation: Mutation) -> Option<Mutated> {
    match mutation.outcome {
        Outcome::Mutated(mutated) => Some(mutated),
        _ => None,
    }
}

/// The patch of a second pass, empty if it changes nothing.
fn patch_of(mutation: Mutation) -> Value {
    serde_json::to_value(mutated(mutation).map(|mutated| mutated.patch()).unwrap_or_default()).unwrap()
}

/// The same pods in every run, so that a failure means that the change made it; `PROPTEST_RNG_SEED=<number>`
/// tries others.
fn config() -> ProptestConfig {
    let config = ProptestConfig { cases: 400, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(2026), ..config },
        RngSeed::Fixed(_) => config,
    }
}

proptest! {
    #![proptest_config(config())]

    /// Rules 2 and 5: nothing is removed or reordered, additions go after the pod's own entries.
    #[test]
    fn a_pod_keeps_all_that_it_has_in_the_order_that_it_has(pod in generate::pod()) {
        for policies in &*POLICIES {
            if let Some(mutated) = mutated(serve(policies, &pod))
                && let Err(lost) = invariants::keeps(&pod, &mutated.pod, "") {
                    return Err(TestCaseError::fail(format!("{lost}\n{pod}\n{}", mutated.pod)));
                }
        }
    }

    /// The patch, applied by another implementation of RFC 6902, gives the pod that the engine gives.
    #[test]
    fn the_patch_makes_the_pod_what_the_engine_made_it(pod in generate::pod()) {
        for policies in &*POLICIES {
            if let Some(mutated) = mutated(serve(policies, &pod)) {
                let mut patched = pod.clone();
                json_patch::patch(&mut patched, &mutated.patch()).unwrap();
                prop_assert_eq!(&patched, &mutated.pod);
                let written: json_patch::Patch = serde_json::from_slice(&mutated.operations().to_json()).unwrap();
                prop_assert_eq!(written, mutated.patch());
            }
        }
    }

    /// Rule 8: serving the result again changes nothing.
    #[test]
    fn a_second_pass_changes_nothing(pod in generate::pod()) {
        for policies in &*POLICIES {
            if let Some(mutated) = mutated(serve(policies, &pod)) {
                prop_assert_eq!(patch_of(serve(policies, &mutated.pod)), json!([]));
            }
        }
    }

    /// Rule 8: a GPU container that another webhook adds in between is served, and only it.
    #[test]
    fn a_container_added_in_between_is_served_and_only_it(pod in generate::pod()) {
        for policies in &*POLICIES {
            let Some(first) = mutated(serve(policies, &pod)) else { continue };
            let mut pod = first.pod;
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.push(json!({"name": "added-later", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}));
            let index = containers.len() - 1;
            let second = mutated(serve(policies, &pod));
            let Some(second) = second else { return Err(TestCaseError::fail("the new container was not served")) };
            let own = format!("/spec/containers/{index}/");
            for pointer in second.operations().list.iter().map(|operation| operation.pointer) {
                let elsewhere = pointer.starts_with("/spec/containers/") && !pointer.starts_with(&own);
                prop_assert!(!elsewhere, "{} is changed again", pointer);
            }
            prop_assert!(second.operations().list.iter().any(|operation| operation.pointer.starts_with(&own)));
            prop_assert_eq!(&second.stamp, &first.stamp);
            prop_assert_eq!(patch_of(serve(policies, &second.pod)), json!([]));
        }
    }

    /// Rule 6 and rule 12: what the API server would have taken, it still takes.
    #[test]
    fn a_valid_pod_stays_valid(pod in generate::pod()) {
        prop_assert_eq!(invariants::refusals(&pod), Vec::<String>::new(), "the generator makes valid pods");
        for policies in &*POLICIES {
            if let Some(mutated) = mutated(serve(policies, &pod)) {
                prop_assert_eq!(invariants::refusals(&mutated.pod), Vec::<String>::new(), "{}", mutated.pod);
            }
        }
    }

    /// Whatever arrives as JSON is answered, and comes back unharmed if it was not served.
    #[test]
    fn hostile_pods_come_back_as_they_were(pod in generate::broken_pod()) {
        for policies in &*POLICIES {
            match serve(policies, &pod).outcome {
                Outcome::Unchanged { pod: after, .. } => prop_assert_eq!(after.to_string(), pod.to_string()),
                Outcome::Mutated(mutated) => {
                    let mut patched = pod.clone();
                    json_patch::patch(&mut patched, &mutated.patch()).unwrap();
                    prop_assert_eq!(&patched, &mutated.pod);
                }
                Outcome::Refused { reason } => {
                    prop_assert!(false, "{} {}", reason, pod);
                }
            }
        }
    }
}

/// Rule 2: a Pod with every field that the API's own types describe, and fields that no release knows, survives
/// untouched apart from the additions.
#[test]
fn a_fully_populated_pod_survives() {
    let pod = full_pod::full_pod();
    assert!(full_pod::count_fields(&pod) > 700, "{} fields", full_pod::count_fields(&pod));
    for policies in &*POLICIES {
        let mutation = serve(policies, &pod);
        let Some(mutated) = mutated(mutation.clone()) else { panic!("{:?}", mutation.outcome) };
        invariants::keeps(&pod, &mutated.pod, "").unwrap();
        let operations: Vec<&str> =
            mutated.operations().list.iter().map(|operation| operation.pointer).collect();
        assert!(!operations.is_empty());
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &mutated.patch()).unwrap();
        assert_eq!(patched, mutated.pod);
    }
}
