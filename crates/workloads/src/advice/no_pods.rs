//! Workloads without a pod template: their pods come from elsewhere, or from a field that is not a pod template.

use serde_json::Value;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::group_of;
use fabric_yaml::pointer::{at_pointer, expanded, field_path, unescape, visit_values};

use super::kinds::{self, Kind, Together};
use super::{Finding, Level, WORKLOAD_WITHOUT_TRIGGER, gpus, spelling, together};

/// The code of a document that looks like a workload and has no pod template.
pub const NO_POD_TEMPLATE: &str = "no_pod_template";

/// The fields of a `TrainJob` that change the template of its runtime.
const PATCHES: [&str; 2] = ["podTemplateOverrides", "runtimePatches"];

/// The name of a runtime, to compare a `TrainJob` with it. A runtime without a namespace is cluster-wide.
pub fn runtime(kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if kind == "TrainingRuntime" { namespace } else { "" };
    format!("{kind}/{namespace}/{name}")
}

/// The name of the runtime of a `TrainJob`.
pub fn runtime_of_job(job: &Value) -> String {
    let named = &job["spec"]["runtimeRef"];
    let kind = named["kind"].as_str().unwrap_or("ClusterTrainingRuntime");
    let namespace = job["metadata"]["namespace"].as_str().unwrap_or("default");
    runtime(kind, namespace, named["name"].as_str().unwrap_or_default())
}

/// JSON Pointers to the objects in a document: itself, the items of a `List`, the objects that a wrapper creates.
pub fn objects(document: &Value, pointer: &str) -> Vec<String> {
    let Some(value) = at_pointer(document, pointer) else { return Vec::new() };
    let (kind, api_version) = (value["kind"].as_str().unwrap_or_default(), value["apiVersion"].as_str());
    let within: Vec<String> = match Kind::find(api_version.unwrap_or_default(), kind) {
        Some(known) if !known.wraps.is_empty() => {
            known.wraps.iter().flat_map(|path| expanded(value, path)).collect()
        }
        None if kind.ends_with("List") => {
            let count = value["items"].as_array().map_or(0, Vec::len);
            (0..count).map(|index| format!("/items/{index}")).collect()
        }
        _ => return vec![pointer.to_owned()],
    };
    within.iter().flat_map(|inner| objects(document, &format!("{pointer}{inner}"))).collect()
}

/// Why `mutate` leaves the object at `pointer`, which has no pod templates, as it is, and what injects its pods; `None`
/// for an object that is not a workload.
pub fn note(policies: &PolicySet, document: &Value, pointer: &str) -> Option<Finding> {
    let part = at_pointer(document, pointer)?;
    let (kind, api_version) = (part["kind"].as_str()?, part["apiVersion"].as_str()?);
    let is_no_workload = kinds::table().no_workloads.iter().any(|known| known == group_of(api_version));
    if is_no_workload || kind == "AdmissionReview" {
        return None;
    }
    let (triggers, gpus) = (policies.triggers(), gpus::names(policies));
    // The first annotation that requests the fabric, and the first container or request for GPUs.
    let (mut annotated, mut container) = (None, None);
    // Whether the annotation is there with any value, and whether anything asks for GPUs.
    let (mut decides, mut asks_for_gpus) = (false, false);
    visit_values(part, &mut pointer.to_owned(), &mut |pointer, value| {
        let key = unescape(pointer.rsplit('/').next().unwrap_or_default());
        let asks = |(trigger, wanted): &&(String, String)| {
            (*trigger == key || spelling::of_trigger(&key, trigger)) && fabric_engine::turns_on(value, wanted)
        };
        decides |= triggers.iter().any(|(trigger, _)| *trigger == key);
        if annotated.is_none() && triggers.iter().any(asks) {
            annotated = Some(field_path(document, pointer));
        }
        let has_gpus = has_gpus(&gpus, pointer, value);
        asks_for_gpus |= has_gpus;
        if container.is_none() && (has_gpus || is_container(pointer, value)) {
            container = Some(field_path(document, pointer));
        }
    });
    let note = |message: String| Some(Finding::note(NO_POD_TEMPLATE, pointer, message));
    let known = Kind::find(api_version, kind);
    let without_trigger = || together::without_template(&gpus, known?, part);
    let unasked = if annotated.is_none() && !decides { without_trigger() } else { None };
    if kind == "TrainJob" {
        return note(String::new()).map(|note| of_train_job(part, annotated.as_deref(), unasked, note));
    }
    let own_form = known.is_some_and(|known| known.own_form);
    if annotated.is_none() && !asks_for_gpus && !own_form {
        return None;
    }
    let annotations = known.and_then(|known| known.annotations.as_ref());
    if let (Some(place), Some(why), Some((key, wanted))) = (annotations, unasked, triggers.first()) {
        let (level, condition) = match known?.together {
            Together::Always => (Level::Warning, ""),
            _ => (Level::Note, "if its pods work together, "),
        };
        let message = format!("{condition}add `{key}: \"{wanted}\"` to {place}: {why}");
        return Some(Finding::new(level, WORKLOAD_WITHOUT_TRIGGER, pointer, message));
    }
    let sign = annotated.as_ref().or(container.as_ref());
    match (annotations, sign) {
        (Some(place), _) if sign.is_some() || own_form => {
            let has = sign.map(|sign| format!(" (the object has `{sign}`)")).unwrap_or_default();
            note(format!(
                "the pods of the kind {kind} get their annotations from {place}{has}: `mutate` does not see these pods, \
                 and the webhook injects them"
            ))
        }
        (_, Some(sign)) => {
            let annotation = match triggers.first() {
                Some((key, wanted)) if annotated.is_none() => format!(" `{key}: \"{wanted}\"`"),
                _ => String::new(),
            };
            note(format!(
                "it is unknown from where the pods of the kind {kind} get their annotations (`{sign}` is in no pod \
                 template): the webhook injects them if its controller passes the annotation{annotation} on to them"
            ))
        }
        (_, None) => None,
    }
}

/// Completes the note about a `TrainJob`.
fn of_train_job(job: &Value, annotated: Option<&str>, unasked: Option<String>, note: Finding) -> Finding {
    const WHY: &str = "a TrainJob has no pod template";
    let name = job["spec"]["runtimeRef"]["name"].as_str();
    let name = name.map(|name| format!(" `{name}`")).unwrap_or_default();
    let annotate = format!("annotate the template in its runtime{name}");
    match (annotated, unasked) {
        (Some(path), _) if PATCHES.iter().any(|patches| path.contains(patches)) => {
            let message = format!(
                "{WHY}; the webhook injects its pods if they get the annotation from `{path}`, and `mutate` cannot"
            );
            Finding { message, ..note }
        }
        (Some(path), _) => {
            let message =
                format!("{annotate}, or in `spec.runtimePatches`: {WHY}, and its pods do not get `{path}`");
            Finding { level: Level::Warning, message, ..note }
        }
        (None, Some(why)) => {
            let message = format!(
                "{annotate}, or in `spec.runtimePatches`, unless the runtime has the annotation: {why}"
            );
            let runtime = Some(runtime_of_job(job));
            Finding { runtime, ..Finding::warning(WORKLOAD_WITHOUT_TRIGGER, note.pointer, message) }
        }
        (None, None) => {
            Finding { message: format!("{WHY}; {annotate}, unless it has the annotation"), ..note }
        }
    }
}

/// Returns whether a map is a container.
fn is_container(pointer: &str, value: &Value) -> bool {
    let name = pointer.rsplit('/').find(|token| token.parse::<usize>().is_err());
    value.get("image").is_some()
        && name.is_some_and(|name| ["container", "containers", "script"].contains(&name))
}

/// Returns whether a map is the limits or requests for GPUs of a container, such as in `resourcesPerNode`, or in
/// `computeResources` of a step of Tekton.
fn has_gpus(gpus: &[&str], pointer: &str, value: &Value) -> bool {
    let mut names = pointer.rsplit('/').filter(|token| token.parse::<usize>().is_err());
    let (name, parent) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    ["limits", "requests"].contains(&name)
        && parent.to_ascii_lowercase().contains("resources")
        && gpus.iter().any(|gpu| value.get(*gpu).is_some())
}
