//! CEL expressions for the API server, generated from the `match` of policies.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::DEVICE_CLASS;
use crate::policy_set::PolicySet;
use fabric_policy::{ANY_VALUE, Definition, Matcher, kind_and_group};
use fabric_yaml::each_once;

use super::Condition;

/// The name of the condition that the pod requests the fabric. It has only triggers, so a fault in the other conditions
/// does not make plain pods depend on the webhook.
pub const ASKS: &str = "has-trigger";
/// The name of the condition that a policy matches the pod.
pub const MATCHES: &str = "policy-matches-pod";
/// The name of the condition that the pod requests GPUs.
const GPUS: &str = "requests-gpus";
/// The name of the condition that there may be advice about a workload.
const CONCERNED: &str = "requests-gpus-or-asks";

/// Whether the pod template of a kind has one place, for kinds that mostly have no GPUs. The others are always sent.
const IS_PLAIN: &str =
    r#"request.resource.group in ["apps", "batch"] || request.resource.resource == "rollouts""#;
/// A workload and the objects around its templates, down to that of the pods.
const PLACES: &str = "(has(object.spec.jobTemplate) ? \
                      [object, object.spec.jobTemplate, object.spec.jobTemplate.spec.template] : \
                      has(object.spec.template) ? [object, object.spec.template] : [object])";
/// A shorter name of an annotation, such as `fabric`, is also part of other names.
const DISTINCTIVE: usize = 12;

/// The condition that the pod has an annotation of a policy: with any value, because the webhook returns a warning for
/// another value than the policy's, or with that value only.
type IsTrigger = fn(&str, &str) -> String;

/// The conditions of the webhook: a policy matches the pod, apart from the value of the annotation and from `when`,
/// which the API server cannot evaluate.
///
/// They exclude pods with an `exceptAnnotation`, which therefore do not depend on the webhook.
pub fn webhook_conditions(policies: &PolicySet) -> [Condition; 2] {
    [
        Condition { name: ASKS, expression: any_trigger(policies) },
        Condition { name: MATCHES, expression: any_policy(policies, |key, _| has_annotation(key)) },
    ]
}

/// The conditions of the guard: a policy matches the pod apart from `when`, and the pod may have GPUs.
pub fn guard_conditions(policies: &PolicySet) -> [Condition; 3] {
    [
        Condition { name: ASKS, expression: any_trigger(policies) },
        Condition { name: MATCHES, expression: any_policy(policies, annotation_is) },
        Condition { name: GPUS, expression: requests_gpus(policies, "object") },
    ]
}

/// The condition of the webhook for workloads: a template requests GPUs, or something around the pods requests the
/// fabric, even under a longer name, as a label or in another place. Plain workloads do not wait for the webhook.
pub fn advice_condition(policies: &PolicySet) -> Condition {
    let expression = format!(
        "!({IS_PLAIN}) || {PLACES}.exists(place, {} || has(place.spec) && \
         has(place.spec.containers) && ({}))",
        asks_somewhere(policies),
        requests_gpus(policies, "place"),
    );
    Condition { name: CONCERNED, expression }
}

/// The condition that a place has a key like that of a trigger, or the labels of a policy without one.
fn asks_somewhere(policies: &PolicySet) -> String {
    let likes: BTreeSet<String> = trigger_keys(policies).into_iter().map(is_like).collect();
    let any = likes.into_iter().collect::<Vec<_>>().join(" || ");
    let has = |map: &str| format!("has(place.metadata.{map}) && place.metadata.{map}.exists(key, {any})");
    let is_like = (!any.is_empty())
        .then(|| format!("has(place.metadata) && ({} || {})", has("annotations"), has("labels")));
    let labels = matchers(policies).into_iter().filter(|matcher| matcher.any_annotation.is_empty());
    let labels =
        labels.map(|matcher| format!("has(place.metadata) && {}", has_labels(matcher, "place").join(" && ")));
    any_of(is_like.into_iter().chain(labels))
}

/// The comparison of a key with that of a trigger: for a distinctive name, the part that survives slips and other
/// prefixes.
fn is_like(trigger: &str) -> String {
    let name = trigger.rsplit('/').next().unwrap_or(trigger);
    let name = name.strip_prefix("enable-").unwrap_or(name);
    if name.len() < DISTINCTIVE {
        format!("key == {}", text(trigger))
    } else {
        format!("key.contains({})", text(name))
    }
}

fn definitions(policies: &PolicySet) -> Vec<&Definition> {
    let mut definitions: Vec<_> = policies.policies().iter().map(fabric_policy::Policy::definition).collect();
    definitions.sort_by(|one, other| one.name.cmp(&other.name));
    definitions
}

fn matchers(policies: &PolicySet) -> Vec<&Matcher> {
    definitions(policies).into_iter().map(|definition| &definition.matcher).collect()
}

/// The annotations that trigger policies.
fn trigger_keys(policies: &PolicySet) -> BTreeSet<&str> {
    let triggers = matchers(policies).into_iter().flat_map(|matcher| &matcher.any_annotation);
    triggers.map(|(key, _)| key.as_str()).collect()
}

fn any_policy(policies: &PolicySet, is_trigger: IsTrigger) -> String {
    any_of(matchers(policies).into_iter().map(|matcher| term(matcher, is_trigger)))
}

/// The condition that the pod has an annotation of a policy, or the labels of a policy that has no annotation.
fn any_trigger(policies: &PolicySet) -> String {
    let annotations: Vec<String> = trigger_keys(policies).into_iter().map(has_annotation).collect();
    let annotated = (!annotations.is_empty()).then(|| has_any_annotation(&annotations));
    let labels = matchers(policies).into_iter().filter(|matcher| matcher.any_annotation.is_empty());
    let labels = labels.map(|matcher| has_labels(matcher, "object").join(" && "));
    any_of(annotated.into_iter().chain(labels))
}

/// The condition that one of these holds, each of them once.
fn any_of(terms: impl Iterator<Item = String>) -> String {
    let mut each = each_once(terms);
    if let [term] = each.as_mut_slice() {
        return std::mem::take(term);
    }
    each.iter().map(|term| format!("({term})")).collect::<Vec<_>>().join(" || ")
}

/// The conditions that an object has each label.
fn has_labels(matcher: &Matcher, of: &str) -> Vec<String> {
    let map = format!("{of}.metadata.labels");
    let has = |(key, value)| format!("has({map}) && {}", entry_is(&map, key, value));
    sorted(&matcher.labels).into_iter().map(has).collect()
}

fn has_annotation(key: &str) -> String {
    format!("{} in object.metadata.annotations", text(key))
}

fn has_any_annotation(annotations: &[String]) -> String {
    let any = annotations.join(" || ");
    let any = if annotations.len() > 1 { format!("({any})") } else { any };
    format!("has(object.metadata.annotations) && {any}")
}

/// The condition that a policy matches the pod.
fn term(matcher: &Matcher, is_trigger: IsTrigger) -> String {
    let mut parts = has_labels(matcher, "object");
    if !matcher.namespaces.is_empty() {
        parts.push(format!("request.namespace in {}", list(&matcher.namespaces)));
    }
    if !matcher.owner_kinds.is_empty() {
        parts.push(format!(
            "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, {})",
            is_owner(&matcher.owner_kinds)
        ));
    }
    let triggers = sorted(&matcher.any_annotation);
    if !triggers.is_empty() {
        let annotations: Vec<String> =
            triggers.into_iter().map(|(key, value)| is_trigger(key, value)).collect();
        parts.push(has_any_annotation(&annotations));
    }
    for (key, value) in sorted(&matcher.except_annotation) {
        let entry = match value {
            ANY_VALUE => has_annotation(key),
            value => annotation_is(key, value),
        };
        parts.push(format!("!(has(object.metadata.annotations) && {entry})"));
    }
    parts.join(" && ")
}

/// The condition that an owner is of one of these kinds.
fn is_owner(owner_kinds: &[String]) -> String {
    let mut kinds = Vec::new();
    let mut terms = Vec::new();
    for owner in owner_kinds {
        match kind_and_group(owner) {
            (kind, None) => kinds.push(kind.to_owned()),
            (kind, Some(group)) => terms.push(format!(
                "owner.kind == {} && owner.apiVersion.startsWith({})",
                text(kind),
                text(&format!("{group}/"))
            )),
        }
    }
    if !kinds.is_empty() {
        terms.insert(0, format!("owner.kind in {}", list(&kinds)));
    }
    terms.join(" || ")
}

/// The condition that a pod, or a template, has GPUs. The API server requires extended resources in the limits of a
/// container. It cannot know which claims bring GPUs.
fn requests_gpus(policies: &PolicySet, pod: &str) -> String {
    let resources: BTreeSet<&str> = definitions(policies)
        .into_iter()
        .flat_map(|definition| definition.gpus.resources.iter().map(String::as_str))
        .collect();
    let resources: Vec<String> = resources.into_iter().map(str::to_owned).collect();
    let any = format!(
        "exists(container, has(container.resources) && (has(container.resources.claims) && \
         size(container.resources.claims) > 0 || has(container.resources.limits) && ({}.exists(gpu, gpu in \
         container.resources.limits && string(container.resources.limits[gpu]) != \"0\") || \
         container.resources.limits.exists(name, name.startsWith({})))))",
        list(&resources),
        text(DEVICE_CLASS)
    );
    format!(
        "{pod}.spec.containers.{any} || has({pod}.spec.initContainers) && {pod}.spec.initContainers.{any}"
    )
}

fn annotation_is(key: &str, value: &str) -> String {
    entry_is("object.metadata.annotations", key, value)
}

/// The condition that a map has an entry.
fn entry_is(map: &str, key: &str, value: &str) -> String {
    let (key, value) = (text(key), text(value));
    format!("{key} in {map} && {map}[{key}] == {value}")
}

fn sorted(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    let mut pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    pairs.sort_unstable();
    pairs
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|one| text(one)).collect();
    format!("[{}]", texts.join(", "))
}

/// A string literal of CEL, which has the syntax of JSON. The two line separators that JSON permits in a string are
/// escaped, as Helm does.
fn text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
