//! Calls of the engine, and what has to hold of them.

use fabric_engine::admission::Answer;
use fabric_engine::policy_set::{PolicySet, mutate, mutate_traced};
use fabric_engine::{Mutated, Mutation, Outcome, Reason, SKIPPED, STAMP};
use fabric_policy::PodContext;
use serde_json::Value;

use crate::{Input, assert_within_limits, lost};

/// Injects a pod three times: the first call loses nothing, and the later ones change nothing.
pub fn inject_thrice(policies: &PolicySet, input: &Input) {
    let first = inject(policies, input, &input.pod);
    if is_over(&first) {
        return;
    }
    let (traced, _) = mutate_traced(policies, input.pod.clone(), &PodContext { work: None, ..input.call() });
    assert!(traced == first, "a trace changes something: {traced:?}\n{first:?}");
    let after = match &first.outcome {
        Outcome::Mutated(mutated) => {
            assert_patched(&input.pod, mutated);
            let replaced = first.warnings.iter().filter(|warning| warning.code() == "replaced");
            let lost =
                lost::unexplained(&input.pod, &mutated.pod, replaced.map(|warning| warning.path.as_str()));
            assert!(lost.is_none(), "{lost:?} is lost\n{}\n{}", input.pod, mutated.pod);
            &mutated.pod
        }
        Outcome::Skipped { marked, .. } => {
            assert_patched(&input.pod, marked);
            let annotations = &marked.pod["metadata"]["annotations"];
            assert!(annotations.get(SKIPPED).is_some() && annotations.get(STAMP).is_none(), "{annotations}");
            assert_eq!(marked.pod["spec"], input.pod["spec"]);
            &marked.pod
        }
        Outcome::Unchanged { pod, .. } => {
            assert_eq!(pod.to_string(), input.pod.to_string());
            return;
        }
        Outcome::Refused { .. } => return,
    };
    let second = inject(policies, input, after);
    if !is_over(&second) {
        assert_same(after, &second);
        // What is answered for the second time is the input of the third.
        let third = inject(policies, input, after);
        assert!(third == second, "a call depends on earlier ones: {third:?}\n{second:?}");
    }
}

fn inject(policies: &PolicySet, input: &Input, pod: &Value) -> Mutation {
    let context = input.call();
    let mutation = mutate(policies, pod.clone(), &context);
    let work = context.work.as_ref().unwrap();
    assert_within_limits(work, input.bytes());
    let _ = mutation.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    mutation
}

/// Whether the limit on work ended a call.
fn is_over(mutation: &Mutation) -> bool {
    matches!(&mutation.outcome, Outcome::Refused { reason: Reason::Cost { .. } | Reason::Stopped })
}

fn assert_patched(before: &Value, mutated: &Mutated) {
    let mut patched = before.clone();
    json_patch::patch(&mut patched, &mutated.patch()).unwrap();
    assert_eq!(patched, mutated.pod, "the patch gives another pod");
}

fn assert_same(pod: &Value, later: &Mutation) {
    match &later.outcome {
        Outcome::Unchanged { pod: after, .. } => assert_eq!(after.to_string(), pod.to_string()),
        Outcome::Skipped { marked, .. } => assert_eq!(marked.pod, *pod, "skipped again"),
        Outcome::Mutated(mutated) => panic!("changed again: {}\n{pod}", mutated.patch()),
        Outcome::Refused { reason } => panic!("refused later: {reason}\n{pod}"),
    }
}

/// The response in the answer to a review, which has the uid of its request.
pub fn answered(body: &[u8], answer: &Answer) -> Value {
    let mut review: Value = serde_json::from_slice(&answer.body).unwrap();
    let response = review["response"].take();
    assert!(response["uid"].is_string() && response["allowed"].is_boolean(), "{response}");
    if let Ok(request) = serde_json::from_slice::<Value>(body)
        && let Some(uid) = request["request"]["uid"].as_str()
    {
        assert_eq!(response["uid"], uid);
    }
    response
}
