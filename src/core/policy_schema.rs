//! The JSON Schema (draft 2020-12) of policy files, for editors and for checks without this program.
//!
//! The schema accepts every file that loads, and refuses what a schema can refuse: it knows the keys, their types, the
//! fields of a Pod and the forms of names, but neither expressions nor what depends on two values. The fields of
//! overlays come from the tables of [`crate::core::schema`].

mod keys;
mod names;
mod overlay;
mod parameter;
mod policy;
mod strings;

use serde_json::{Value, json};

use overlay::Overlays;

/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a policy file.
pub fn policy() -> Value {
    let mut definitions = policy::definitions();
    definitions.extend(Overlays::definitions());
    let mut schema = json!({
        "$schema": DIALECT,
        "title": "FabricPolicy",
    });
    if let (Some(schema), Value::Object(file)) = (schema.as_object_mut(), policy::file()) {
        schema.extend(file);
        schema.insert("$defs".to_owned(), definitions.into());
    }
    schema
}
