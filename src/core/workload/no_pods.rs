//! Workloads without a pod template: their pods come from elsewhere, or from a field that is no pod template.

use serde_json::{Map, Value};

use crate::core::pointer::{at_pointer, field_path, push_token};
use crate::core::policy::group_of;
use crate::core::policy_set::PolicySet;

use super::{gpus, spelling, trigger};

/// The code of a document that looks like a workload and has no pod template.
pub const NO_POD_TEMPLATE: &str = "no_pod_template";

/// Groups of objects that describe, generate or limit pods without being workloads.
const NO_WORKLOADS: [&str; 7] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "fabric-injector.io",
    "karpenter.sh",
    "kyverno.io",
    "mutations.gatekeeper.sh",
    "policies.kyverno.io",
];

/// Kinds whose operators annotate the pods that they make: group, kind, and where the annotations come from.
const ANNOTATED: [(&str, &str, &str); 16] = [
    ("apps.nvidia.com", "NIMPipeline", "`spec.annotations` of each of its `spec.services`"),
    ("apps.nvidia.com", "NIMService", "`spec.annotations`"),
    ("argoproj.io", "ClusterWorkflowTemplate", ARGO),
    ("argoproj.io", "CronWorkflow", ARGO),
    ("argoproj.io", "Workflow", ARGO),
    ("argoproj.io", "WorkflowTemplate", ARGO),
    (
        "nvidia.com",
        "DynamoComponentDeployment",
        "`spec.annotations`, or `metadata.annotations` of its `podTemplate` in `v1beta1`",
    ),
    (
        "nvidia.com",
        "DynamoGraphDeployment",
        "`annotations` of each of its `spec.services`, or `metadata.annotations` of each `podTemplate` in `v1beta1`",
    ),
    ("serving.kserve.io", "InferenceService", "`spec.predictor.annotations`"),
    (
        "sparkoperator.k8s.io",
        "ScheduledSparkApplication",
        "`annotations` of `spec.template.driver` and `spec.template.executor`",
    ),
    ("sparkoperator.k8s.io", "SparkApplication", "`annotations` of `spec.driver` and `spec.executor`"),
    (TEKTON, "ClusterTask", "`metadata.annotations`"),
    (TEKTON, "Pipeline", "`metadata.annotations`"),
    (TEKTON, "PipelineRun", "`metadata.annotations`"),
    (TEKTON, "Task", "`metadata.annotations`"),
    (TEKTON, "TaskRun", "`metadata.annotations`"),
];
const ARGO: &str = "`metadata.annotations` of each of its `templates`";
const TEKTON: &str = "tekton.dev";
/// The fields of a `TrainJob` that change the template of its runtime.
const PATCHES: [&str; 2] = ["podTemplateOverrides", "runtimePatches"];

/// Groups whose kinds request GPUs in a form of their own, so that no sign of them is in the document.
const GPU_GROUPS: [&str; 3] = ["apps.nvidia.com", "nvidia.com", "sparkoperator.k8s.io"];

/// The signs of a workload in a document.
#[derive(Default)]
struct Signs {
    /// JSON Pointer to the first annotation that asks for the fabric.
    trigger: Option<String>,
    /// JSON Pointer to the first container or request for GPUs.
    container: Option<String>,
}

/// A fact about a workload without a pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPods {
    /// True if the workload asks for the fabric where its pods do not get the annotation from.
    pub asks: bool,
    pub message: String,
}

impl From<String> for NoPods {
    fn from(message: String) -> Self {
        Self { asks: false, message }
    }
}

/// The reason why `mutate` leaves a document, in whose part at `pointer` there are no pod templates, as it is, and what
/// injects its pods; none for one that is no workload.
pub fn note(policies: &PolicySet, document: &Value, pointer: &str) -> Option<NoPods> {
    let (kind, api_version) = (document["kind"].as_str()?, document["apiVersion"].as_str()?);
    let group = group_of(api_version);
    if NO_WORKLOADS.contains(&group) || kind == "AdmissionReview" {
        return None;
    }
    let mut signs = Signs::default();
    let part = at_pointer(document, pointer)?;
    look(&Sought::of(policies), part, &mut pointer.to_owned(), &mut signs);
    let path = |pointer: &String| field_path(document, pointer);
    let annotated = signs.trigger.as_ref().map(path);
    if kind == "TrainJob" {
        let runtime = document["spec"]["runtimeRef"]["name"].as_str();
        return Some(of_train_job(runtime, annotated.as_deref()));
    }
    let container = signs.container.as_ref().map(path);
    let sign = annotated.as_ref().or(container.as_ref());
    let known = ANNOTATED.iter().find(|(of, name, _)| (*of, *name) == (group, kind));
    match (known, sign) {
        (Some((.., place)), _) if sign.is_some() || GPU_GROUPS.contains(&group) => {
            let has = sign.map(|sign| format!(" and has `{sign}`")).unwrap_or_default();
            let message = format!(
                "`mutate` cannot see the pods of a {kind}, which has no pod template{has}; the webhook injects them if \
                 they get the annotation, from {place}"
            );
            Some(message.into())
        }
        (_, Some(sign)) => Some(NoPods::from(format!(
            "no pod template is found in this {kind}, which has `{sign}`, a map with `spec.containers`; the webhook \
             injects its pods if they get the annotation"
        ))),
        (_, None) => None,
    }
}

fn of_train_job(runtime: Option<&str>, annotated: Option<&str>) -> NoPods {
    const WHY: &str = "a TrainJob has no pod template";
    let runtime = runtime.map(|name| format!(" `{name}`")).unwrap_or_default();
    match annotated {
        Some(path) if PATCHES.iter().any(|patches| path.contains(patches)) => NoPods::from(format!(
            "{WHY}; the webhook injects its pods if they get the annotation from `{path}`, and `mutate` cannot"
        )),
        Some(path) => NoPods {
            asks: true,
            message: format!(
                "annotate the template in its runtime{runtime}, or in `spec.runtimePatches`: {WHY}, and its pods do not \
                 get `{path}`"
            ),
        },
        None => NoPods::from(format!("{WHY}; annotate the template in its runtime{runtime}")),
    }
}

struct Sought<'p> {
    triggers: Vec<&'p (String, String)>,
    gpus: Vec<&'p str>,
}

impl<'p> Sought<'p> {
    fn of(policies: &'p PolicySet) -> Self {
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
            (*trigger == key || spelling::of_trigger(&key, trigger)) && trigger::asks(child, wanted)
        };
        if value.is_object() && signs.trigger.is_none() && sought.triggers.iter().any(asks) {
            signs.trigger = Some(pointer.clone());
        }
        look(sought, child, pointer, signs);
        pointer.truncate(before);
    }
}

/// Returns whether a map is a container, or the limits or requests with which one asks for GPUs.
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
