//! The schema of a policy file, without its overlays.

use serde_json::{Map, Value, json};

use crate::core::policy::interpolation::BUILT_IN;
use crate::core::policy::{ACTIONS, API_VERSION, KIND, ON_CONFLICT};
use crate::core::schema::Format;

use super::keys::{Keys, Schema};
use super::names;
use super::parameter::{by_node_of_variable, parameter};
use super::strings::{condition, device_names, matching, one_of, text, texts};

/// The keywords of the whole file.
pub(super) fn file() -> Schema {
    let metadata = Keys::default()
        .required("name", dns_label().example("lab-roce"), "The name of the policy: a DNS label.")
        .schema();
    let extends = json!({"description": "What the file extends. No other key is then required."});
    let selects = Schema::any_of(["match", "provider"].map(Schema::has));
    let is_part = Schema::default().with("not", selects);
    let spec = Schema::of(&["object"])
        // For editors, which offer the keys of a schema that a file without the key has to match.
        .with("properties", json!({"extends": extends}))
        .with("if", Schema::any_of([Schema::has("extends"), is_part]))
        .with("then", Schema::reference("extension"))
        .with("else", Schema::reference("spec"));
    Keys::default()
        .required("apiVersion", constant(API_VERSION), "The version of the policy language.")
        .required("kind", constant(KIND), "The kind of the file.")
        .required("metadata", metadata, "The name of the policy.")
        .required("spec", spec, "What the policy matches and adds, or what it extends.")
        .schema()
}

/// The definitions to which the file refers.
pub(super) fn definitions() -> Map<String, Value> {
    let definitions = [
        ("spec", spec(true)),
        ("extension", spec(false)),
        ("match", matcher(true)),
        ("matchOfExtension", matcher(false)),
        ("parameter", parameter(false)),
        ("parameterOfExtension", parameter(true)),
        ("warning", warning()),
        ("settings", settings()),
        ("rule", rule()),
    ];
    definitions.into_iter().map(|(name, schema)| (name.to_owned(), schema.into())).collect()
}

/// The keys of a policy that extends nothing, or those of a file that extends others or is a part, which needs none.
fn spec(complete: bool) -> Schema {
    let (title, parameter, matcher) = if complete {
        ("a policy", "parameter", "match")
    } else {
        ("an extension or a part of policies", "parameterOfExtension", "matchOfExtension")
    };
    let rules = Schema::list(Schema::reference("rule"));
    let provider = dns_label().example("lab");
    let keys = Keys::default()
        .optional(
            "provider",
            provider,
            "The key of the policy's block under `multinodeNetworking:` in a values file.",
        )
        .optional("description", text(), "One sentence for `fabric-injector policy list`.")
        .optional("gpus", gpus(complete), "The resources that count as GPUs, and the claims that bring GPUs.")
        .optional(
            "fabric",
            fabric(),
            "The names that devices of the fabric go by, in this policy or elsewhere.",
        )
        .optional(
            "match",
            Schema::reference(matcher),
            "The pods that the policy matches. Every key has to hold.",
        )
        .optional(
            "parameters",
            named(Schema::reference(parameter), &["enabled"]),
            "The values that an operator can set.",
        )
        .optional(
            "variables",
            named(by_node_of_variable(), &[])
                .example(json!({"linksPerGPU": "${node[?'pool'].orValue('') == 'fast' ? 2 : 1}"})),
            "Named expressions, constants and tables, or `byNode` with constants by the nodes that a pod selects. Each can \
             use those before it.",
        )
        .optional(
            "warnings",
            Schema::list(Schema::reference("warning")),
            "Warnings for the author of the pod, and conditions for which the pod is refused.",
        )
        .optional(
            "settings",
            Schema::list(Schema::reference("settings")),
            "Variables that have to reach processes which a container does not start itself.",
        );
    if complete {
        let keys =
            keys.optional("rules", rules.with("minItems", 1), "The additions to a pod, in this order.");
        let required = json!(["provider", "description", "gpus", "match", "rules"]);
        return keys.schema().with("required", required).with("title", title);
    }
    let name = || text().example("lab-roce");
    let names = Schema::any_of([name(), Schema::list(name())]);
    keys.optional("extends", names, "The name of a policy or of a part of policies, or a list of names.")
        .optional("rules", rules, "The additions to a pod, after those of what the file extends.")
        .schema()
        .with("title", title)
}

/// A map from names that expressions can read. An editor says that the names are not allowed which have a value already.
fn named(values: Schema, others: &[&str]) -> Schema {
    let taken = BUILT_IN.iter().map(|known| known.name).chain(others.iter().copied());
    let taken: Map<String, Value> = taken.map(|name| (name.to_owned(), Value::Bool(false))).collect();
    let names =
        Schema::default().matching("^[A-Za-z][A-Za-z0-9_]*$", "letters, digits and `_`, a letter first");
    Schema::map(values).with("properties", taken).with("propertyNames", names)
}

fn gpus(complete: bool) -> Schema {
    let resources = Schema::list(of_form(Format::ResourceName)).with("minItems", 1);
    let schema = Keys::default()
        .optional(
            "resources",
            resources.example(json!(["example.com/gpu"])),
            "The names of the resources that count as GPUs.",
        )
        .optional("claims", gpu_claims(), "The claims that bring GPUs, and how many each of them brings.")
        .schema();
    if complete { schema.with("required", json!(["resources"])) } else { schema }
}

fn gpu_claims() -> Schema {
    let gpus = Schema::of(&["integer", "string"])
        .with("minimum", 0)
        .matching(r"^\s*\$\{", "a number, or an expression: `${…}`");
    Keys::default()
        .required(
            "names",
            device_names().example(json!(["*-gpus"])),
            "Names of claims and of templates. A `*` matches any text; the first name that matches decides. A name can \
             end in the GPUs of such a claim, as in `single-gpu=1`.",
        )
        .required("gpus", gpus.example(8), "The GPUs of one claim, or an expression over parameters.")
        .schema()
}

fn fabric() -> Schema {
    Keys::default()
        .optional("resources", device_names().example(json!(["example.com/*"])), "Names of resources.")
        .optional(
            "networks",
            device_names().example(json!(["rail-0"])),
            "Names of networks; without a namespace, in any.",
        )
        .optional("claims", device_names().example(json!(["*-nics"])), "Names of claims and of templates.")
        .schema()
        .with("minProperties", 1)
}

/// The nodes for which a policy is.
fn nodes() -> Schema {
    let value = text().example("true");
    Keys::default()
        .optional(
            "providerIDs",
            texts().with("minItems", 1).example(json!(["lab://*"])),
            "The node has such a `spec.providerID`; `*` matches any text.",
        )
        .optional(
            "labels",
            keyed(Format::QualifiedName, value),
            "The node has one of these labels; `*` matches any text.",
        )
        .schema()
        .with("minProperties", 1)
}

fn matcher(complete: bool) -> Schema {
    let other_than_any = text().with("not", json!({"const": "*"}));
    let kind =
        matching(r"^[A-Za-z][A-Za-z0-9]*(?:\.[-.a-z0-9]+)?$", "`Kind`, or `Kind.group` such as `Job.batch`");
    let schema = Keys::default()
        .optional(
            "anyAnnotation",
            keyed(Format::AnnotationKey, other_than_any).example(json!({"example.com/fabric": "true"})),
            "The pod has one of these annotations with this value.",
        )
        .optional(
            "exceptAnnotation",
            keyed(Format::AnnotationKey, text()).example(json!({"example.com/no-fabric": "*"})),
            "The pod has none of these annotations with this value; `\"*\"` is any value.",
        )
        .optional(
            "labels",
            keyed(Format::QualifiedName, of_form(Format::LabelValue)),
            "The pod has all of these labels.",
        )
        .optional("namespaces", Schema::list(dns_label()), "The pod is in one of these namespaces.")
        .optional(
            "ownerKinds",
            Schema::list(kind).example(json!(["Job.batch"])),
            "One owner of the pod is of one of these kinds: `Kind`, or `Kind.group`.",
        )
        .optional(
            "nodes",
            nodes(),
            "The nodes of the policy, where policies of several providers are in use.",
        )
        .optional(
            "when",
            condition().example("${node[?'pool'].orValue('') == 'fast'}"),
            "The expression is true. It can read `node`, `pod`, `podNamespace`, `hostNetwork`, `totalGpus`, \
             parameters and variables.",
        )
        .schema();
    let selecting = ["anyAnnotation", "labels"];
    match Schema::any_of(selecting.map(Schema::has)).into() {
        Value::Object(mut any) if complete => schema.with("anyOf", any.remove("anyOf").unwrap_or_default()),
        _ => schema,
    }
}

fn warning() -> Schema {
    let action = one_of(ACTIONS.map(|(name, _)| name)).with("default", "warn");
    Keys::default()
        .required(
            "code",
            matching("^[a-z0-9_]{1,63}$", "at most 63 lower-case letters, digits and `_`").example("small_shm"),
            "The code in reports and metrics.",
        )
        .required(
            "when",
            condition().example("${hostNetwork}"),
            "The condition. One that reads `gpus` or `container` is evaluated for each container that a rule selects.",
        )
        .optional(
            "env",
            text().example("NCCL_DEBUG"),
            "The name of a variable: the message is about the value that a container sets itself, which `when` and \
             `message` read as `value`.",
        )
        .required("message", text(), "One sentence for the author of the pod, with or without expressions.")
        .optional("action", action, "`refuse`: the pod is refused with the code and the message.")
        .schema()
}

fn settings() -> Schema {
    let name = matching(
        "^[a-z0-9](?:[-a-z0-9]{0,38}[a-z0-9])?$",
        "at most 40 lower-case letters, digits and hyphens",
    );
    let file = Keys::default()
        .required(
            "path",
            matching(r"^/[^:,]*$", "an absolute path without `:` and `,`").example("/etc/nccl.conf"),
            "The absolute path that the library reads.",
        )
        .optional(
            "maxValue",
            Schema::of(&["integer"]).with("minimum", 1).example(1023),
            "The longest value in bytes that the library reads.",
        )
        .optional("exceptVariables", texts(), "A container that sets one of these variables gets no file.");
    Keys::default()
        .required("name", name.example("nccl"), "A DNS label of at most 40 characters, for reports.")
        .required(
            "variables",
            Schema::list(matching(r"^[A-Za-z0-9_]+\*?$", "the name of a variable, or its beginning and `*`"))
                .example(json!(["NCCL_*"])),
            "Names of variables, or beginnings of names and `*`.",
        )
        .optional("when", condition(), "The condition for the pod.")
        .optional("containers", condition(), "The condition for each container; without it, `${gpus > 0}`.")
        .required("file", file.schema(), "The file of `NAME=VALUE` lines that the library reads.")
        .schema()
}

fn rule() -> Schema {
    let on_conflict = one_of(ON_CONFLICT.map(|(name, _)| name)).with("default", "keep");
    Keys::default()
        .required("name", dns_label().example("nics"), "The name for reports: a DNS label.")
        .optional(
            "when",
            condition().example("${!hostNetwork}"),
            "The condition for the pod; without it, the rule always applies.",
        )
        .optional(
            "containers",
            condition().example("${container.name == 'worker'}"),
            "The condition for each container and init container; without it, `${gpus > 0}`.",
        )
        .optional(
            "onConflict",
            on_conflict,
            "If the pod has another value: `keep` it and report it, `replace` it, or `refuse` the pod.",
        )
        .optional(
            "container",
            Schema::reference("ContainerOverlay"),
            "The fields to add to each selected container.",
        )
        .optional(
            "pod",
            Schema::reference("PodOverlay"),
            "The fields to add to the pod, if a container is selected.",
        )
        .schema()
        .with("anyOf", json!([{"required": ["container"]}, {"required": ["pod"]}]))
}

fn constant(value: &str) -> Schema {
    Schema::default().with("const", value)
}

fn dns_label() -> Schema {
    of_form(Format::DnsLabel)
}

fn of_form(format: Format) -> Schema {
    names::pattern(format).map_or_else(text, |pattern| matching(&pattern, &format.description()))
}

/// A map whose keys have this form.
fn keyed(keys: Format, values: Schema) -> Schema {
    Schema::map(values).with("propertyNames", of_form(keys))
}
