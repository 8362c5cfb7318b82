//! The properties by name.

use std::time::Duration;

use serde_json::Value;

use super::adapter::{Result as Outcome, STAMP};
use super::agreement::{
    defaults_make_no_difference, order_of_rules, reading_more_changes_nothing, webhook_and_command_agree,
};
use super::calls::{a_trace_changes_nothing, later_calls_say_nothing_new};
use super::kept::nothing_is_lost;
use super::model;
use super::overlays::each_field_is_there_or_reported;
use super::pair::{Pair, Property, Verdict, fail};
use super::passes::{
    a_pass_after_defaults_changes_nothing, a_second_pass_changes_nothing, no_entry_is_added_twice,
};
use super::precedence::extensions_win;
use super::validity::refusals;
use super::variables::{
    files_have_the_values_of_their_containers, no_expression_yields_an_edit,
    variables_follow_what_they_refer_to,
};

/// The properties by name.
pub(crate) const ALL: &[(&str, Property)] = &[
    ("the patch gives the pod that is returned", patch_gives_the_pod),
    ("nothing of the pod is lost or reordered", nothing_is_lost),
    ("each field is there or reported", each_field_is_there_or_reported),
    ("no entry is added twice", no_entry_is_added_twice),
    ("a second pass changes nothing", a_second_pass_changes_nothing),
    ("a pass after the API server's defaults changes nothing", a_pass_after_defaults_changes_nothing),
    ("later calls say nothing new", later_calls_say_nothing_new),
    ("a trace changes nothing", a_trace_changes_nothing),
    ("a value of an extension has precedence", extensions_win),
    ("a variable follows what it refers to", variables_follow_what_they_refer_to),
    ("a file has the values of its container", files_have_the_values_of_their_containers),
    ("no expression yields an edit", no_expression_yields_an_edit),
    ("webhook and command agree", webhook_and_command_agree),
    ("the API server's defaults make no difference", defaults_make_no_difference),
    ("a valid pod stays valid", a_valid_pod_stays_valid),
    ("the order of unrelated rules is the order of what is added", order_of_rules),
    ("reports say what happened", reports_say_what_happened),
    ("what else a policy reads changes nothing", reading_more_changes_nothing),
    ("a pod is refused or left alone for a reason that holds", reasons_hold),
    ("no evaluation hangs", no_evaluation_hangs),
];

fn patch_gives_the_pod(pair: &Pair<'_>) -> Verdict {
    let (Outcome::Mutated { pod, patch, .. } | Outcome::Skipped { pod, patch, .. }) = &pair.first.outcome
    else {
        return match pair.after() {
            Some(after) if *after != pair.pod => fail("unchanged pod", after.to_string()),
            _ => Ok(()),
        };
    };
    if let Outcome::Skipped { .. } = &pair.first.outcome {
        only_marked(pair, pod)?;
    }
    let mut patched = pair.pod.clone();
    if let Err(error) = json_patch::patch(&mut patched, patch) {
        return fail("the patch does not apply", format!("{error}: {patch}"));
    }
    if patched == *pod { Ok(()) } else { fail("another pod", json_patch::diff(pod, &patched).to_string()) }
}

/// A pod that is skipped has one of the two annotations, no other change, and stays as it is.
fn only_marked(pair: &Pair<'_>, pod: &Value) -> Verdict {
    let annotations = pod["metadata"]["annotations"].as_object();
    let has = |key: &str| annotations.is_some_and(|annotations| annotations.contains_key(key));
    if !has("fabric-injector.io/skipped") || has(STAMP) {
        return fail("annotations", pod["metadata"].to_string());
    }
    if pod["spec"] != pair.pod["spec"] {
        return fail("spec", json_patch::diff(&pair.pod["spec"], &pod["spec"]).to_string());
    }
    pair.again(pod)
}

fn a_valid_pod_stays_valid(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    if !pair.refusals.is_empty() || pair.first.warnings.iter().any(|warning| warning.code == "replaced") {
        return Ok(());
    }
    match refusals(after).first() {
        Some(refusal) => fail(refusal.split(':').next().unwrap_or_default(), refusal.clone()),
        None => Ok(()),
    }
}

fn reports_say_what_happened(pair: &Pair<'_>) -> Verdict {
    super::reports::agree(&pair.group.text, &pair.pod, &pair.first)
        .map_or(Ok(()), |(class, detail)| fail(class, detail))
}

fn reasons_hold(pair: &Pair<'_>) -> Verdict {
    let valid = pair.refusals.is_empty();
    let matches = model::matches(&pair.group.policy, &pair.pod, &pair.context);
    let reason = match &pair.first.outcome {
        Outcome::Mutated { .. } => "mutated",
        Outcome::Skipped { reason, .. }
        | Outcome::Unchanged { reason, .. }
        | Outcome::Refused { reason, .. } => reason.as_str(),
    };
    let other = ["no_policy_matches", "match_failed", "trigger_value", "opted_out"].contains(&reason);
    if matches == other {
        return fail("match", format!("{reason} where the policy matches: {matches}"));
    }
    if !valid || !matches || !pair.known {
        return Ok(());
    }
    let text = match &pair.first.outcome {
        Outcome::Refused { text, .. } => text.clone(),
        _ => String::new(),
    };
    let after = if let Outcome::Mutated { pod, .. } = &pair.first.outcome { pod } else { &pair.pod };
    let demand = model::demand(&pair.group.policy, &pair.pod, after, &pair.context);
    let applies = !demand.asked.is_empty();
    match reason {
        "malformed_pod" | "evaluation_failed" => fail(reason, text),
        "mutated" if !applies => fail("mutated without a rule", ""),
        "no_gpu_container" | "no_rule_applies" if applies => {
            fail("left alone where a rule applies", format!("{:?}", demand.asked))
        }
        "conflict" if !pair.group.text.contains("claims") => fail("conflict without a claim", text),
        _ => Ok(()),
    }
}

fn no_evaluation_hangs(pair: &Pair<'_>) -> Verdict {
    if pair.took < Duration::from_mins(1) { Ok(()) } else { fail("", format!("{:?}", pair.took)) }
}
