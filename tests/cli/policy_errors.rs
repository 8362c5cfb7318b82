//! A policy file with a mistake does not load. `tests/corpus` has the mistakes with their messages.

use insta::assert_snapshot;

use super::{POD, POLICY, Run, folder, run_in};

/// Runs `mutate` with a policy.
pub(crate) fn with_policy(policy: &str, pod: &str) -> Run {
    let folder = folder(&[("lab.yaml", policy)]);
    run_in(folder.path(), &["mutate", "--policy", "lab.yaml"], pod)
}

#[test]
fn the_sample_policy_is_right() {
    let run = with_policy(POLICY, POD).exits(0);
    assert_eq!(super::limits(&run.documents()[0])["example.com/nic"], "16");
}

#[test]
fn a_mistake_is_shown_with_its_place_its_line_and_a_hint() {
    let policy = POLICY.replacen("gpus, nicsPerGPU", "gpus, nicPerGPU", 1);
    assert_snapshot!(with_policy(&policy, POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `nicPerGPU` is neither a parameter nor a variable
      --> lab.yaml:24:46
       |
    24 |             example.com/nic: ${devices(gpus, nicPerGPU)}
       |                                              ^^^^^^^^^
       |
       = hint: did you mean `nicsPerGPU`?
    ");
}

#[test]
fn a_policy_is_checked_before_any_document_is_served() {
    with_policy(&POLICY.replace("- name: nics", "- nam: nics"), "a: [").exits(2).writes_nothing();
}

#[test]
fn a_warning_does_not_keep_a_policy_from_loading() {
    with_policy(&POLICY.replacen("  rules:", "  variables: {spare: x}\n  rules:", 1), POD).exits(0);
}
