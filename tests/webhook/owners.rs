//! What the controller of a pod gets to know: the Events that the server creates.

use fabric_engine::admission::{Evaluate, ForOwner, Mode, OnError, Reviewer};
use fabric_policy::PodContext;
use serde_json::{Value, json};

use crate::reviews::{
    other_pod, pod, pod_that_fails, pod_with, pod_with_env, review_of, unmatched_pod, with,
};
use crate::server::{LAB, engine, lab_with, policies};

/// A pod of a Job.
fn of_job(pod: Value) -> Value {
    let owners = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b"},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": true},
    ]);
    with(pod, "/metadata/ownerReferences", owners)
}

fn told_by(
    policy: &str,
    evaluate: &Evaluate,
    review: &Value,
    on_error: OnError,
    mode: Mode,
) -> Option<ForOwner> {
    let policies = policies(&[policy]);
    let body = review.to_string();
    let reviewer = Reviewer { policies: &policies, evaluate, mode, on_error, has_changed: &|| true };
    reviewer.answer(body.as_bytes(), PodContext::default()).unwrap().record.for_owner.map(|told| *told)
}

/// The codes and texts for the owner of a pod, where faults deny, where they are allowed, and in audit mode.
fn told(policy: &str, pod: &Value) -> [Vec<(String, String)>; 3] {
    let modes =
        [(OnError::Deny, Mode::Inject), (OnError::Allow, Mode::Inject), (OnError::Allow, Mode::Audit)];
    modes.map(|(on_error, mode)| {
        let told = told_by(policy, &engine, &review_of(&of_job(pod.clone())), on_error, mode);
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "namespace": "team"});
        assert!(told.as_ref().is_none_or(|told| told.owner == job), "{told:?}");
        told.map(|told| told.warnings).unwrap_or_default()
    })
}

/// Fails unless the owner gets to know one thing in each of these modes, and nothing in the others.
#[track_caller]
fn tells(policy: &str, pod: &Value, code: &str, texts: [&str; 3]) {
    for (told, wanted) in told(policy, pod).iter().zip(texts) {
        match told.as_slice() {
            [] => assert_eq!(wanted, "", "{code}"),
            [(seen, text)] => {
                assert!(seen == code && !wanted.is_empty() && text.starts_with(wanted), "{seen}: {text}");
            }
            several => panic!("{several:?}"),
        }
    }
}

#[test]
fn the_owner_of_a_pod_that_is_let_through_without_the_fabric_is_told_why() {
    let failed = "NOT injected, the pod has no fast network: `${int(";
    tells(LAB, &pod_that_fails(), "evaluation_failed", ["", failed, failed]);
    let when = LAB.replacen("  match:\n", "  match:\n    when: totalGpus > 8\n", 1);
    tells(&when, &pod(), "condition_false", ["left alone: the condition `match.when`"; 3]);
    let wrong = pod_with("/metadata/annotations", json!({"lab.example/fabric": "yes"}));
    tells(LAB, &wrong, "trigger_value", ["left alone: the annotation `lab.example/fabric` is `yes`"; 3]);
    // Where pods are injected, the API server reports the refusal to the controller.
    let denied = "audit mode, the pod is unchanged: it would be denied: `spec.containers[main].env[LAB_SEAL]`: `LAB_SEAL` is";
    tells(LAB, &pod_with_env("LAB_SEAL", "open"), "seal", ["", "", denied]);
    let few = with(pod(), "/spec/containers/0/resources/limits/nvidia.com~1gpu", json!("4"));
    tells(
        LAB,
        &few,
        "few_gpus",
        ["the pod has fewer GPUs than a node", "the pod has fewer GPUs than a node", ""],
    );
}

#[test]
fn an_owner_is_told_of_a_failure_of_the_program_where_it_is_allowed() {
    let panicking: &Evaluate = &|_, _, _| panic!("the evaluator of a test panics");
    let review = review_of(&of_job(pod()));
    assert_eq!(told_by(LAB, panicking, &review, OnError::Deny, Mode::Inject), None);
    let told = told_by(LAB, panicking, &review, OnError::Allow, Mode::Inject).unwrap();
    assert!(told.warnings[0].0 == "panic" && told.warnings[0].1.starts_with("NOT injected"), "{told:?}");
}

#[test]
fn an_owner_is_told_of_a_pod_that_no_policy_in_use_matches() {
    let unmatched = "NOT injected, the pod has no fast network: no policy in use matches this pod with GPUs";
    let [denied, allowed, audit] = told(LAB, &unmatched_pod());
    assert_eq!(denied, []);
    for told in [allowed, audit] {
        assert!(told[0].0 == "other_policies_registered" && told[0].1.starts_with(unmatched), "{told:?}");
    }
}

#[test]
fn an_owner_is_not_told_of_what_needs_nobody() {
    let off = pod_with("/metadata/annotations", json!({"lab.example/fabric": "false"}));
    let out = with(pod(), "/metadata/annotations/lab.example~1no-fabric", json!("true"));
    let without_gpus = pod_with("/spec/containers/0/resources", json!({}));
    for pod in [pod(), other_pod(), off, out, without_gpus, pod_with_env("NCCL_SOCKET_IFNAME", "eth9")] {
        assert_eq!(told(LAB, &pod), [vec![], vec![], vec![]], "{pod}");
    }
    let skipping = lab_with("  match:\n", "  match:\n    when: totalGpus > 8\n");
    let tried = |review: &Value| told_by(&skipping, &engine, review, OnError::Allow, Mode::Inject);
    let review = review_of(&of_job(pod()));
    assert!(tried(&review).is_some());
    assert_eq!(tried(&with(review, "/request/dryRun", json!(true))), None, "a dry run");
    assert_eq!(tried(&review_of(&pod())), None, "no controller");
}
