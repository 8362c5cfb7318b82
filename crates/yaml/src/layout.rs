//! The nodes of a YAML or JSON text with their byte ranges, for edits that keep the rest of the text.

mod comments;
mod events;
mod json;

use std::collections::HashSet;
use std::ops::Range;

use saphyr_parser::ScalarStyle;
use serde_json::{Map, Value};

use super::scalar::Scalar;

/// The index of a node in a layout.
pub(super) type NodeId = usize;

/// A text and its nodes.
#[derive(Debug)]
pub(super) struct Layout<'t> {
    pub(super) text: &'t str,
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
    /// The positions after each line end.
    lines: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Node {
    /// The text of the node, with its anchor and tag. For an empty node, the empty range after the `:` or `-`.
    pub(super) range: Range<usize>,
    /// The position after the anchor and the tag.
    pub(super) content: usize,
    /// The number of the anchor; 0 without one.
    pub(super) anchor: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Scalar {
        value: Scalar,
        style: ScalarStyle,
        /// True if there is no text, or only an anchor or a tag.
        empty: bool,
    },
    Alias {
        anchor: usize,
        node: NodeId,
    },
    List {
        form: Form,
        items: Vec<Item>,
    },
    Map {
        form: Form,
        entries: Vec<Entry>,
    },
}

/// The form of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Block,
    Flow,
    /// A form that is written again if it changes: a map of one entry in a flow list, without braces.
    Other,
}

#[derive(Debug)]
pub(super) struct Item {
    /// The position of the `-` of a block list.
    pub(super) dash: usize,
    pub(super) node: NodeId,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// True for the merge key `<<`.
    pub(super) merges: bool,
    /// The position of the key, or of the `?` before it.
    pub(super) start: usize,
    pub(super) key_range: Range<usize>,
    /// The position after the colon. `None` for a key of a flow map without one.
    pub(super) colon: Option<usize>,
    pub(super) node: NodeId,
}

impl<'t> Layout<'t> {
    fn new(text: &'t str, nodes: Vec<Node>, root: NodeId) -> Self {
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|line_end| line_end + 1).collect();
        Self { text, nodes, root, lines }
    }

    /// Reads a text that holds one document. `None` if the text cannot be edited.
    pub(super) fn read(text: &'t str, json: bool) -> Option<Self> {
        if json { json::read(text) } else { events::read(text) }
    }

    /// The value of a node. Of a repeated key, it has the first value.
    pub(super) fn to_value(&self, id: NodeId) -> Value {
        match &self.node(id).kind {
            Kind::Alias { node, .. } => self.to_value(*node),
            Kind::Scalar { value, .. } => value.clone().into(),
            Kind::List { items, .. } => items.iter().map(|item| self.to_value(item.node)).collect(),
            Kind::Map { entries, .. } => {
                let mut map = Map::new();
                for entry in entries.iter().filter(|entry| !entry.merges) {
                    map.entry(&entry.key).or_insert_with(|| self.to_value(entry.node));
                }
                for entry in entries.iter().filter(|entry| entry.merges) {
                    let sources = match self.to_value(entry.node) {
                        Value::Array(sources) => sources,
                        source => vec![source],
                    };
                    for (key, value) in sources.iter().filter_map(Value::as_object).flatten() {
                        map.entry(key).or_insert_with(|| value.clone());
                    }
                }
                Value::Object(map)
            }
        }
    }

    /// Returns true if a map has a key twice.
    pub(super) fn has_repeated_key(&self) -> bool {
        self.nodes.iter().any(|node| match &node.kind {
            Kind::Map { entries, .. } => {
                let mut keys = HashSet::with_capacity(entries.len());
                entries.iter().any(|entry| !entry.merges && !keys.insert(&entry.key))
            }
            _ => false,
        })
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// The beginning of the line of a position.
    pub(super) fn line_start(&self, at: usize) -> usize {
        let line = self.lines.partition_point(|start| *start <= at);
        line.checked_sub(1).map_or(0, |line| self.lines[line])
    }

    /// The column of a position, in bytes from the beginning of its line.
    pub(super) fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    /// The beginning of the line after the end of a node.
    pub(super) fn next_line(&self, end: usize) -> usize {
        let line = self.lines.partition_point(|start| *start < end);
        self.lines.get(line).copied().unwrap_or(self.text.len())
    }

    /// The text after a position up to the end of its line.
    pub(super) fn rest_of_line(&self, at: usize) -> &'t str {
        let line = self.lines.partition_point(|start| *start <= at);
        let end = self.lines.get(line).copied().unwrap_or(self.text.len());
        self.text[at..end].trim_end_matches(['\r', '\n'])
    }
}
