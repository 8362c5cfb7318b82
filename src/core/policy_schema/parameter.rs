//! The schema of a parameter, and of the tables of its values.

use serde_json::{Map, Value, json};

use crate::core::policy::{FromNodes, ParameterType};
use crate::core::schema::Format;

use super::keys::{Keys, Schema};
use super::names;
use super::strings::{one_of, text, texts};

/// A value of a label, or a pattern of values; not `*` alone.
const VALUES_OF_A_LABEL: &str = r"^(?:[^*]+\*?[^*]*|\*[^*]+)?$";

/// A parameter of a policy, or of an extension, which has the type and the description of its base's parameters.
pub(super) fn parameter(extends: bool) -> Schema {
    let kind = one_of(ParameterType::all().map(ParameterType::name)).example("number");
    let description = text().example("NICs to request for each GPU");
    let kind_says = "The type of the values. A `template` is a string in which `${…}` can read the pod.";
    let description_says = "One sentence that says what the parameter is for.";
    let keys = Keys::default();
    let keys = if extends {
        keys.optional("type", kind, &format!("{kind_says} Only for a parameter that the base does not have."))
            .optional("description", description, description_says)
    } else {
        keys.required("type", kind, kind_says).required("description", description, description_says)
    };
    let length = || Schema::of(&["integer"]).with("minimum", 0);
    let amount = || Schema::of(&["integer", "number", "string"]);
    keys.optional("default", Schema::default().example(2), "The value if no other source has one.")
        .optional("minimum", amount().example(0), "The least value of an `integer`, `number` or `quantity`.")
        .optional(
            "maximum",
            amount().example(8),
            "The greatest value of an `integer`, `number` or `quantity`.",
        )
        .optional(
            "enum",
            texts().with("minItems", 1).example(json!(["TREE", "RING"])),
            "The values that a `string` can have.",
        )
        .optional("minItems", length().example(1), "The least number of items of a `stringList`.")
        .optional("maxItems", length().example(8), "The greatest number of items of a `stringList`.")
        .optional("byNode", by_node(Schema::of(&["object"])), BY_NODE_SAYS)
        .optional("fromNodes", from_nodes(), FROM_NODES_SAYS)
        .schema()
        .with("allOf", ParameterType::all().map(of_type).collect::<Vec<_>>())
}

/// What nodes offer of some resources.
fn from_nodes() -> Schema {
    let resources = || {
        let form = "an extended resource, such as `example.com/nic`";
        let name = text().matching("/", form);
        Schema::of(&["string", "array"]).with("items", name).with("minItems", 1).matching("/", form)
    };
    Keys::default()
        .optional(
            "ratio",
            resources().example("example.com/nic"),
            "The devices of a node divided by its GPUs. Of several names and patterns, the first that a node offers counts.",
        )
        .optional(
            "name",
            resources().example(json!(["rdma/ib", "nvidia.com/rail_*"])),
            "The one resource that the nodes offer of these names and patterns.",
        )
        .optional(
            "names",
            resources().example("nvidia.com/rail_*"),
            "All resources that the nodes offer of the first of these patterns that matches any, `rail_2` before `rail_10`.",
        )
        .optional(
            "namesPerGPU",
            resources().example("nvidia.com/rail_*"),
            "The number of the resources that `names` would have, divided by the GPUs of a node.",
        )
        .schema()
        .with("minProperties", 1)
        .with("maxProperties", 1)
}

const BY_NODE_SAYS: &str = "Tables by the labels of the nodes that a pod selects: from a label to its values, in \
     which one `*` matches any text, and from these to values, or to maps from the GPUs of the pod to values. The first \
     label whose table has an entry decides.";

const FROM_NODES_SAYS: &str = "The value follows from what the nodes offer that the pod can be scheduled to, if all of \
     them give the same.";

/// Tables by labels of nodes, each of this form.
fn by_node(table: Schema) -> Schema {
    let example = json!({"node.kubernetes.io/instance-type": {"large": 4, "small": {"8": 2, "4": 1}}});
    let filled = |schema: Schema| schema.with("minProperties", 1);
    filled(labels().with("additionalProperties", filled(table))).example(example)
}

/// A variable of any form. One with `byNode` has no keys but those of a table.
pub(super) fn by_node_of_variable() -> Schema {
    let table = Schema::of(&["object"]).with("propertyNames", values_of_a_label());
    let keys = Keys::default().optional("byNode", by_node(table), BY_NODE_SAYS).optional(
        "default",
        Schema::default(),
        "The value for all other pods; without it, `null`.",
    );
    let keys = keys.optional("fromNodes", from_nodes(), FROM_NODES_SAYS);
    let has = Schema::any_of([Schema::has("byNode"), Schema::has("fromNodes")]).with("type", "object");
    Schema::default().with("if", has).with("then", keys.schema())
}

fn values_of_a_label() -> Schema {
    Schema::default().matching(VALUES_OF_A_LABEL, "a value of the label, with at most one `*`")
}

/// Labels of nodes as keys.
fn labels() -> Schema {
    let mut form = Schema::default().with("not", json!({"const": "default"}));
    if let Some(pattern) = names::pattern(Format::QualifiedName) {
        form = form.matching(pattern, "the name of a label");
    }
    Schema::of(&["object"]).with("propertyNames", form)
}

/// The values and the bounds that a parameter of one type has.
fn of_type(kind: ParameterType) -> Value {
    let mut properties = Map::new();
    properties.insert("default".to_owned(), value(kind).into());
    let cells = Schema::map(cell(kind)).with("propertyNames", values_of_a_label());
    properties.insert("byNode".to_owned(), Schema::map(cells).into());
    let facts: Vec<Value> = FromNodes::facts_of(kind).map(|fact| json!({"required": [fact]})).collect();
    let facts = if facts.is_empty() { json!({"not": {}}) } else { json!({"anyOf": facts}) };
    properties.insert("fromNodes".to_owned(), facts);
    for bound in ParameterType::all().flat_map(ParameterType::bounds) {
        let schema = if !kind.bounds().contains(bound) {
            Value::Bool(false)
        } else if ["minimum", "maximum"].contains(bound) {
            value(kind).into()
        } else {
            continue;
        };
        properties.insert((*bound).to_owned(), schema);
    }
    json!({
        "if": {"properties": {"type": {"const": kind.name()}}, "required": ["type"]},
        "then": {"properties": properties},
    })
}

fn types(kind: ParameterType) -> &'static [&'static str] {
    match kind {
        ParameterType::Integer => &["integer"],
        ParameterType::Number => &["number"],
        ParameterType::String | ParameterType::Template => &["string"],
        ParameterType::Boolean => &["boolean"],
        ParameterType::Quantity => &["string", "number"],
        ParameterType::StringList => &["array"],
        ParameterType::Any => &[],
    }
}

fn value(kind: ParameterType) -> Schema {
    complete(Schema::of(types(kind)), kind)
}

/// An entry of a table: a value, or a map from the GPUs of a pod to values.
fn cell(kind: ParameterType) -> Schema {
    let types: Vec<&str> = types(kind).iter().copied().chain(["object"]).collect();
    complete(Schema::of(&types), kind)
        .with("propertyNames", Schema::default().matching("^(?:0|[1-9][0-9]*)$", "a number of GPUs"))
        .with("additionalProperties", value(kind))
}

fn complete(schema: Schema, kind: ParameterType) -> Schema {
    match kind {
        ParameterType::Quantity => schema.matching(names::QUANTITY, "a quantity, such as `64Gi`"),
        ParameterType::StringList => schema.with("items", text()),
        _ => schema,
    }
}
