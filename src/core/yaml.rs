//! The one module that reads and writes YAML.
//!
//! The grammar is `saphyr-parser`'s; what a scalar *means* is decided here, because kubectl reads YAML 1.1
//! and the libraries read YAML 1.2 (see [`scalar`]).

mod read;
pub mod scalar;
mod tree;
mod write;

use serde_json::Value;

pub use read::{Entry, Error, Span};
pub use tree::{Content, Node};
pub use write::write;

/// A manifest as read: its value, and the first repeated key.
///
/// A repeated key is not an error by itself: a document that is passed on untouched may have one. One that
/// is to be written anew may not, since one of the two values would be lost.
#[derive(Debug)]
pub struct Manifest {
    /// `None` for a document of blanks and comments.
    pub root: Option<Value>,
    /// The first key that stands twice in one map, if any does.
    pub duplicate_key: Option<Error>,
}

/// Reads one YAML document into a plain value, as kubectl would.
pub fn read_value(text: &str) -> Result<Manifest, Error> {
    let document = read::read::<Value>(text)?;
    Ok(Manifest { root: document.root, duplicate_key: document.duplicate_key })
}

/// Reads one YAML document into nodes that know their place. A repeated key is an error.
pub fn read_node(text: &str) -> Result<Option<Node>, Error> {
    let document = read::read::<Node>(text)?;
    match document.duplicate_key {
        Some(duplicate) => Err(duplicate),
        None => Ok(document.root),
    }
}

/// Reads one YAML document into nodes, whatever keys it repeats.
pub fn read_node_with_duplicates(text: &str) -> Result<Option<Node>, Error> {
    Ok(read::read::<Node>(text)?.root)
}

/// The first key below this node that stands twice in one map.
pub fn duplicate_key(node: &Node) -> Option<Error> {
    match &node.content {
        Content::Scalar { .. } => None,
        Content::List(items) => items.iter().find_map(duplicate_key),
        Content::Map(entries) => match read::first_duplicate(entries) {
            Some(entry) => Some(Error {
                message: format!("the key `{}` stands twice in one map", entry.key),
                span: entry.span,
            }),
            None => entries.iter().find_map(|entry| duplicate_key(&entry.value)),
        },
    }
}

/// The place of the byte at `offset`.
pub fn span_at(text: &str, offset: usize) -> Span {
    read::span_at(text, offset)
}
