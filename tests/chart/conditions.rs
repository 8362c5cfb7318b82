//! The CEL that Helm generates from the policies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases::{enabled, lab_policy, providers, render, with};
use crate::helm::Helm;
use crate::objects::Objects;

/// Name and expression of each condition.
pub(crate) type Conditions = Vec<(String, String)>;

/// The conditions under which the API server calls the webhook.
pub(crate) fn of_webhook(objects: &Objects) -> Conditions {
    read(&objects.the("MutatingWebhookConfiguration")["webhooks"][0]["matchConditions"])
}

/// The conditions under which the guard looks at a pod.
pub(crate) fn of_guard(objects: &Objects) -> Conditions {
    read(&objects.ending("ValidatingAdmissionPolicy", "-guard").unwrap()["spec"]["matchConditions"])
}

/// The conditions under which the API server sends a workload.
pub(crate) fn of_advice(objects: &Objects) -> Conditions {
    read(&objects.the("ValidatingWebhookConfiguration")["webhooks"][0]["matchConditions"])
}

fn read(conditions: &Value) -> Conditions {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let conditions = conditions.as_array().unwrap().iter();
    conditions.map(|condition| (text(&condition["name"]), text(&condition["expression"]))).collect()
}

/// The annotations that ask for the fabric by the built-in policies.
const BUILT_IN: &str = r#"{"nhx.nvidia.com/enable-multi-node-networking":"true","nmp.nvidia.com/enable-multi-node-networking":"true"}"#;

/// A pod has one of these annotations.
fn has_any(annotations: &str) -> String {
    format!(
        "has(object.metadata.annotations) && {annotations}.exists(key, key in object.metadata.annotations)"
    )
}

/// The same, with the value of the annotation.
fn has_any_with_value(annotations: &str) -> String {
    let has = "key in object.metadata.annotations && object.metadata.annotations[key]";
    format!("has(object.metadata.annotations) && {annotations}.exists(key, {has} == {annotations}[key])")
}

/// A pod has none of these annotations.
fn has_none(annotations: &str) -> String {
    format!(
        "!(has(object.metadata.annotations) && {annotations}.exists(key, key in object.metadata.annotations && \
         ({annotations}[key] == \"*\" || object.metadata.annotations[key] == {annotations}[key])))"
    )
}

/// What all built-in policies match, with what is asked of their annotations.
fn built_in(annotated: fn(&str) -> String) -> String {
    format!("({} && {})", annotated(BUILT_IN), has_none(r#"{"disable-rdma-injection":"true"}"#))
}

/// Whether a container may have GPUs, of which these resources are, in CEL already.
fn asks_for(gpus: &str) -> String {
    let container = format!(
        "exists(container, has(container.resources) && (has(container.resources.claims) && \
         size(container.resources.claims) > 0 || has(container.resources.limits) && ([{gpus}].exists(gpu, gpu in \
         container.resources.limits && string(container.resources.limits[gpu]) != \"0\") || \
         container.resources.limits.exists(name, name.startsWith(\"deviceclass.resource.kubernetes.io/\")))))"
    );
    format!(
        "object.spec.containers.{container} || has(object.spec.initContainers) && \
         object.spec.initContainers.{container}"
    )
}

pub(crate) fn the_built_in_policies_need_one_condition_for_all_clouds(helm: &Helm) {
    for (provider, definitions) in providers() {
        let objects = render(helm, &enabled(&provider));
        let gpus: BTreeSet<_> = definitions.iter().flat_map(|one| &one.gpus.resources).collect();
        let gpus = gpus.into_iter().map(|gpu| format!("\"{gpu}\"")).collect::<Vec<_>>().join(",");
        let asks = format!("({})", has_any(BUILT_IN));
        let wanted = [("has-trigger", asks.clone()), ("policy-matches-pod", built_in(has_any))];
        assert_eq!(of_webhook(&objects), wanted.map(|(name, expression)| (name.to_owned(), expression)));
        let wanted = [
            ("has-trigger", asks),
            ("policy-matches-pod", built_in(has_any_with_value)),
            ("requests-gpus", asks_for(&gpus)),
            ("not-on-windows", r#"!(has(object.spec.os) && object.spec.os.name == "windows")"#.to_owned()),
            (
                "not-a-mirror-pod",
                r#"!("system:nodes" in request.userInfo.groups && has(object.metadata.annotations) && "kubernetes.io/config.mirror" in object.metadata.annotations)"#
                    .to_owned(),
            ),
        ];
        assert_eq!(of_guard(&objects), wanted.map(|(name, expression)| (name.to_owned(), expression)));
    }
}

/// The term of the policy with all that a `match` may have, with what is asked of its annotation.
fn lab_term(annotated: fn(&str) -> String) -> String {
    let owned = r#"["Job","RayCluster","Job.batch.volcano.sh"]"#;
    let owned = format!(
        "object.metadata.ownerReferences.exists(owner, owner.kind in {owned} || owner.kind + \".\" + \
         owner.apiVersion.split(\"/\")[0] in {owned})"
    );
    [
        annotated(LAB),
        has_none(r#"{"lab.example/ever":"*","lab.example/later":"true","lab.example/plain":"true"}"#),
        labelled(),
        r#"request.namespace in ["research","staging"]"#.to_owned(),
        format!("has(object.metadata.ownerReferences) && {owned}"),
    ]
    .join(" && ")
}

const LAB: &str = r#"{"lab.example/fabric":"<on> & \"off\""}"#;

/// A pod has the labels of this policy.
fn labelled() -> String {
    let labels = r#"{"lab.example/tier":"gold","team":"research"}"#;
    format!(
        "has(object.metadata.labels) && {labels}.all(key, key in object.metadata.labels && \
         object.metadata.labels[key] == {labels}[key])"
    )
}

pub(crate) fn every_part_of_a_match_is_asked_for_and_each_policy_has_its_term(helm: &Helm) {
    let alone = json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}});
    let asks = format!("({} && {})", has_any(LAB), labelled());
    let objects = render(helm, &alone);
    assert_eq!(of_webhook(&objects)[0].1, asks);
    assert_eq!(of_webhook(&objects)[1].1, format!("({})", lab_term(has_any)));
    assert_eq!(of_guard(&objects)[1].1, format!("({})", lab_term(has_any_with_value)));
    assert_eq!(of_guard(&objects)[2].1, asks_for(r#""lab.example/gpu","nvidia.com/gpu""#));

    let objects =
        render(helm, &with(enabled("aws"), &json!({"extraPolicies": {"a.yaml": lab_policy("aws")}})));
    assert_eq!(of_webhook(&objects)[0].1, format!("({}) || {asks}", has_any(BUILT_IN)));
    for (conditions, annotated) in
        [(of_webhook(&objects), has_any as fn(&str) -> String), (of_guard(&objects), has_any_with_value)]
    {
        assert_eq!(conditions[1].1, format!("{} || ({})", built_in(annotated), lab_term(annotated)));
    }
}

pub(crate) fn equal_terms_stand_once_and_the_names_of_policies_decide_the_order(helm: &Helm) {
    let policy = |name: &str, annotation: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             provider: lab\n  description: x\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{anyAnnotation: \
             {{{annotation}: \"true\"}}}}\n  rules: []\n"
        )
    };
    let extra = json!({"extraPolicies": {
        "1.yaml": policy("b", "second"), "2.yaml": policy("a", "first"), "3.yaml": policy("c", "first"),
    }});
    let wanted = format!("({}) || ({})", has_any(r#"{"first":"true"}"#), has_any(r#"{"second":"true"}"#));
    assert_eq!(of_webhook(&render(helm, &extra))[1].1, wanted);
}
