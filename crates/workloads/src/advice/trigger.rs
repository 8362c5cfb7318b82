//! Finds the annotation of a trigger with another name, in another place, or with another value.

use serde_json::Value;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::Policy;
use fabric_yaml::pointer::{at_pointer, push_token};

use super::{NearMiss, Pod, spelling};
use fabric_engine::asks;

/// The annotations that trigger the policies whose other conditions the pod meets.
pub(super) fn usable_triggers<'p>(policies: &'p PolicySet, pod: &Pod<'_>) -> Vec<(&'p str, &'p str)> {
    let mut found = Vec::new();
    for policy in policies.policies().iter().map(Policy::definition) {
        if policy.matcher.all_but_annotations_hold(pod.value, pod.context) {
            for (key, wanted) in policy.triggers() {
                if !found.contains(&(key.as_str(), wanted.as_str())) {
                    found.push((key, wanted));
                }
            }
        }
    }
    found
}

/// The field path of the pod's annotations.
pub(super) fn place(pod: &Pod<'_>) -> String {
    pod.path(&pod.pointer_to(&["metadata", "annotations"]))
}

/// The steps to compare a key with a trigger, for each of its bytes.
const STEPS_TO_COMPARE: usize = 8;

/// A map that can have the trigger, or a key like it, without an effect.
enum TriggerMap {
    /// The annotations of the pod.
    Annotations,
    Labels,
    /// The annotations of an object that encloses the template, with its kind.
    Enclosing(String),
    /// Any other map next to the annotations.
    Other,
}

/// Finds the keys that would trigger a policy under another name or in another place.
pub(super) fn misplaced(triggers: &[(&str, &str)], pod: &Pod<'_>, found: &mut Vec<NearMiss>) {
    let mut places = own_places(pod);
    // An annotation of the whole workload is meant for its GPU pods.
    if pod.has_gpus || !pod.has_gpu_peers {
        places.extend(enclosing_places(pod));
    }
    for (map, place) in places {
        let entries = at_pointer(pod.document, &map).and_then(Value::as_object);
        // Most are templates of other pods, and none of these can be an annotation.
        let scalars =
            entries.into_iter().flatten().filter(|(_, value)| !value.is_object() && !value.is_array());
        for (key, value) in scalars {
            if !pod.goes_on(key.len().saturating_mul(STEPS_TO_COMPARE)) {
                return;
            }
            let exact = triggers.iter().find(|(trigger, _)| trigger == key);
            let like = || triggers.iter().find(|(trigger, _)| spelling::of_trigger(key, trigger));
            let Some((trigger, wanted)) = exact.or_else(like) else { continue };
            if asks(value, wanted) {
                let mut pointer = map.clone();
                push_token(&mut pointer, key);
                let (code, message) = describe(pod, &place, (&map, key, value), (trigger, wanted));
                found.push(NearMiss { code, pointer, message });
            }
        }
    }
}

fn own_places(pod: &Pod<'_>) -> Vec<(String, TriggerMap)> {
    let other: [&[&str]; 6] = [
        &["metadata"],
        &["annotations"],
        &["spec", "annotations"],
        &["spec", "metadata", "annotations"],
        &["spec"],
        &[],
    ];
    let named = [
        (pod.pointer_to(&["metadata", "annotations"]), TriggerMap::Annotations),
        (pod.pointer_to(&["metadata", "labels"]), TriggerMap::Labels),
    ];
    named.into_iter().chain(other.map(|tokens| (pod.pointer_to(tokens), TriggerMap::Other))).collect()
}

/// The maps of the objects that enclose a template: of its Job, of the JobSet of that, and so on.
fn enclosing_places(pod: &Pod<'_>) -> Vec<(String, TriggerMap)> {
    let mut places = Vec::new();
    let mut kind = "workload";
    for (at, _) in pod.pointer.match_indices('/') {
        let enclosing = &pod.pointer[..at];
        if !pod.goes_on(enclosing.len()) {
            break;
        }
        let Some(value) = at_pointer(pod.document, enclosing).filter(|value| value.is_object()) else {
            continue;
        };
        kind = value["kind"].as_str().unwrap_or(kind);
        let at = |tail: &str| format!("{enclosing}{tail}");
        places.push((at("/metadata/annotations"), TriggerMap::Enclosing(kind.to_owned())));
        places.push((at("/metadata/labels"), TriggerMap::Labels));
        places.extend(["/metadata", "/annotations", ""].map(|tail| (at(tail), TriggerMap::Other)));
    }
    places
}

/// The code and the message for a key of a map.
fn describe(
    pod: &Pod<'_>,
    place: &TriggerMap,
    (map, key, value): (&str, &str, &Value),
    (trigger, wanted): (&str, &str),
) -> (&'static str, String) {
    let to = self::place(pod);
    let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("\"{text}\""));
    let seen = format!("`{key}: {shown}`");
    let annotation = format!("`{trigger}: \"{wanted}\"`");
    let from = match pod.path(map) {
        path if path.is_empty() => "the root of the document".to_owned(),
        path => format!("`{path}`"),
    };
    let change = if key == trigger && value.as_str() == Some(wanted) {
        format!("move {seen} from {from} to `{to}`")
    } else {
        format!("add {annotation} to `{to}`, in place of {seen} in {from}")
    };
    match place {
        TriggerMap::Annotations => (
            "misspelled_trigger",
            format!(
                "write {annotation} instead of {seen} in `{to}`: no policy reads an annotation with that name"
            ),
        ),
        TriggerMap::Labels => {
            ("trigger_as_label", format!("{change}: policies read annotations, not labels"))
        }
        TriggerMap::Enclosing(kind) => {
            ("trigger_on_workload", format!("{change}: pods do not get the annotations of a {kind}"))
        }
        TriggerMap::Other => ("misplaced_trigger", format!("{change}: it is not an annotation there")),
    }
}

/// The near miss of a trigger with another value, unless that turns the fabric off.
pub(super) fn other_value(pod: &Pod<'_>, key: &str, wanted: &str) -> Option<NearMiss> {
    let value = &pod.value["metadata"]["annotations"][key];
    if !asks(value, wanted) {
        return None;
    }
    let place = place(pod);
    let (code, message) = match value {
        Value::String(seen) => (
            "other_trigger_value",
            format!("write `{key}: \"{wanted}\"` in `{place}`: `{seen}` does not request the fabric"),
        ),
        other => (
            "trigger_not_a_string",
            format!(
                "write `{key}: \"{wanted}\"` with quotes in `{place}`: the API server refuses an annotation that is not a string, as `{other}`"
            ),
        ),
    };
    Some(NearMiss { code, pointer: pod.pointer_to(&["metadata", "annotations", key]), message })
}
