//! What holds for every pair of a policy that loads and a pod. Each property names itself in what it says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::adapter::{self, Context, Injection, Loaded, Result as Outcome, STAMP};
use crate::generator::policies::Policy;
use crate::generator::{defaults, items, pods};
use crate::leaves::{self, clean};
use crate::model;
use crate::validity::refusals;

/// A policy in use, with variants of it that have to give the same.
pub(crate) struct Group {
    pub(crate) policy: Policy,
    pub(crate) loaded: Loaded,
    /// With rules that touch different things in another order.
    pub(crate) permuted: Option<Loaded>,
    /// With a condition that reads everything.
    pub(crate) curious: Option<Loaded>,
}

/// A policy and a pod, and what became of the pod.
pub(crate) struct Pair<'g> {
    pub(crate) group: &'g Group,
    pub(crate) pod: Value,
    pub(crate) context: Context,
    pub(crate) first: Injection,
    pub(crate) took: Duration,
}

/// Why a property does not hold: the kind of the fault, and the case.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: String,
    pub(crate) detail: String,
}

type Verdict = Result<(), Failure>;
pub(crate) type Property = fn(&Pair<'_>) -> Verdict;

/// The properties by name.
pub(crate) const ALL: &[(&str, Property)] = &[
    ("the patch gives the pod that is returned", patch_gives_the_pod),
    ("nothing of the pod is lost or reordered", nothing_is_lost),
    ("each field is there or reported", each_field_is_there_or_reported),
    ("no entry is added twice", no_entry_is_added_twice),
    ("a second pass changes nothing", a_second_pass_changes_nothing),
    ("a pass after the API server's defaults changes nothing", a_pass_after_defaults_changes_nothing),
    ("webhook and command agree", webhook_and_command_agree),
    ("the API server's defaults make no difference", defaults_make_no_difference),
    ("a valid pod stays valid", a_valid_pod_stays_valid),
    ("the order of unrelated rules is the order of what is added", order_of_rules),
    ("reports say what happened", reports_say_what_happened),
    ("what else a policy reads changes nothing", reading_more_changes_nothing),
    ("a pod is refused or left alone for a reason that holds", reasons_hold),
    ("an answer takes less than a second", time_is_bounded),
];

fn fail(class: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Err(Failure { class: class.into(), detail: detail.into() })
}

impl<'g> Pair<'g> {
    pub(crate) fn new(group: &'g Group, pod: Value, context: Context) -> Self {
        let start = Instant::now();
        let first = adapter::inject(&group.loaded, &pod, &context);
        Self { group, pod, context, first, took: start.elapsed() }
    }

    /// The pod after injection; none if it is refused.
    fn after(&self) -> Option<&Value> {
        match &self.first.outcome {
            Outcome::Mutated { pod, .. } | Outcome::Unchanged { pod, .. } => Some(pod),
            Outcome::Refused { .. } => None,
        }
    }

    fn mutated(&self) -> Option<&Value> {
        match &self.first.outcome {
            Outcome::Mutated { pod, .. } => Some(pod),
            _ => None,
        }
    }

    fn again(&self, pod: &Value) -> Verdict {
        match adapter::inject(&self.group.loaded, pod, &self.context).outcome {
            Outcome::Mutated { patch, .. } => {
                let first = serde_json::to_value(&patch).unwrap_or_default()[0].take();
                let nothing = [json!([]), json!({})].contains(&first["value"]);
                let class = path_class(first["path"].as_str().unwrap_or_default());
                let value = if nothing { "nothing" } else { "something" };
                fail(format!("{} {value} at {class}", first["op"]), patch.to_string())
            }
            Outcome::Refused { reason, text } => fail(format!("refused {reason}"), text),
            Outcome::Unchanged { .. } => Ok(()),
        }
    }
}

/// A JSON Pointer without indexes and names.
fn path_class(pointer: &str) -> String {
    let tokens = pointer.split('/').filter(|token| token.parse::<usize>().is_err());
    tokens.take(5).collect::<Vec<_>>().join("/")
}

fn patch_gives_the_pod(pair: &Pair<'_>) -> Verdict {
    let Outcome::Mutated { pod, patch, .. } = &pair.first.outcome else {
        return match pair.after() {
            Some(after) if after.to_string() != pair.pod.to_string() => {
                fail("unchanged pod", after.to_string())
            }
            _ => Ok(()),
        };
    };
    let mut patched = pair.pod.clone();
    if let Err(error) = json_patch::patch(&mut patched, patch) {
        return fail("the patch does not apply", format!("{error}: {patch}"));
    }
    if patched == *pod { Ok(()) } else { fail("another pod", json_patch::diff(pod, &patched).to_string()) }
}

fn nothing_is_lost(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    let mut lost = Vec::new();
    keeps(&pair.pod, after, &mut Vec::new(), &mut lost);
    let replaced: Vec<Vec<String>> = pair
        .first
        .warnings
        .iter()
        .filter(|warning| warning.code == "replaced")
        .map(|warning| leaves::without_list(&leaves::tokens(&warning.path)))
        .collect();
    let explained = |place: &Vec<String>| {
        let place = &leaves::without_list(place);
        replaced.iter().any(|path| path.iter().zip(place).all(|(one, other)| clean(one) == clean(other)))
    };
    match lost.into_iter().find(|(place, _)| !explained(place)) {
        Some((place, what)) => fail(path_class(&place.join("/")), format!("{}: {what}", place.join("/"))),
        None => Ok(()),
    }
}

/// Notes what `after` lacks of what `before` has, or has in another order.
fn keeps(before: &Value, after: &Value, place: &mut Vec<String>, lost: &mut Vec<(Vec<String>, String)>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let kept: Vec<&String> = after.keys().filter(|key| before.contains_key(*key)).collect();
            if kept != before.keys().collect::<Vec<_>>() {
                lost.push((place.clone(), "keys are lost or reordered".to_owned()));
                return;
            }
            for (key, value) in before {
                place.push(key.clone());
                keeps(value, &after[key], place, lost);
                place.pop();
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            if after.len() < before.len() {
                lost.push((place.clone(), "entries are lost".to_owned()));
            }
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                let names = ["name", "mountPath"].map(|key| before[key].as_str());
                let name = names[1].or(names[0]).map_or_else(|| at.to_string(), str::to_owned);
                place.push(name);
                keeps(before, after, place, lost);
                place.pop();
            }
        }
        (Value::Null, _) => {}
        (Value::String(b), Value::String(a)) if is_list_in_text(place) && contains_in_order(a, b) => {}
        (before, after) if before == after => {}
        // The stamp of another release or policy may be renewed.
        _ if place.last().is_some_and(|key| key == STAMP) => {}
        (before, after) => lost.push((place.clone(), format!("{before} became {after}"))),
    }
}

fn is_list_in_text(place: &[String]) -> bool {
    place.last().is_some_and(|key| key == "value" || key == crate::generator::pools::NETWORKS)
}

/// Whether a text has all of another one's parts, in their order.
fn contains_in_order(after: &str, before: &str) -> bool {
    after.contains(before.trim().trim_end_matches(']').trim_end().trim_end_matches(','))
}

fn each_field_is_there_or_reported(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.after() else { return Ok(()) };
    let settled = match &pair.first.outcome {
        Outcome::Unchanged { reason, .. } => *reason == "nothing_to_add",
        _ => true,
    };
    // A request without its limit is what a policy may mend.
    let valid = refusals(&pair.pod).iter().all(|refusal| refusal.starts_with("request without limit"));
    if !settled || !valid || !pair.group.policy.is_known() {
        return Ok(());
    }
    // A request that is not there is the limit to the API server.
    let mut completed = after.clone();
    defaults::complete(&mut completed);
    let demand = model::demand(&pair.group.policy, &pair.pod, after, &pair.context);
    for rule in &demand.left_out {
        let said = |warning: &adapter::Warning| {
            warning.code == "host_network" && warning.text.contains(rule.as_str())
        };
        if !pair.first.warnings.iter().any(said) {
            return fail("rule left out without a warning", rule.as_str());
        }
    }
    let text = pair.group.policy.text();
    let edits = text.contains("$prepend") || text.contains("$append");
    let outcome =
        leaves::Outcome { before: &pair.pod, after: &completed, warnings: &pair.first.warnings, edits };
    match leaves::first_missing(&demand, &outcome) {
        Some((class, detail)) => fail(class, detail),
        None => Ok(()),
    }
}

fn no_entry_is_added_twice(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    for (list, at, container) in pods::containers(after) {
        let before = &pair.pod["spec"][list][at];
        for (entries, key) in [("env", "name"), ("volumeMounts", "mountPath"), ("ports", "containerPort")] {
            let key_of = |entry: &Value| {
                let text = clean(entry[key].as_str().unwrap_or_default());
                let number = &entry["containerPort"];
                format!("{text}{number}{}", entry["protocol"].as_str().unwrap_or("TCP"))
            };
            let count = |container: &Value, wanted: &str| {
                items(&container[entries]).iter().filter(|entry| key_of(entry) == wanted).count()
            };
            for entry in items(&container[entries]) {
                let wanted = key_of(entry);
                if count(container, &wanted) > count(before, &wanted).max(1) {
                    return fail(entries, wanted);
                }
            }
        }
    }
    Ok(())
}

fn a_second_pass_changes_nothing(pair: &Pair<'_>) -> Verdict {
    pair.mutated().map_or(Ok(()), |pod| pair.again(pod))
}

fn a_pass_after_defaults_changes_nothing(pair: &Pair<'_>) -> Verdict {
    let Some(pod) = pair.mutated() else { return Ok(()) };
    // The pod came as the API server sends it to a webhook: completed.
    let mut before = pair.pod.clone();
    defaults::complete(&mut before);
    let completed = match adapter::inject(&pair.group.loaded, &before, &pair.context).outcome {
        Outcome::Mutated { mut pod, .. } => {
            defaults::complete(&mut pod);
            pair.again(&pod)
        }
        _ => Ok(()),
    };
    // Or by the command, as a template that is applied later.
    let mut pod = pod.clone();
    defaults::complete(&mut pod);
    completed.and_then(|()| pair.again(&pod))
}

fn webhook_and_command_agree(pair: &Pair<'_>) -> Verdict {
    use base64::Engine;
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
fn defaults_make_no_difference(pair: &Pair<'_>) -> Verdict {
    if !refusals(&pair.pod).is_empty() {
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
                difference.0.first().map_or_else(String::new, |first| path_class(&first.path().to_string()));
            fail(class, difference.to_string())
        }
        (one, other) if one.name() == other.name() => Ok(()),
        (one, other) => fail("another outcome", format!("{}, and {}", one.name(), other.name())),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn a_valid_pod_stays_valid(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    if !refusals(&pair.pod).is_empty() || pair.first.warnings.iter().any(|warning| warning.code == "replaced")
    {
        return Ok(());
    }
    match refusals(after).first() {
        Some(refusal) => fail(refusal.split(':').next().unwrap_or_default(), refusal.clone()),
        None => Ok(()),
    }
}

/// A pod without its stamp and without the order of its lists.
fn unordered(pod: &Value) -> Value {
    match pod {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != STAMP)
            .map(|(key, value)| (key.clone(), unordered(value)))
            .collect(),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(unordered).collect();
            list.sort_by_key(sort_key);
            list.into()
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
    let other = adapter::inject(other, &pair.pod, &pair.context);
    match (&pair.first.outcome, &other.outcome) {
        (Outcome::Mutated { pod, .. }, Outcome::Mutated { pod: other, .. }) => {
            let (pod, other) = (unordered(pod), unordered(other));
            if pod == other {
                return Ok(());
            }
            let difference = json_patch::diff(&pod, &other);
            let class =
                difference.0.first().map_or_else(String::new, |first| path_class(&first.path().to_string()));
            fail(class, difference.to_string())
        }
        (Outcome::Unchanged { .. }, Outcome::Unchanged { .. }) => Ok(()),
        (Outcome::Refused { .. }, Outcome::Refused { .. }) => Ok(()),
        (one, other) => fail("another outcome", format!("{}, and {}", one.name(), other.name())),
    }
}

fn order_of_rules(pair: &Pair<'_>) -> Verdict {
    pair.group.permuted.as_ref().map_or(Ok(()), |permuted| same_but(pair, permuted))
}

fn reading_more_changes_nothing(pair: &Pair<'_>) -> Verdict {
    if !refusals(&pair.pod).is_empty() {
        return Ok(());
    }
    pair.group.curious.as_ref().map_or(Ok(()), |curious| same_but(pair, curious))
}

fn reports_say_what_happened(pair: &Pair<'_>) -> Verdict {
    crate::reports::agree(&pair.group.policy.text(), &pair.pod, &pair.first)
        .map_or(Ok(()), |(class, detail)| fail(class, detail))
}

fn reasons_hold(pair: &Pair<'_>) -> Verdict {
    let valid = refusals(&pair.pod).is_empty();
    let matches = model::matches(&pair.group.policy, &pair.pod, &pair.context);
    let reason = match &pair.first.outcome {
        Outcome::Mutated { .. } => "mutated",
        Outcome::Unchanged { reason, .. } | Outcome::Refused { reason, .. } => reason,
    };
    let other = ["no_policy_matches", "trigger_value", "opted_out"].contains(&reason);
    if matches == other {
        return fail("match", format!("{reason} where the policy matches: {matches}"));
    }
    if !valid || !matches || !pair.group.policy.is_known() {
        return Ok(());
    }
    let text = match &pair.first.outcome {
        Outcome::Refused { text, .. } => text.clone(),
        _ => String::new(),
    };
    let demand = model::demand(&pair.group.policy, &pair.pod, &pair.pod, &pair.context);
    let applies = !demand.asked.is_empty();
    match reason {
        "malformed_pod" | "evaluation_failed" => fail(reason, text),
        "mutated" if !applies => fail("mutated without a rule", ""),
        "no_gpu_container" if applies => {
            fail("left alone where a rule applies", format!("{:?}", demand.asked))
        }
        "conflict" if !pair.group.policy.text().contains("refuse") => fail("conflict without refuse", text),
        _ => Ok(()),
    }
}

fn time_is_bounded(pair: &Pair<'_>) -> Verdict {
    if pair.took < Duration::from_secs(1) { Ok(()) } else { fail("", format!("{:?}", pair.took)) }
}
