//! Finds workloads whose pods work together on several nodes without requesting the fabric.

use std::collections::HashMap;

use serde_json::{Map, Value};

use fabric_engine::requests;
use fabric_policy::PodContext;
use fabric_policy::nodes::{expressions, terms};
use fabric_yaml::pointer::at_pointer;

use super::by_hand::{has_fabric, names_fabric};
use super::kinds::{self, Kind, PodsOfObject, Together};
use super::signs::{containers, of_container, of_text};
use super::{Finding, Findings, Pod, WORKLOAD_WITHOUT_TRIGGER, trigger};

/// The pods of one object, each at its place among those of the document.
struct Object<'a> {
    kind: &'static Kind,
    name: &'a str,
    value: &'a Value,
    pods: Vec<(usize, PodsOfObject)>,
}

/// Checks each object of the pods' document.
pub(super) fn check(pods: &[Pod<'_>], found: &mut [Findings]) {
    for object in objects(pods) {
        let asks = |(at, _): &(usize, PodsOfObject)| {
            let has_near_miss = !found[*at].near_misses.is_empty();
            !pods[*at].is_unmatched() || has_near_miss || has_fabric(pods[*at].gpus, pods[*at].value)
        };
        if object.kind.together == Together::Never || object.pods.iter().any(asks) {
            continue;
        }
        let of_pods = |(at, of): &(usize, PodsOfObject)| {
            Some(WholeNodes { at: *at, count: of.count, each: whole_node(&pods[*at])? })
        };
        let whole: Vec<WholeNodes> = object.pods.iter().filter_map(of_pods).collect();
        let size = if object.kind.apart { 1 } else { whole.len().max(1) };
        for job in whole.chunks(size) {
            if let Some(is_sure) = is_job(&object, pods, job) {
                add(&object, pods, job, is_sure, found);
            }
        }
    }
}

/// Pods that each take a whole node.
struct WholeNodes {
    /// The place of their template among those of the document.
    at: usize,
    count: i64,
    each: Whole,
}

/// Returns whether pods are one job on several nodes that have a fabric: `Some(false)` if they may be.
fn is_job(object: &Object<'_>, pods: &[Pod<'_>], job: &[WholeNodes]) -> Option<bool> {
    if count_of(job) < 2 {
        return None;
    }
    let is_sure = object.kind.together == Together::Always || has_sign(object, pods, job);
    if !is_sure && object.kind.together == Together::Sometimes {
        return None;
    }
    // The pods of a job are for like nodes.
    let pod = &pods[job.first()?.at];
    let has_none =
        pod.policies.would_leave_alone(pod.value, pod.context, |other| has_fabric(pod.gpus, other));
    (!has_none && pod.goes_on(0)).then_some(is_sure)
}

fn add(object: &Object<'_>, pods: &[Pod<'_>], job: &[WholeNodes], is_sure: bool, found: &mut [Findings]) {
    let count = count_of(job);
    for WholeNodes { at, each, .. } in job {
        let (pod, findings) = (&pods[*at], &mut found[*at]);
        let Some((key, wanted)) = trigger::usable_triggers(pod).into_iter().next() else { continue };
        let annotation = format!("add `{key}: \"{wanted}\"` to `{}`", trigger::place(pod));
        let why = reason(count, object.name, each);
        findings.advice = None;
        if is_sure {
            let (pointer, message) = (pod.pointer.to_owned(), format!("{annotation}: {why}"));
            findings.near_misses.push(Finding::warning(WORKLOAD_WITHOUT_TRIGGER, pointer, message));
        } else {
            let message = format!("if its pods work together, {annotation}: {why}");
            findings.advice = Some(Finding::note(WORKLOAD_WITHOUT_TRIGGER, pod.pointer, message));
        }
    }
}

fn count_of(job: &[WholeNodes]) -> i64 {
    job.iter().fold(0, |count, of| count.saturating_add(of.count))
}

fn reason(count: i64, kind: &str, Whole { resource, gpus }: &Whole) -> String {
    format!(
        "{count} pods of this {kind} take whole nodes ({gpus} `{resource}` each), and without a policy they exchange \
         data by TCP"
    )
}

/// Why the pods of an object without a pod template need the annotation, if they do, or may need it (`often`).
pub(super) fn without_template(resources: &[&str], kind: &Kind, object: &Value) -> Option<String> {
    if !matches!(kind.together, Together::Always | Together::Often) {
        return None;
    }
    let name = object["kind"].as_str()?;
    let mut pods = kind.pods(object).into_iter().filter(|pods| pods.count > 1);
    pods.find_map(|pods| {
        let gpus = at_pointer(object, pods.gpus.as_ref()?)?;
        let whole = whole_of(resources, gpus).filter(|_| {
            let part = at_pointer(object, &pods.part);
            !part.is_some_and(|part| names_fabric(resources, "", part))
        })?;
        Some(reason(pods.count, name, &whole))
    })
}

/// The GPUs of a pod that takes a whole node: a number, `limits` and `requests`, or one of these.
fn whole_of(resources: &[&str], gpus: &Value) -> Option<Whole> {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    if let Some(gpus) = number(gpus) {
        let is_whole = gpus >= kinds::gpus_of_node("", std::iter::empty());
        return is_whole.then(|| Whole { resource: "gpu".to_owned(), gpus });
    }
    let lists = [gpus, &gpus["limits"], &gpus["requests"]];
    let requested = |resource: &&str| lists.iter().find_map(|list| number(&list[*resource]));
    let all = resources.iter().filter_map(|resource| Some((*resource, requested(resource)?)));
    let mut whole = all.filter(|(resource, gpus)| *gpus >= kinds::gpus_of_node(resource, std::iter::empty()));
    whole.next().map(|(resource, gpus)| Whole { resource: resource.to_owned(), gpus })
}

/// The pods of each template of an object.
type Templates = HashMap<String, PodsOfObject>;

/// The objects of known kinds, each the innermost one around its pods.
fn objects<'a>(pods: &[Pod<'a>]) -> Vec<Object<'a>> {
    let mut found: Vec<Object<'a>> = Vec::new();
    let mut places: HashMap<&str, Option<(usize, Templates)>> = HashMap::new();
    for (at, pod) in pods.iter().enumerate() {
        let Some((pointer, value)) = enclosing(pod) else { continue };
        let of_object = places.entry(pointer).or_insert_with(|| {
            let name = value["kind"].as_str()?;
            let kind = Kind::find(value["apiVersion"].as_str()?, name)?;
            let of_template = |pods: PodsOfObject| Some((pods.template.clone()?, pods));
            let templates: Templates = kind.pods(value).into_iter().filter_map(of_template).collect();
            found.push(Object { kind, name, value, pods: Vec::new() });
            Some((found.len() - 1, templates))
        });
        let Some((object, templates)) = of_object else { continue };
        if let Some(of) = templates.remove(&pod.pointer[pointer.len()..]) {
            found[*object].pods.push((at, of));
        }
    }
    found
}

/// The innermost object around a template, with its pointer.
fn enclosing<'a>(pod: &Pod<'a>) -> Option<(&'a str, &'a Value)> {
    let pointer: &'a str = pod.pointer;
    let before = pointer.rmatch_indices('/').map(|(at, _)| &pointer[..at]);
    let mut values = before
        .take_while(|pointer| pod.goes_on(pointer.len()))
        .filter_map(|pointer| Some((pointer, at_pointer(pod.document, pointer)?)));
    values.find(|(_, value)| value["kind"].is_string() && value["apiVersion"].is_string())
}

/// The GPUs of a pod that takes a whole node.
pub(super) struct Whole {
    resource: String,
    gpus: i64,
}

/// The GPUs of a pod, if no other pod can have GPUs of its node.
pub(super) fn whole_node(pod: &Pod<'_>) -> Option<Whole> {
    let requests = requests(pod.value);
    let all = pod.gpus.iter().filter_map(|resource| Some((*resource, requests[*resource].as_i64()?)));
    all.filter(|(_, gpus)| *gpus > 1).find_map(|(resource, gpus)| {
        let of_node = of_nodes(resource, gpus, pod.value, pod.context)
            .unwrap_or_else(|| kinds::gpus_of_node(resource, selected(&pod.value["spec"]).into_iter()));
        (gpus >= of_node).then(|| Whole { resource: resource.to_owned(), gpus })
    })
}

/// The largest number of GPUs of a node that the pod can be scheduled to and that has enough for it.
fn of_nodes(resource: &str, gpus: i64, pod: &Value, context: &PodContext) -> Option<i64> {
    let nodes = context.nodes.as_ref()?;
    let candidates = nodes.candidates(pod, &|_| false, context.work.as_ref());
    candidates.into_iter().map(|node| node.count(resource)).filter(|count| *count >= gpus).max()
}

/// The values of the labels that a pod selects.
fn selected(spec: &Value) -> Vec<&str> {
    let selector = spec["nodeSelector"].as_object().into_iter().flat_map(Map::values);
    let of_term = |term| {
        expressions(term)
            .filter(|one| one["operator"] == "In")
            .filter_map(|one| one["values"].as_array())
            .flatten()
    };
    selector.chain(terms(spec).iter().flat_map(of_term)).filter_map(Value::as_str).collect()
}

/// Returns whether a second sign says that the pods work together.
fn has_sign(object: &Object<'_>, pods: &[Pod<'_>], job: &[WholeNodes]) -> bool {
    let is_there = |field: &String| at_pointer(object.value, field).is_some_and(|value| !value.is_null());
    let mut texts = object.kind.texts.iter().filter_map(|field| at_pointer(object.value, field)?.as_str());
    let most = job.iter().map(|of| of.each.gpus).max().unwrap_or_default();
    let of_pod = |at: usize| {
        let (spec, together) = (&pods[at].value["spec"], object.kind.together);
        let has_service =
            together == Together::Often && spec["subdomain"].as_str().is_some_and(|name| !name.is_empty());
        has_service || containers(spec).any(|container| of_container(container, together, most))
    };
    let mut places: Box<dyn Iterator<Item = usize>> = if object.kind.apart {
        Box::new(job.iter().map(|of| of.at))
    } else {
        Box::new(object.pods.iter().map(|(at, _)| *at))
    };
    object.kind.signs.iter().any(is_there) || texts.any(|text| of_text(text, most)) || places.any(of_pod)
}
