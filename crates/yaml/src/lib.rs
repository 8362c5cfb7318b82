//! YAML as kubectl reads it, with edits that keep comments and layout, and the values that manifests contain.
//!
//! `saphyr-parser` implements the grammar. The meaning of a scalar is defined here, because kubectl reads YAML 1.1 and the
//! libraries read YAML 1.2 (see [`scalar`]). Next to the text of a document are what all crates read and write in it: JSON
//! with the objects of the API server ([`json`]), JSON Pointers ([`mod@pointer`]), quantities ([`quantity`]), and control
//! characters in messages ([`escape`]).
//!
//! Of Kubernetes objects, this crate knows only quantities and `managedFields`. It knows no policy, and reads no files and
//! no streams.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests may measure"))]

mod build;
mod disagreements;
mod edit;
mod error;
pub mod escape;
mod final_newline;
mod flow;
mod joined;
pub mod json;
mod large_numbers;
mod layout;
mod messages;
mod offsets;
pub mod pointer;
pub mod quantity;
mod quoted;
mod read;
pub mod scalar;
mod source_map;
mod span;
mod tokens;
mod tree;
mod write;

use std::collections::HashSet;

use serde_json::Value;

pub use build::Entry;
pub use edit::{Comment, Edited};
pub use error::Error;
pub use large_numbers::{changed_number, has_float, inexact_number};
pub use messages::{counted, each_once, first_names};
pub use read::{Manifest, span_at};
pub use source_map::SourceMap;
pub use span::Span;
pub use tree::{Content, Node, Text};
pub use write::write;

/// Reads one YAML document into a JSON value, as kubectl does.
pub fn read_value(text: &str) -> Result<Manifest, Error> {
    read::read(text)
}

/// Edits the text of a YAML document so that it reads as `after`, and keeps its comments and its layout. If that is not
/// possible, the whole document is written again below its leading comments.
pub fn edit(text: &str, after: &Value) -> Edited {
    edit::edit(text, after, false).unwrap_or_else(|| edit::rewrite(text, after))
}

/// Edits a JSON text so that it reads as `after`, and keeps its layout. If that is not possible, the text is written
/// again with the same indentation.
pub fn edit_json(text: &str, after: &Value) -> String {
    edit::edit(text, after, true)
        .map_or_else(|| flow::Flow::of_json(text).text(after, ""), |edited| edited.text)
}

/// Reads a document with a repeated key, and gives the key its first value; all other readers take the last one. `None`
/// if no key is repeated.
pub fn first_reading(text: &str, json: bool) -> Option<Value> {
    let layout = layout::Layout::read(text, json)?;
    layout.has_repeated_key().then(|| layout.to_value(layout.root))
}

/// Reads one YAML document into nodes with their positions, each key once, and an error for each repeated key.
pub fn read_unique(text: &str) -> Result<(Option<Node>, Vec<Error>), Error> {
    let mut document = read::read::<Node>(text)?;
    let mut duplicates = Vec::new();
    if document.ambiguity.is_some()
        && let Some(root) = &mut document.root
    {
        remove_duplicates(root, &mut duplicates);
    }
    Ok((document.root, duplicates))
}

/// Removes every entry with a key that an earlier entry of its map has.
fn remove_duplicates(node: &mut Node, duplicates: &mut Vec<Error>) {
    match &mut node.content {
        Content::Scalar { .. } => {}
        Content::List(items) => items.iter_mut().for_each(|item| remove_duplicates(item, duplicates)),
        Content::Map(entries) => {
            let mut known = HashSet::new();
            entries.retain_mut(|entry| {
                if known.insert(entry.key.clone()) {
                    remove_duplicates(&mut entry.value, duplicates);
                    return true;
                }
                duplicates.push(entry.repeated());
                false
            });
        }
    }
}

/// Reads one YAML document into nodes with their positions. A key can be repeated.
pub fn read_node_with_duplicates(text: &str) -> Result<Option<Node>, Error> {
    Ok(read::read::<Node>(text)?.root)
}

/// Returns an error for the first key below this node that appears twice in one map.
pub fn duplicate_key(node: &Node) -> Option<Error> {
    let mut duplicates = Vec::new();
    remove_duplicates(&mut node.clone(), &mut duplicates);
    duplicates.into_iter().next()
}
