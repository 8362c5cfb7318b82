//! Of rules in several files that set one value, the first one in the order of precedence decides.

use std::collections::BTreeSet;

use serde_json::Value;

use super::generator::expressions::plain;
use super::generator::{defaults, items, pods};
use super::model::{self, Asked, Demand};
use super::pair::{Pair, Verdict, fail};
use super::places::{Place, class, tokens, without_list};

const SETS: [&str; 9] = [
    "add",
    "drop",
    "tolerations",
    "ports",
    "envFrom",
    "imagePullSecrets",
    "hostAliases",
    "supplementalGroups",
    "resourceClaims",
];

/// A value of an extension is the pod's, where a rule of its base would have another one and the pod has none; `null`
/// leaves out what the base sets there and below.
pub(crate) fn extensions_win(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    if !pair.known || !pair.refusals.is_empty() || pair.group.policy.document["layout"].is_null() {
        return Ok(());
    }
    let demand = model::demand(&pair.group.policy, &pair.pod, after, &pair.context);
    let mut before = pair.pod.clone();
    defaults::complete(&mut before);
    for asked in &demand.asked {
        for (place, value) in asked.claims.iter().filter(|(place, _)| is_plain(place)) {
            if !decides(&demand, asked, place, value)
                || has(&before, place)
                || is_in_other_list(&before, place)
            {
                continue;
            }
            // A value that the pod cannot have is left out, and the report says why.
            let mut warnings =
                pair.first.warnings.iter().filter(|warning| !warning.code.starts_with("kept_"));
            let seen = lookup(after, place);
            let same = plain(seen) == plain(value) || value.is_null() && is_nothing(seen);
            if !same && !warnings.any(|warning| overlap(&tokens(&warning.path), place)) {
                let detail = format!("{} is {seen}, and rule {} has {value}", place.join("/"), asked.rule);
                return fail(class(place), detail);
            }
        }
    }
    Ok(())
}

/// The places for which another rule decides, so that this rule's values are left out: one of a file before, one before
/// it in its file, or one after it that replaces. A rule may name a place twice, for all containers and for one by its
/// name.
pub(crate) fn yields(demand: &Demand, asked: &Asked, pod: &Value) -> BTreeSet<Place> {
    let mut is_before = true;
    let mut places = BTreeSet::new();
    for other in &demand.asked {
        if other.rule == asked.rule {
            is_before = false;
            let own: Vec<Place> = asked.claims.iter().map(|(place, _)| decided(place)).collect();
            let is_twice = |place: &&Place| own.iter().filter(|known| known == place).count() > 1;
            places.extend(own.iter().filter(is_twice).cloned());
        } else if other.file < asked.file || other.file == asked.file && (is_before || other.replaces) {
            places.extend(other.claims.iter().map(|(place, _)| decided(place)));
        }
    }
    places.extend(of_added_containers(demand, asked, pod));
    // Sets are united.
    places.retain(|place| place.last().is_none_or(|last| !SETS.contains(&last.as_str())));
    let of_requests = |place: &Place| {
        let other = |token: &String| if token == "limits" { "requests".to_owned() } else { token.clone() };
        place.iter().map(other).collect::<Place>()
    };
    let requests: Vec<Place> = places.iter().map(of_requests).collect();
    places.extend(requests);
    places
}

/// The places in containers that this rule adds, for which a rule for all containers has a value as well.
fn of_added_containers(demand: &Demand, asked: &Asked, pod: &Value) -> Vec<Place> {
    let is_added = |place: &Place| {
        place.len() > 3
            && ["containers", "initContainers"].contains(&place[1].as_str())
            && pods::containers(pod).all(|(.., container)| container["name"] != *place[2])
    };
    let others = || demand.asked.iter().flat_map(|other| &other.claims).map(|(place, _)| place);
    let is_of_all = |place: &&Place| {
        let mut same = others().filter(|other| other.len() > 3 && other[2] != place[2]);
        same.any(|other| other[3..] == place[3..])
    };
    let own = asked.claims.iter().map(|(place, _)| place);
    own.filter(|place| is_added(place)).filter(is_of_all).cloned().collect()
}

/// The place that is one value: an amount is one in limits and requests, and a probe or a profile of seccomp, which has
/// one kind, is one as a whole.
fn decided(place: &Place) -> Place {
    let union = place.iter().position(|token| token.ends_with("Probe") || token == "seccompProfile");
    without_list(&place[..union.map_or(place.len(), |at| at + 1)])
}

/// Whether this claim is the only one of its file and those before, and another file has another value.
fn decides(demand: &Demand, asked: &Asked, place: &Place, value: &Value) -> bool {
    let others = || {
        let others =
            demand.asked.iter().flat_map(|other| other.claims.iter().map(move |claim| (other.file, claim)));
        others.filter(|(_, (other, _))| overlap(other, place))
    };
    let is_edit =
        |value: &Value| value.as_object().is_some_and(|map| map.keys().any(|key| key.starts_with('$')));
    let later = others().filter(|(file, _)| *file > asked.file).count();
    let edited = others().any(|(_, (_, value))| is_edit(value));
    let with_precedence = others().count() - later;
    let mut different = others().filter(|(file, claim)| *file > asked.file && claim.1 != *value);
    !edited && with_precedence == 1 && different.next().is_some()
}

/// Whether a place has one value that nothing else decides about.
fn is_plain(place: &Place) -> bool {
    match place.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["spec", "containers" | "initContainers", _, "env", _] => true,
        ["metadata", "labels", _] | ["spec", "nodeSelector", _] => true,
        ["metadata", "annotations", key] => !key.contains('[') && !key.contains("k8s.v1.cni"),
        ["spec", "nodeSelector" | "schedulerName"] | ["metadata", "labels"] => true,
        _ => false,
    }
}

/// Whether the pod has the container of a place in another list of containers.
fn is_in_other_list(pod: &Value, place: &Place) -> bool {
    ["containers", "initContainers"].iter().any(|list| {
        place.len() > 2
            && place[1] != *list
            && items(&pod["spec"][*list]).iter().any(|one| one["name"] == *place[2])
    })
}

fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// The value at a place; of a variable, the text or the entry.
fn lookup<'p>(pod: &'p Value, place: &Place) -> &'p Value {
    let found = find(pod, place);
    let is_variable = place.len() == 5 && place[3] == "env";
    if is_variable && found["valueFrom"].is_null() { &found["value"] } else { found }
}

fn find<'p>(pod: &'p Value, place: &Place) -> &'p Value {
    place.iter().fold(pod, |value, token| match value {
        Value::Array(_) => {
            items(value).iter().rfind(|entry| entry["name"] == **token).unwrap_or(&Value::Null)
        }
        value => &value[token.as_str()],
    })
}

/// Whether a pod has something at a place; a variable without a value is one.
fn has(pod: &Value, place: &Place) -> bool {
    let entry = if place.len() == 5 { find(pod, place) } else { lookup(pod, place) };
    !is_nothing(entry)
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || *value == "" || value.as_object().is_some_and(serde_json::Map::is_empty)
}
