//! Finds the annotation of a trigger with another name, in another place, or with another value.

use serde_json::Value;

use fabric_policy::Policy;
use fabric_yaml::each_once;
use fabric_yaml::pointer::at_pointer;

use super::{Finding, Pod, spelling, with_token};
use fabric_engine::turns_on;

/// The annotations that trigger the policies whose other conditions the pod meets.
pub(super) fn usable_triggers<'p>(pod: &Pod<'p>) -> Vec<(&'p str, &'p str)> {
    let policies = pod.policies.policies().iter().map(Policy::definition);
    let usable = policies.filter(|one| one.matcher.all_but_annotations_hold(pod.value, pod.context));
    let triggers = usable.flat_map(|one| &one.matcher.any_annotation);
    each_once(triggers.map(|(key, wanted)| (key.as_str(), wanted.as_str())))
}

/// The field path of the pod's annotations.
pub(super) fn place(pod: &Pod<'_>) -> String {
    pod.path(&pod.pointer_to(&["metadata", "annotations"]))
}

/// The steps to compare a key with a trigger, for each of its bytes.
const STEPS_TO_COMPARE: usize = 8;

/// A map that can have the trigger, or a key like it, without an effect.
struct TriggerMap {
    pointer: String,
    /// The code of a key in it.
    code: &'static str,
    /// Why such a key has no effect.
    why: String,
}

const MISSPELLED: &str = "misspelled_trigger";

/// Finds the keys that would trigger a policy under another name or in another place.
pub(super) fn misplaced(triggers: &[(&str, &str)], pod: &Pod<'_>, found: &mut Vec<Finding>) {
    let mut places = own_places(pod);
    // An annotation of the whole workload is meant for its GPU pods.
    if pod.has_gpus || !pod.has_gpu_peers {
        places.extend(enclosing_places(pod));
    }
    for map in places {
        let entries = at_pointer(pod.document, &map.pointer).and_then(Value::as_object);
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
            if turns_on(value, wanted) {
                let message = describe(pod, &map, key, value, trigger, wanted);
                found.push(Finding::warning(map.code, with_token(map.pointer.clone(), key), message));
            }
        }
    }
}

/// A map of labels.
fn labels(pointer: String) -> TriggerMap {
    TriggerMap { pointer, code: "trigger_as_label", why: "policies read annotations, not labels".to_owned() }
}

/// A map next to the annotations.
fn other(pointer: String) -> TriggerMap {
    TriggerMap { pointer, code: "misplaced_trigger", why: "it is not an annotation there".to_owned() }
}

fn own_places(pod: &Pod<'_>) -> Vec<TriggerMap> {
    let at = |tail: &str| format!("{}{tail}", pod.pointer);
    let why = "no policy reads an annotation with that name".to_owned();
    let annotations = TriggerMap { pointer: at("/metadata/annotations"), code: MISSPELLED, why };
    let others =
        ["/metadata", "/annotations", "/spec/annotations", "/spec/metadata/annotations", "/spec", ""];
    let others = others.into_iter().map(|tail| other(at(tail)));
    [annotations, labels(at("/metadata/labels"))].into_iter().chain(others).collect()
}

/// The maps of the objects that enclose a template: of its Job, of the JobSet of that, and so on.
fn enclosing_places(pod: &Pod<'_>) -> Vec<TriggerMap> {
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
        let why = format!("pods do not get the annotations of a {kind}");
        places.push(TriggerMap { pointer: at("/metadata/annotations"), code: "trigger_on_workload", why });
        places.push(labels(at("/metadata/labels")));
        places.extend(["/metadata", "/annotations", ""].map(|tail| other(at(tail))));
    }
    places
}

/// The message for a key of a map.
fn describe(
    pod: &Pod<'_>,
    TriggerMap { pointer, code, why }: &TriggerMap,
    key: &str,
    value: &Value,
    trigger: &str,
    wanted: &str,
) -> String {
    let to = place(pod);
    let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("\"{text}\""));
    let seen = format!("`{key}: {shown}`");
    let annotation = format!("`{trigger}: \"{wanted}\"`");
    let from = match pod.path(pointer) {
        path if path.is_empty() => "the root of the document".to_owned(),
        path => format!("`{path}`"),
    };
    if *code == MISSPELLED {
        format!("write {annotation} instead of {seen} in `{to}`: {why}")
    } else if key == trigger && value.as_str() == Some(wanted) {
        format!("move {seen} from {from} to `{to}`: {why}")
    } else {
        format!("add {annotation} to `{to}`, in place of {seen} in {from}: {why}")
    }
}

/// The near miss of a trigger with another value, unless that turns the fabric off.
pub(super) fn other_value(pod: &Pod<'_>, key: &str, wanted: &str) -> Option<Finding> {
    let value = &pod.value["metadata"]["annotations"][key];
    if !turns_on(value, wanted) {
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
                "write `{key}: \"{wanted}\"` with quotes in `{place}`: the API server refuses an annotation that is read as `{other}`, not as a string"
            ),
        ),
    };
    Some(Finding::warning(code, pod.pointer_to(&["metadata", "annotations", key]), message))
}
