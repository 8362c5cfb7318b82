//! The JSON Schemas (draft 2020-12) of policy files and of their cases, for editors and for checks without this
//! program.
//!
//! A schema accepts every file that loads, and refuses what a schema can refuse: it knows the keys, their types, the
//! fields of a Pod and the forms of names, but neither expressions nor what depends on two values. It is made of the
//! tables of keys, from which the parser reads, and of the tables of `fabric_policy::schema`.

mod keys;
mod pod;
mod strings;

use serde_json::{Map, Value};

use crate::policy_test::keys::CASE_FILE;
use fabric_policy::keys::{POLICY, SPEC};
use keys::File;

/// The schema of a policy file.
pub fn policy() -> Value {
    let mut definitions = pod::overlays();
    definitions.insert("spec".to_owned(), keys::map(&SPEC, File::Whole));
    definitions.insert("extension".to_owned(), keys::map(&SPEC, File::Extension));
    document("FabricPolicy", keys::map(&POLICY, File::Whole), definitions)
}

/// The schema of a file of cases.
pub fn cases() -> Value {
    document("PolicyTest", keys::map(&CASE_FILE, File::Whole), pod::parts())
}

fn document(title: &str, mut file: Value, definitions: Map<String, Value>) -> Value {
    file["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    file["title"] = title.into();
    file["$defs"] = definitions.into();
    file
}
