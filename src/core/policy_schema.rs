//! The JSON Schemas (draft 2020-12) of policy files and of their cases, for editors and for checks without this program.
//!
//! A schema accepts every file that loads, and refuses what a schema can refuse: it knows the keys, their types, the
//! fields of a Pod and the forms of names, but neither expressions nor what depends on two values. The fields of
//! overlays come from the tables of `core::schema`.

mod cases;
mod keys;
mod names;
mod overlay;
mod parameter;
mod pod;
mod policy;
mod strings;

use serde_json::{Map, Value, json};

use keys::Schema;
use overlay::Overlays;
use pod::Pods;

/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a policy file.
pub fn policy() -> Value {
    let mut definitions = policy::definitions();
    definitions.extend(Overlays::definitions());
    document("FabricPolicy", policy::file(), definitions)
}

/// The schema of a file of cases.
pub fn cases() -> Value {
    let mut definitions = cases::definitions();
    definitions.extend(Pods::definitions());
    document("PolicyTest", cases::file(), definitions)
}

fn document(title: &str, file: Schema, definitions: Map<String, Value>) -> Value {
    let mut document = json!({"$schema": DIALECT, "title": title});
    if let (Some(document), Value::Object(file)) = (document.as_object_mut(), file.into()) {
        document.extend(file);
        document.insert("$defs".to_owned(), definitions.into());
    }
    document
}

#[cfg(test)]
mod tests;
