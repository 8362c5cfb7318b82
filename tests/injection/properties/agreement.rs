//! Ways to the same pod: the webhook and the command, rules in another order, before and after the API server's defaults.

use fabric_engine::{CLAIMS, NODES};
use serde_json::Value;

use super::adapter::{self, Loaded, Result as Outcome, STAMP};
use super::generator::{defaults, items};
use super::pair::{Pair, Verdict, fail, path_class};

pub(crate) fn webhook_and_command_agree(pair: &Pair<'_>) -> Verdict {
    use base64::Engine;
    // Only the webhook of this test knows them.
    if pair.context.nodes.is_some() {
        return Ok(());
    }
    let response = adapter::review(&pair.group.loaded, &pair.pod, &pair.context);
    let mut patched = pair.pod.clone();
    if let Some(patch) = response["patch"].as_str() {
        let bytes = base64::prelude::BASE64_STANDARD.decode(patch).unwrap_or_default();
        let patch: json_patch::Patch = serde_json::from_slice(&bytes).unwrap_or_default();
        if patch.0.is_empty() {
            return fail("empty patch", response.to_string());
        }
        if let Err(error) = json_patch::patch(&mut patched, &patch) {
            return fail("the webhook's patch does not apply", error.to_string());
        }
    }
    if let Some(namespace) = &pair.context.namespace
        && pair.pod["metadata"]["namespace"].as_str() != Some(namespace)
    {
        // The command knows the namespace from the pod alone.
        return Ok(());
    }
    let (made, templates) = adapter::command(&pair.group.loaded, &pair.pod.to_string());
    let Some((_, injection)) = templates.first() else { return Ok(()) };
    let refused = matches!(injection.outcome, Outcome::Refused { .. });
    if refused != (response["allowed"] == false) {
        return fail("one refuses", response.to_string());
    }
    if refused {
        return Ok(());
    }
    if made != patched {
        return fail("another pod", json_patch::diff(&made, &patched).to_string());
    }
    let warnings: Vec<&str> = items(&response["warnings"]).iter().filter_map(Value::as_str).collect();
    let cut = warnings.iter().any(|warning| warning.ends_with(" more") || warning.ends_with('…'));
    let all = injection
        .warnings
        .iter()
        .all(|warning| warnings.iter().any(|text| text.contains(&one_line(&warning.text))));
    if all || cut { Ok(()) } else { fail("warnings", format!("{:?} {warnings:?}", injection.warnings)) }
}

/// A template that `mutate` injects and the API server completes is the pod that the API server completes and the
/// webhook injects.
pub(crate) fn defaults_make_no_difference(pair: &Pair<'_>) -> Verdict {
    // A limit that a rule replaces may be where the API server took a request from.
    let replaced = pair.first.warnings.iter().any(|warning| warning.code == "replaced");
    if replaced || !pair.refusals.is_empty() {
        return Ok(());
    }
    let completed = |pod: &Value| {
        let mut pod = pod.clone();
        defaults::complete(&mut pod);
        pod
    };
    let other = adapter::inject(&pair.group.loaded, &completed(&pair.pod), &pair.context).outcome;
    match (&pair.first.outcome, &other) {
        (Outcome::Mutated { pod, .. }, Outcome::Mutated { pod: other, .. }) => {
            let (pod, other) = (completed(pod), completed(other));
            if pod == other {
                return Ok(());
            }
            let difference = json_patch::diff(&pod, &other);
            let class =
                difference.0.first().map_or_else(String::new, |first| path_class(first.path().as_str()));
            fail(class, difference.to_string())
        }
        (one, other) if one.name() == other.name() => Ok(()),
        (one, other) => fail("another outcome", format!("{}, and {}", one.name(), other.name())),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A pod without what the program notes and without the order of its lists.
fn unordered(pod: &Value) -> Value {
    match pod {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| ![STAMP, CLAIMS, NODES].contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), unordered(value)))
            .collect(),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(unordered).collect();
            list.sort_by_key(sort_key);
            list.into()
        }
        // The lines of a file of settings.
        Value::String(text) if text.contains('\n') => {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines.into()
        }
        other => other.clone(),
    }
}

/// A text that is the same whatever the order of the keys.
fn sort_key(value: &Value) -> String {
    let mut bytes = value.to_string().into_bytes();
    bytes.sort_unstable();
    format!("{}{}", value["name"], String::from_utf8_lossy(&bytes))
}

fn same_but(pair: &Pair<'_>, other: &Loaded) -> Verdict {
    // A variant is another policy: the stamp of a pod that was injected before, and its record, are those of one of them.
    if pair.pod["metadata"]["annotations"][STAMP].is_string() {
        return Ok(());
    }
    let other = adapter::inject(other, &pair.pod, &pair.context);
    match (&pair.first.outcome, &other.outcome) {
        (Outcome::Mutated { pod, .. }, Outcome::Mutated { pod: other, .. }) => {
            let (pod, other) = (unordered(pod), unordered(other));
            if pod == other {
                return Ok(());
            }
            let difference = json_patch::diff(&pod, &other);
            let class =
                difference.0.first().map_or_else(String::new, |first| path_class(first.path().as_str()));
            fail(class, difference.to_string())
        }
        (Outcome::Skipped { .. }, Outcome::Skipped { .. }) => Ok(()),
        (Outcome::Unchanged { .. }, Outcome::Unchanged { .. }) => Ok(()),
        (Outcome::Refused { .. }, Outcome::Refused { .. }) => Ok(()),
        (one, other) => fail("another outcome", format!("{}, and {}", one.name(), other.name())),
    }
}

pub(crate) fn order_of_rules(pair: &Pair<'_>) -> Verdict {
    pair.group.permuted.as_ref().map_or(Ok(()), |permuted| same_but(pair, permuted))
}

pub(crate) fn reading_more_changes_nothing(pair: &Pair<'_>) -> Verdict {
    // What a policy reads of nodes distinguishes their kinds.
    if !pair.refusals.is_empty() || pair.context.nodes.is_some() {
        return Ok(());
    }
    pair.group.curious.as_ref().map_or(Ok(()), |curious| same_but(pair, curious))
}
