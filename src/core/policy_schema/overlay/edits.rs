//! The schemas of edits: maps with keys such as `$append`, in place of a string.

use serde_json::{Map, Value, json};

use crate::core::policy_schema::keys::{Keys, Schema};
use crate::core::policy_schema::strings::{EXPRESSION, INTERPOLATED, text};

/// The definitions of the three kinds of edits.
pub(super) fn definitions() -> Map<String, Value> {
    let definitions = [
        ("ListEdit", list().described("An edit that adds one entry to a list in a string.")),
        ("NetworksEdit", networks().described("An edit that attaches networks by Multus.")),
        (
            "EntriesEdit",
            entries().described("An edit that adds entries to a list of objects in JSON or YAML."),
        ),
    ];
    definitions.into_iter().map(|(name, schema)| (name.to_owned(), schema.into())).collect()
}

/// The value of a variable.
pub(super) fn of_variable() -> Schema {
    Schema::any_of([text(), Schema::reference("ListEdit")])
}

/// The value of an annotation.
pub(super) fn of_annotation() -> Schema {
    Schema::any_of([text(), Schema::reference("ListEdit"), Schema::reference("EntriesEdit")])
}

/// The value of the annotation of Multus.
pub(super) fn of_networks() -> Schema {
    Schema::any_of([text(), Schema::reference("NetworksEdit"), Schema::reference("EntriesEdit")])
}

fn list() -> Schema {
    Keys::default()
        .optional("$prepend", text().example("/usr/local/lib"), "The entry to add before the others.")
        .optional("$append", text().example("/usr/local/lib"), "The entry to add after the others.")
        .optional(
            "$separator",
            text().with("minLength", 1).with("default", ":"),
            "The text between two entries, without expressions.",
        )
        .schema()
        .with("oneOf", json!([{"required": ["$prepend"]}, {"required": ["$append"]}]))
}

fn networks() -> Schema {
    let network = |interface: &str| {
        let name = "[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?";
        let form = "the name of a network, with or without its namespace, as in `team/rail-0`";
        text().matching(format!("^(?:{name}/)?{name}{interface}$|{INTERPOLATED}"), form)
    };
    let several = Schema::list(network("(?:@[-_.A-Za-z0-9]{1,15})?")).with("minItems", 1);
    let count = Schema::of(&["integer", "string"])
        .with("minimum", 0)
        .matching(INTERPOLATED, "a number without quotes, or an expression: `${…}`");
    Keys::default()
        .required(
            "$append",
            Schema::any_of([network(""), several]).example(json!(["rail-0", "rail-1@net1"])),
            "A network, a list of networks, or an expression that yields either.",
        )
        .optional(
            "$count",
            count.example(2),
            "The number of attachments of one network, or of networks of a list, the first ones.",
        )
        .schema()
}

fn entries() -> Schema {
    let list = Schema::of(&["array", "string"])
        .matching(EXPRESSION, "a list, or one expression: `${…}`")
        .with("items", Schema::of(&["object"]))
        .with("minItems", 1);
    Keys::default()
        .required(
            "$append",
            list.example(json!([{"interfaceName": "eth1", "network": "rdma-0"}])),
            "The entries to add, or an expression that yields them.",
        )
        .required(
            "$key",
            text().with("minLength", 1).example("interfaceName"),
            "The field by which entries are known, without expressions.",
        )
        .schema()
}
