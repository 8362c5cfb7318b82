//! The layout of a JSON text. The YAML parser does not read all escapes of JSON.

use std::ops::Range;

use saphyr_parser::ScalarStyle;
use serde_json::Value;

use super::super::quoted;
use super::super::scalar::Scalar;
use super::{Entry, Form, Item, Kind, Layout, Node, NodeId};

/// Reads a text that the JSON parser accepts.
pub(super) fn read(text: &str) -> Option<Layout<'_>> {
    let mut reader = Reader { text, at: 0, nodes: Vec::new() };
    let root = reader.value()?;
    Some(Layout::new(text, reader.nodes, root))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node>,
}

impl Reader<'_> {
    fn value(&mut self) -> Option<NodeId> {
        let start = self.next()?;
        let id = self.nodes.len();
        let scalar = Kind::Scalar { value: Scalar::Null, style: ScalarStyle::Plain, empty: false };
        self.nodes.push(Node { range: start..start, content: start, anchor: 0, kind: scalar });
        self.nodes[id].kind = match self.text.as_bytes()[start] {
            b'{' => Kind::Map { form: Form::Flow, entries: self.items(b'}', Self::entry)? },
            b'[' => {
                let item = |reader: &mut Self| Some(Item { dash: 0, node: reader.value()? });
                Kind::List { form: Form::Flow, items: self.items(b']', item)? }
            }
            _ => {
                let range = self.scalar()?;
                let value = match serde_json::from_str(&self.text[range]).ok()? {
                    Value::Null => Scalar::Null,
                    Value::Bool(value) => Scalar::Bool(value),
                    Value::Number(number) => Scalar::Number(number),
                    Value::String(text) => Scalar::String(text),
                    Value::Array(_) | Value::Object(_) => return None,
                };
                Kind::Scalar { value, style: ScalarStyle::DoubleQuoted, empty: false }
            }
        };
        self.nodes[id].range.end = self.at;
        Some(id)
    }

    fn entry(&mut self) -> Option<Entry> {
        let key_range = self.scalar()?;
        let key = serde_json::from_str(&self.text[key_range.clone()]).ok()?;
        let colon = self.next()? + 1;
        self.at = colon;
        let start = key_range.start;
        Some(Entry { key, merges: false, start, key_range, colon: Some(colon), node: self.value()? })
    }

    fn items<T>(&mut self, close: u8, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            let at = self.next()?;
            match self.text.as_bytes()[at] {
                byte if byte == close => {
                    self.at += 1;
                    return Some(items);
                }
                b',' => self.at += 1,
                _ => items.push(read(self)?),
            }
        }
    }

    /// The next character that is not white space.
    fn next(&mut self) -> Option<usize> {
        self.at += self.text[self.at..].bytes().position(|byte| !byte.is_ascii_whitespace())?;
        Some(self.at)
    }

    fn scalar(&mut self) -> Option<Range<usize>> {
        let start = self.next()?;
        self.at = if self.text.as_bytes()[start] == b'"' {
            quoted::end(self.text, start)?
        } else {
            let ends = |byte: u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
            self.text[start..].bytes().position(ends).map_or(self.text.len(), |length| start + length)
        };
        Some(start..self.at)
    }
}
