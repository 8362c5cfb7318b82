//! The CEL that Helm generates from the policies.

use std::collections::BTreeSet;

use fabric_policy::Definition;
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

const NHX: &str = r#""nhx.nvidia.com/enable-multi-node-networking""#;
const NMP: &str = r#""nmp.nvidia.com/enable-multi-node-networking""#;
const OPTED_OUT: &str = concat!(
    r#"!(has(object.metadata.annotations) && "disable-rdma-injection" in object.metadata.annotations"#,
    r#" && object.metadata.annotations["disable-rdma-injection"] == "true")"#
);

/// What asks for the fabric by the built-in policies.
fn asks_for_built_in() -> String {
    format!(
        "has(object.metadata.annotations) && ({NHX} in object.metadata.annotations || {NMP} in \
         object.metadata.annotations)"
    )
}

/// What all built-in policies match.
fn built_in() -> String {
    format!("{} && {OPTED_OUT}", asks_for_built_in())
}

/// The same, with the value of the annotation.
fn built_in_with_values() -> String {
    let has = |key| {
        format!("{key} in object.metadata.annotations && object.metadata.annotations[{key}] == \"true\"")
    };
    format!("has(object.metadata.annotations) && ({} || {}) && {OPTED_OUT}", has(NHX), has(NMP))
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
        let gpus: BTreeSet<_> = definitions.iter().flat_map(Definition::gpu_resources).collect();
        let gpus = gpus.into_iter().map(|gpu| format!("\"{gpu}\"")).collect::<Vec<_>>().join(", ");
        let wanted = [("has-trigger", asks_for_built_in()), ("policy-matches-pod", built_in())];
        assert_eq!(of_webhook(&objects), wanted.map(|(name, expression)| (name.to_owned(), expression)));
        let wanted = [
            ("has-trigger", asks_for_built_in()),
            ("policy-matches-pod", built_in_with_values()),
            ("requests-gpus", asks_for(&gpus)),
            ("not-on-windows", r#"!(has(object.spec.os) && object.spec.os.name == "windows")"#.to_owned()),
            (
                "not-a-mirror-pod",
                r#"!(has(object.metadata.annotations) && "kubernetes.io/config.mirror" in object.metadata.annotations)"#
                    .to_owned(),
            ),
        ];
        assert_eq!(of_guard(&objects), wanted.map(|(name, expression)| (name.to_owned(), expression)));
    }
}

/// The term of the policy with all that a `match` may have; `annotation` is what is asked of that.
fn lab_term(annotation: &str) -> String {
    let opted_out = |key: &str| {
        format!(
            "!(has(object.metadata.annotations) && {key} in object.metadata.annotations && \
             object.metadata.annotations[{key}] == \"true\")"
        )
    };
    let labelled = |key: &str, value: &str| {
        format!(
            "has(object.metadata.labels) && {key} in object.metadata.labels && object.metadata.labels[{key}] == {value}"
        )
    };
    [
        &labelled("\"lab.example/tier\"", "\"gold\""),
        &labelled("\"team\"", "\"research\""),
        r#"request.namespace in ["research", "staging"]"#,
        concat!(
            "has(object.metadata.ownerReferences) && ",
            r#"object.metadata.ownerReferences.exists(owner, owner.kind in ["Job", "RayCluster"] || "#,
            r#"owner.kind == "Job" && owner.apiVersion.startsWith("batch.volcano.sh/"))"#
        ),
        &format!("has(object.metadata.annotations) && {annotation}"),
        r#"!(has(object.metadata.annotations) && "lab.example/ever" in object.metadata.annotations)"#,
        &opted_out("\"lab.example/later\""),
        &opted_out("\"lab.example/plain\""),
    ]
    .join(" && ")
}

pub(crate) fn every_part_of_a_match_is_asked_for_and_each_policy_has_its_term(helm: &Helm) {
    let alone = json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}});
    let key = r#""lab.example/fabric" in object.metadata.annotations"#;
    let value = format!(r#"{key} && object.metadata.annotations["lab.example/fabric"] == "<on> & \"off\"""#);
    let objects = render(helm, &alone);
    assert_eq!(of_webhook(&objects)[0].1, format!("has(object.metadata.annotations) && {key}"));
    assert_eq!(of_webhook(&objects)[1].1, lab_term(key));
    assert_eq!(of_guard(&objects)[1].1, lab_term(&value));
    assert_eq!(of_guard(&objects)[2].1, asks_for(r#""lab.example/gpu", "nvidia.com/gpu""#));

    let objects =
        render(helm, &with(enabled("aws"), &json!({"extraPolicies": {"a.yaml": lab_policy("aws")}})));
    assert_eq!(
        of_webhook(&objects)[0].1,
        format!(
            "has(object.metadata.annotations) && ({key} || {NHX} in object.metadata.annotations || {NMP} in object.metadata.annotations)"
        )
    );
    assert_eq!(of_webhook(&objects)[1].1, format!("({}) || ({})", built_in(), lab_term(key)));
    assert_eq!(of_guard(&objects)[1].1, format!("({}) || ({})", built_in_with_values(), lab_term(&value)));
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
    let term =
        |key: &str| format!("has(object.metadata.annotations) && \"{key}\" in object.metadata.annotations");
    let wanted = format!("({}) || ({})", term("first"), term("second"));
    assert_eq!(of_webhook(&render(helm, &extra))[1].1, wanted);
}
