//! `policy check`: every error of a file, at its place.

use super::policy_errors::shown;
use super::samples::POLICY;

/// The sample policy with a variable of the pod.
fn with_value(value: &str) -> String {
    POLICY.replacen("value: lab", &format!("value: {value}"), 1)
}

#[test]
fn an_error_within_a_block_of_text_is_at_its_own_line_and_column() {
    for block in [
        ">-\n              ${gpus > 4\n              ? 'many' :\n              tooFew}",
        "|-\n              ${gpus > 4\n                ? 'many' : tooFew}",
        "\"${gpus > 4 ? \\\"many\\\" :\n                tooFew}\"",
        "'${gpus > 4 ? ''many'' :\n                tooFew}'",
    ] {
        shown(&with_value(block), "tooFew").says(&["`tooFew` is neither a parameter nor a variable"]);
    }
}

#[test]
fn an_expression_that_fails_for_a_sample_is_at_the_name_that_is_missing() {
    let block = ">-\n              ${gpus > 0\n              ? pod.metadata.labels.team : ''}";
    shown(&with_value(block), "labels.team").says(&["`.?labels.orValue(…)`", "(one container with GPUs)"]);
}

#[test]
fn an_expression_over_unlike_types_names_both() {
    shown(&with_value("\"${string(gpus * 1.5)}\""), "gpus * 1.5")
        .says(&["`gpus` is an integer, and `1.5` is a number", "`devices(gpus, 1.5)`"]);
}
