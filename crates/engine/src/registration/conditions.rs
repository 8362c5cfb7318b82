//! CEL expressions for the API server, from the `match` of policies.
//!
//! Each is a form with places for what policies say. That is written as JSON, which is CEL, too, so that no text ends a
//! string. The chart has the same forms in a file that a test writes, and fills them with the policies that Helm sees.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use crate::policy_set::PolicySet;
use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::{Definition, Matcher};
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

/// A part of a policy, and what it says about a pod, in which `%[1]s` is the part.
type Form = (&'static str, &'static str);

/// With any value of the annotation, because the webhook returns a warning for another value than the policy's.
const ANNOTATED: Form = (
    "anyAnnotation",
    "has(object.metadata.annotations) && %[1]s.exists(key, key in object.metadata.annotations)",
);
const ANNOTATED_WITH_VALUE: Form = (
    "anyAnnotation",
    "has(object.metadata.annotations) && %[1]s.exists(key, key in object.metadata.annotations && \
     object.metadata.annotations[key] == %[1]s[key])",
);
const NOT_EXCEPTED: Form = (
    "exceptAnnotation",
    "!(has(object.metadata.annotations) && %[1]s.exists(key, key in object.metadata.annotations && \
     (%[1]s[key] == \"*\" || object.metadata.annotations[key] == %[1]s[key])))",
);
const LABELLED: Form = (
    "labels",
    "has(object.metadata.labels) && %[1]s.all(key, key in object.metadata.labels && \
     object.metadata.labels[key] == %[1]s[key])",
);
const IN_NAMESPACE: Form = ("namespaces", "request.namespace in %[1]s");
const OWNED: Form = (
    "ownerKinds",
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, \
     owner.kind in %[1]s || owner.kind + \".\" + owner.apiVersion.split(\"/\")[0] in %[1]s)",
);
/// Something around a pod has a key like that of a trigger.
const LIKE_TRIGGER: Form = (
    "likeTrigger",
    "[\"annotations\", \"labels\"].exists(field, field in object.metadata && object.metadata[field].exists(key, \
     %[1]s.exists(name, (\"^\" + key + \"$\").contains(name))))",
);

const TRIGGERS: [Form; 2] = [ANNOTATED, LABELLED];
/// A policy matches the pod, apart from `when`, which the API server cannot evaluate. Pods with an `exceptAnnotation` do
/// not depend on the webhook.
const MATCH: [Form; 5] = [ANNOTATED, NOT_EXCEPTED, LABELLED, IN_NAMESPACE, OWNED];
const MATCH_WITH_VALUE: [Form; 5] = [ANNOTATED_WITH_VALUE, NOT_EXCEPTED, LABELLED, IN_NAMESPACE, OWNED];
const AROUND: [Form; 2] = [LIKE_TRIGGER, ("onlyLabels", LABELLED.1)];

/// Whether the pod template of a kind has one place, for kinds that mostly have no GPUs. The others are always sent.
const IS_PLAIN: &str =
    r#"request.resource.group in ["apps", "batch"] || request.resource.resource == "rollouts""#;
/// A workload and the objects around its templates, down to that of the pods.
const PLACES: &str = "(has(object.spec.jobTemplate) ? \
                      [object, object.spec.jobTemplate, object.spec.jobTemplate.spec.template] : \
                      has(object.spec.template) ? [object, object.spec.template] : [object])";
/// A shorter name of an annotation, such as `fabric`, is also part of other names.
const DISTINCTIVE: usize = 12;

/// The forms of all conditions, for the chart.
pub fn forms() -> Value {
    json!({
        "asks": TRIGGERS,
        "matches": MATCH,
        "matchesWithValue": MATCH_WITH_VALUE,
        "asksAround": AROUND,
        "requestsGpus": requests_gpus("%[1]s"),
        "concerned": concerned("%[1]s", &requests_gpus("%[2]s")),
    })
}

/// The conditions of the webhook.
pub fn webhook_conditions(policies: &PolicySet) -> [Condition; 2] {
    [
        Condition { name: ASKS, expression: any_policy(policies, &TRIGGERS) },
        Condition { name: MATCHES, expression: any_policy(policies, &MATCH) },
    ]
}

/// The conditions of the guard: a policy matches the pod, and the pod may have GPUs.
pub fn guard_conditions(policies: &PolicySet) -> [Condition; 3] {
    [
        Condition { name: ASKS, expression: any_policy(policies, &TRIGGERS) },
        Condition { name: MATCHES, expression: any_policy(policies, &MATCH_WITH_VALUE) },
        Condition { name: GPUS, expression: requests_gpus(&gpus(policies)) },
    ]
}

/// The condition of the webhook for workloads: a template requests GPUs, or something around the pods requests the
/// fabric, even under a longer name, as a label or in another place. Plain workloads do not wait for the webhook.
pub fn advice_condition(policies: &PolicySet) -> Condition {
    let asks = any_policy(policies, &AROUND);
    Condition { name: CONCERNED, expression: concerned(&asks, &requests_gpus(&gpus(policies))) }
}

/// The condition that a policy has only parts that are true, of those with a form; each condition once.
fn any_policy(policies: &PolicySet, forms: &[Form]) -> String {
    let terms = definitions(policies).into_iter().map(|definition| {
        let parts = parts(&definition.matcher);
        let each = forms.iter().filter_map(|(part, form)| Some(form.replace("%[1]s", parts.get(part)?)));
        each.collect::<Vec<_>>().join(" && ")
    });
    format!("({})", each_once(terms).join(") || ("))
}

/// The parts of a policy that are not empty, in JSON.
fn parts(matcher: &Matcher) -> BTreeMap<&'static str, String> {
    let map = |pairs: &[(String, String)]| text(&pairs.iter().cloned().collect::<BTreeMap<_, _>>());
    let triggers = matcher.any_annotation.iter();
    let only_labels = if triggers.len() == 0 { &matcher.labels[..] } else { &[] };
    let parts = [
        ("anyAnnotation", map(&matcher.any_annotation)),
        ("exceptAnnotation", map(&matcher.except_annotation)),
        ("labels", map(&matcher.labels)),
        ("namespaces", text(&matcher.namespaces)),
        ("ownerKinds", text(&matcher.owner_kinds)),
        ("likeTrigger", text(&triggers.map(|(key, _)| part_of(key)).collect::<BTreeSet<_>>())),
        ("onlyLabels", map(only_labels)),
    ];
    parts.into_iter().filter(|(_, part)| part.len() > "[]".len()).collect()
}

/// What the keys like a trigger contain: the part that survives slips and other prefixes, if it is distinctive, or else
/// the beginning, the trigger and the end.
fn part_of(trigger: &str) -> String {
    let name = trigger.rsplit('/').next().unwrap_or(trigger);
    let name = name.strip_prefix("enable-").unwrap_or(name);
    if name.len() < DISTINCTIVE { format!("^{trigger}$") } else { name.to_owned() }
}

fn definitions(policies: &PolicySet) -> Vec<&Definition> {
    let mut definitions: Vec<_> = policies.policies().iter().map(fabric_policy::Policy::definition).collect();
    definitions.sort_by(|one, other| one.name.cmp(&other.name));
    definitions
}

/// The names of resources that are GPUs.
fn gpus(policies: &PolicySet) -> String {
    let all = policies.policies().iter().flat_map(|policy| &policy.definition().gpus.resources);
    text(&all.collect::<BTreeSet<_>>())
}

/// The condition that a pod has GPUs, of which these are. The API server requires extended resources in the limits of a
/// container. It cannot know which claims bring GPUs.
fn requests_gpus(gpus: &str) -> String {
    let any = format!(
        "exists(container, has(container.resources) && (has(container.resources.claims) && \
         size(container.resources.claims) > 0 || has(container.resources.limits) && ({gpus}.exists(gpu, gpu in \
         container.resources.limits && string(container.resources.limits[gpu]) != \"0\") || \
         container.resources.limits.exists(name, name.startsWith(\"{DEVICE_CLASS}\")))))"
    );
    format!(
        "object.spec.containers.{any} || has(object.spec.initContainers) && object.spec.initContainers.{any}"
    )
}

/// The condition about a workload, of those about the objects around its pods.
fn concerned(asks: &str, requests_gpus: &str) -> String {
    let within = format!(
        "has(object.metadata) && ({asks}) || has(object.spec) && has(object.spec.containers) && ({requests_gpus})"
    );
    // Each of the places is called like the whole.
    format!("!({IS_PLAIN}) || {PLACES}.exists(object, {within})")
}

/// JSON in which the two line separators that a string may have are escaped, as Helm does.
fn text(value: &impl Serialize) -> String {
    json!(value).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
