//! Workloads without a pod template: their pods come from elsewhere, or from a field that is not a pod template.

use serde_json::{Map, Value};

use fabric_engine::policy_set::PolicySet;
use fabric_policy::group_of;
use fabric_yaml::pointer::{at_pointer, field_path, push_token};

use super::kinds::{self, Kind};
use super::{WORKLOAD_WITHOUT_TRIGGER, gpus, spelling, together};

/// The code of a document that looks like a workload and has no pod template.
pub const NO_POD_TEMPLATE: &str = "no_pod_template";

/// The fields of a `TrainJob` that change the template of its runtime.
const PATCHES: [&str; 2] = ["podTemplateOverrides", "runtimePatches"];

/// The signs of a workload in a document.
#[derive(Default)]
struct Signs {
    /// JSON Pointer to the first annotation that requests the fabric.
    trigger: Option<String>,
    /// True if the annotation is there with any value.
    decides: bool,
    /// JSON Pointer to the first container or request for GPUs.
    container: Option<String>,
}

/// A fact about a workload without a pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPods {
    pub code: &'static str,
    /// True if the workload requests the fabric in a place from which its pods do not get the annotation, or should
    /// request it.
    pub asks: bool,
    /// The runtime from which a `TrainJob` takes its pod template. If the runtime requests the fabric, no action is
    /// needed.
    pub runtime: Option<String>,
    pub message: String,
}

impl From<String> for NoPods {
    fn from(message: String) -> Self {
        Self { code: NO_POD_TEMPLATE, asks: false, runtime: None, message }
    }
}

/// The name of a runtime, to compare a `TrainJob` with it. A runtime without a namespace is cluster-wide.
pub fn runtime(kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if kind == "TrainingRuntime" { namespace } else { "" };
    format!("{kind}/{namespace}/{name}")
}

/// JSON Pointers to the objects in a document: itself, the items of a `List`, the objects that a wrapper creates.
pub fn objects(document: &Value, pointer: &str) -> Vec<String> {
    let Some(value) = at_pointer(document, pointer) else { return Vec::new() };
    let (kind, api_version) = (value["kind"].as_str().unwrap_or_default(), value["apiVersion"].as_str());
    let within = match Kind::find(api_version.unwrap_or_default(), kind) {
        Some(known) if !known.wraps.is_empty() => known.wrapped(value),
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
pub fn note(policies: &PolicySet, document: &Value, pointer: &str) -> Option<NoPods> {
    let part = at_pointer(document, pointer)?;
    let (kind, api_version) = (part["kind"].as_str()?, part["apiVersion"].as_str()?);
    let group = group_of(api_version);
    if kinds::is_no_workload(group) || kind == "AdmissionReview" {
        return None;
    }
    let mut signs = Signs::default();
    look(&Sought::new(policies), part, &mut pointer.to_owned(), &mut signs);
    let path = |pointer: &String| field_path(document, pointer);
    let annotated = signs.trigger.as_ref().map(path);
    let known = Kind::find(api_version, kind);
    let without_trigger = || together::without_template(&gpus::names(policies), known?, part);
    let unasked = if annotated.is_none() && !signs.decides { without_trigger() } else { None };
    if kind == "TrainJob" {
        return Some(of_train_job(part, annotated.as_deref(), unasked));
    }
    if let (Some(place), Some(why), Some((key, wanted))) =
        (known.and_then(|known| known.annotations.as_ref()), unasked, policies.triggers().first())
    {
        let message = format!("add `{key}: \"{wanted}\"` to {place}: {why}");
        return Some(NoPods { code: WORKLOAD_WITHOUT_TRIGGER, asks: true, ..message.into() });
    }
    let container = signs.container.as_ref().map(path);
    let sign = annotated.as_ref().or(container.as_ref());
    match (known.and_then(|known| known.annotations.as_ref()), sign) {
        (Some(place), _) if sign.is_some() || known.is_some_and(|known| known.own_form) => {
            let has = sign.map(|sign| format!(" (the object has `{sign}`)")).unwrap_or_default();
            let message = format!(
                "the pods of the kind {kind} get their annotations from {place}{has}: `mutate` does not see these pods, \
                 and the webhook injects them"
            );
            Some(message.into())
        }
        (_, Some(sign)) => {
            let annotation = match policies.triggers().first() {
                Some((key, wanted)) if annotated.is_none() => format!(" `{key}: \"{wanted}\"`"),
                _ => String::new(),
            };
            Some(NoPods::from(format!(
                "it is unknown from where the pods of the kind {kind} get their annotations (`{sign}` is in no pod \
                 template): the webhook injects them if its controller passes the annotation{annotation} on to them"
            )))
        }
        (_, None) => None,
    }
}

fn of_train_job(job: &Value, annotated: Option<&str>, unasked: Option<String>) -> NoPods {
    const WHY: &str = "a TrainJob has no pod template";
    let of_job = &job["spec"]["runtimeRef"];
    let kind = of_job["kind"].as_str().unwrap_or("ClusterTrainingRuntime");
    let namespace = job["metadata"]["namespace"].as_str().unwrap_or("default");
    let named = runtime(kind, namespace, of_job["name"].as_str().unwrap_or_default());
    let runtime = of_job["name"].as_str().map(|name| format!(" `{name}`")).unwrap_or_default();
    match annotated {
        Some(path) if PATCHES.iter().any(|patches| path.contains(patches)) => NoPods::from(format!(
            "{WHY}; the webhook injects its pods if they get the annotation from `{path}`, and `mutate` cannot"
        )),
        Some(path) => {
            let message = format!(
                "annotate the template in its runtime{runtime}, or in `spec.runtimePatches`: {WHY}, and its pods do not \
                 get `{path}`"
            );
            NoPods { asks: true, ..message.into() }
        }
        None if unasked.is_some() => {
            let why = unasked.unwrap_or_default();
            let message =
                format!("annotate the template in its runtime{runtime}, or in `spec.runtimePatches`: {why}");
            NoPods { code: WORKLOAD_WITHOUT_TRIGGER, asks: true, runtime: Some(named), message }
        }
        None => NoPods::from(format!("{WHY}; annotate the template in its runtime{runtime}")),
    }
}

struct Sought<'p> {
    triggers: Vec<&'p (String, String)>,
    gpus: Vec<&'p str>,
}

impl<'p> Sought<'p> {
    fn new(policies: &'p PolicySet) -> Self {
        Self { triggers: policies.triggers(), gpus: gpus::names(policies) }
    }
}

fn look(sought: &Sought<'_>, value: &Value, pointer: &mut String, signs: &mut Signs) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            if signs.container.is_none() && is_container(sought, pointer, map) {
                signs.container = Some(pointer.clone());
            }
            map.iter().map(|(key, child)| (key.clone(), child)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => return,
    };
    for (key, child) in entries {
        let before = pointer.len();
        push_token(pointer, &key);
        let asks = |(trigger, wanted): &&(String, String)| {
            (*trigger == key || spelling::of_trigger(&key, trigger)) && fabric_engine::asks(child, wanted)
        };
        signs.decides |= value.is_object() && sought.triggers.iter().any(|(trigger, _)| *trigger == key);
        if value.is_object() && signs.trigger.is_none() && sought.triggers.iter().any(asks) {
            signs.trigger = Some(pointer.clone());
        }
        look(sought, child, pointer, signs);
        pointer.truncate(before);
    }
}

/// Returns whether a map is a container, or the limits or requests for GPUs of one.
fn is_container(sought: &Sought<'_>, pointer: &str, map: &Map<String, Value>) -> bool {
    let mut names = pointer.rsplit('/').filter(|token| token.parse::<usize>().is_err());
    let (name, parent) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    // Such as `resourcesPerNode`, or `computeResources` of a step of Tekton.
    let in_resources =
        ["limits", "requests"].contains(&name) && parent.to_ascii_lowercase().contains("resources");
    let has_gpus = in_resources && sought.gpus.iter().any(|gpu| map.contains_key(*gpu));
    let is_container = ["container", "containers", "script"].contains(&name) && map.contains_key("image");
    has_gpus || is_container
}
