//! The bytes of a review of a pod or a workload: each has an answer, whose patch applies, and of which a second review has
//! none.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fabric_engine::admission::{Answer, BadReview, Mode, OnError, Reviewer, answer_without_evaluation};
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_fuzz::{answered, assert_within_limits, built_in, work};
use fabric_policy::PodContext;
use fabric_tools::lint;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    fabric_fuzz::mutate(data, size, most, seed)
});

fuzz_target!(|body: &[u8]| {
    let policies = built_in(body.len());
    let advised = PodContext { work: Some(work(body.len())), ..PodContext::default() };
    if let Ok(answer) = lint::answer(policies, Mode::Inject, body, &advised) {
        answered(body, &answer);
    }
    assert_within_limits(advised.work.as_ref().unwrap(), body.len());
    if let Ok(answer) = answer_without_evaluation(policies, Mode::Inject, OnError::Allow, body, "a test") {
        answered(body, &answer);
    }
    let Ok(answer) = review(policies, body) else { return };
    let response = answered(body, &answer);
    let Some(patch) = response["patch"].as_str() else { return };
    let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    let mut review: Value = serde_json::from_slice(body).unwrap();
    json_patch::patch(&mut review["request"]["object"], &patch).unwrap();
    let again = review.to_string();
    let response = answered(again.as_bytes(), &self::review(policies, again.as_bytes()).unwrap());
    assert!(response["patch"].is_null() && response["allowed"] == true, "{response}\n{again}");
});

fn review(policies: &PolicySet, body: &[u8]) -> Result<Answer, BadReview> {
    let context = PodContext { work: Some(work(body.len())), ..PodContext::default() };
    let counted = context.work.clone().unwrap();
    let (mode, on_error) = (Mode::Inject, OnError::Deny);
    let answer = Reviewer { policies, evaluate: &mutate, mode, on_error, has_changed: &|| false }
        .answer(body, context);
    assert_within_limits(&counted, body.len());
    answer
}
