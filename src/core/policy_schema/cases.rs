//! The schema of a file of cases.

use serde_json::{Map, Value, json};

use crate::core::policy::API_VERSION;
use crate::core::policy_test::{KIND, OUTCOMES};

use super::keys::{Keys, Schema};
use super::strings::{one_of, text, texts};

/// The keywords of the whole file.
pub(super) fn file() -> Schema {
    let cases = Schema::list(Schema::reference("case")).with("minItems", 1);
    Keys::default()
        .required("apiVersion", Schema::default().with("const", API_VERSION), "The version of the language.")
        .required("kind", Schema::default().with("const", KIND), "The kind of the file.")
        .optional("policy", policies(), "The policy of all cases.")
        .optional("pod", Schema::reference("Pod"), "The pod of the cases that have none of their own.")
        .required("cases", cases, "The cases.")
        .schema()
}

/// The definitions to which the file refers, without those of a Pod.
pub(super) fn definitions() -> Map<String, Value> {
    let definitions = [("case", case()), ("expectation", expectation())];
    definitions.into_iter().map(|(name, schema)| (name.to_owned(), schema.into())).collect()
}

/// The name of a built-in policy, the path of a file, or a list of them.
fn policies() -> Schema {
    Schema::of(&["string", "array"]).with("items", text()).example("../lab-roce.yaml")
}

fn case() -> Schema {
    let context = Keys::default()
        .optional("namespace", text().example("training"), "The namespace of the pod.")
        .optional("owner", text().example("Job.batch"), "The kind of the owner of the pod: `Kind.group`.")
        .optional("nodes", Schema::list(node()), "The nodes of the cluster, all of them Ready.");
    let expectations = Schema::list(Schema::reference("expectation")).with("minItems", 1);
    Keys::default()
        .required(
            "name",
            text().example("two NICs for each GPU"),
            "A sentence. No two cases of a file have the same.",
        )
        .optional("policy", policies(), "The policy of this case.")
        .optional(
            "values",
            Schema::default().example(json!({"lab": {"enabled": true}})),
            "The content of a `multinodeNetworking` block, as in a values file.",
        )
        .optional(
            "parameters",
            Schema::of(&["object"]).example(json!({"nicsPerGPU": 1})),
            "Values of parameters, which have precedence over `values`.",
        )
        .optional("context", context.schema(), "The facts about the pod that the pod does not contain.")
        .optional("pod", Schema::reference("Pod"), "The pod.")
        .optional(
            "with",
            Schema::reference("Pod"),
            "Changes to the pod, merged as a strategic merge patch; `null` removes a field.",
        )
        .optional(
            "workload",
            Schema::of(&["object", "string"]).example("mpijob.yaml"),
            "An object with pod templates, or the path of a file with such objects.",
        )
        .required(
            "expect",
            Schema::any_of([Schema::reference("expectation"), expectations]),
            "The expected result; for a workload, it can be a list.",
        )
        .schema()
        .with(
            "not",
            json!({"anyOf": [{"required": ["workload", "pod"]}, {"required": ["workload", "with"]}]}),
        )
}

fn node() -> Schema {
    let map = |example: Value| Schema::of(&["object"]).example(example);
    Keys::default()
        .optional("labels", map(json!({"pool": "h100"})), "The labels of the node.")
        .optional("capacity", map(json!({"example.com/gpu": 8})), "Its extended resources.")
        .optional("taints", Schema::list(Schema::of(&["object"])), "Its taints.")
        .optional("providerID", text().example("aws:///zone/i-0"), "The `spec.providerID` of the node.")
        .schema()
}

fn expectation() -> Schema {
    let schema = Keys::default()
        .optional("outcome", one_of(OUTCOMES), "The outcome.")
        .optional("reason", text().example("no_gpu_container"), "The code of the reason.")
        .optional(
            "warnings",
            texts().example(json!(["kept_env"])),
            "The codes of the warnings, and no others.",
        )
        .optional(
            "has",
            Schema::reference("Pod").with("minProperties", 1),
            "Fields that the pod has; entries of lists are found by name, in any order.",
        )
        .optional(
            "lacks",
            texts().with("minItems", 1).example(json!(["spec.containers[train].env[NCCL_NET]"])),
            "Paths at which the pod has nothing.",
        )
        .optional("object", Schema::of(&["object"]), "The whole pod.")
        .optional("patch", Schema::of(&["array"]), "The operations of the JSON Patch.")
        .optional("template", text(), "The JSON Pointer to the pod template that the expectation is about.")
        .optional(
            "document",
            Schema::of(&["integer"]).with("minimum", 1),
            "The number of the document with the pod template.",
        )
        .schema();
    let checks = ["outcome", "reason", "warnings", "has", "lacks", "object", "patch"];
    let checks: Vec<Value> = checks.iter().map(|key| json!({"required": [key]})).collect();
    schema.with("anyOf", checks)
}
