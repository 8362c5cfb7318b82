//! The nodes of a YAML or JSON text with their byte ranges, for edits that keep the rest of the text.
//!
//! The ranges of the parser are not those of the text: a quoted scalar includes the comment after it, a block scalar
//! the indentation of the next line, and an empty one has no place. [`Layout::read`] corrects them.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::read::{Span, key_text, scalar_value};
use super::scalar::Scalar;

/// The index of a node in a layout.
pub(super) type NodeId = usize;

/// A text and its nodes.
#[derive(Debug)]
pub(super) struct Layout<'t> {
    pub(super) text: &'t str,
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
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
    Alias { anchor: usize, node: NodeId },
    List { form: Form, items: Vec<Item> },
    Map { form: Form, entries: Vec<Entry> },
}

/// The form of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Block,
    Flow,
    /// A form that is written again if it changes, such as a map with explicit keys.
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
    pub(super) key_range: Range<usize>,
    /// The position after the colon. `None` for a key of a flow map without one.
    pub(super) colon: Option<usize>,
    pub(super) node: NodeId,
}

impl<'t> Layout<'t> {
    /// Reads a text that holds one document. `None` if the text is one that cannot be edited.
    pub(super) fn read(text: &'t str, json: bool) -> Option<Self> {
        let offsets = Offsets::of(text);
        let mut builder = Builder { json, text, nodes: Vec::new(), stack: Vec::new(), root: None, anchors: HashMap::new() };
        for event in Parser::new_from_str(text) {
            let (event, span) = event.ok()?;
            builder.event(event, offsets.byte(span.start.index())..offsets.byte(span.end.index()))?;
        }
        let root = builder.root?;
        let mut layout = Layout { text, nodes: builder.nodes, root };
        layout.locate(root, 0)?;
        Some(layout)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Corrects the ranges of a node and of the nodes in it. Returns the end of the node.
    fn locate(&mut self, id: NodeId, from: usize) -> Option<usize> {
        let kind = std::mem::replace(&mut self.nodes[id].kind, Kind::Alias { anchor: 0, node: id });
        let located = self.located(id, kind, from);
        let (kind, end) = located?;
        let node = &mut self.nodes[id];
        node.kind = kind;
        node.range.end = end;
        Some(end)
    }

    fn located(&mut self, id: NodeId, mut kind: Kind, from: usize) -> Option<(Kind, usize)> {
        let Node { range, content, .. } = &mut self.nodes[id];
        let end = match &mut kind {
            Kind::Alias { .. } => trimmed(self.text, range.clone()),
            Kind::Scalar { empty: true, .. } if *content == range.start => {
                (*range, *content) = (from..from, from);
                from
            }
            Kind::Scalar { empty: true, .. } => *content,
            Kind::Scalar { style, .. } => match style {
                ScalarStyle::Plain => trimmed(self.text, range.clone()),
                ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => quoted_end(self.text, *content)?,
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    *content = skip_properties(self.text, from);
                    let keeps = header(self.text, *content)?.contains('+');
                    range.start = range.start.min(*content);
                    let body = &self.text[..range.end];
                    // The range ends with the indentation of the next line.
                    let body = body.trim_end_matches([' ', '\t']);
                    if keeps { body.len() } else { body.trim_end().len() }
                }
            },
            Kind::List { form: Form::Block, items } => {
                let mut end = *content;
                let mut from = skip_properties(self.text, from);
                for item in items {
                    let dash = skip_blank(self.text, from);
                    if self.text.as_bytes().get(dash) != Some(&b'-') {
                        return None;
                    }
                    item.dash = dash;
                    end = self.locate(item.node, dash + 1)?;
                    from = end;
                }
                end
            }
            Kind::Map { form: form @ Form::Block, entries } => {
                let mut end = *content;
                for entry in entries {
                    self.locate_key(entry)?;
                    *form = if self.is_explicit(entry) { Form::Other } else { *form };
                    end = self.locate(entry.node, entry.colon.unwrap_or(entry.key_range.end))?;
                }
                end
            }
            Kind::List { form, items } => {
                let (end, form) = (range.end, *form);
                for item in items {
                    self.locate(item.node, self.nodes[item.node].range.start)?;
                }
                if form == Form::Flow { end } else { trimmed(self.text, 0..end) }
            }
            Kind::Map { entries, .. } => {
                let end = range.end;
                for entry in entries {
                    self.locate_key(entry)?;
                    self.locate(entry.node, entry.colon.unwrap_or(entry.key_range.end))?;
                }
                end
            }
        };
        Some((kind, end))
    }

    fn locate_key(&self, entry: &mut Entry) -> Option<()> {
        let start = skip_properties(self.text, entry.key_range.start);
        entry.key_range.end = match self.text.as_bytes().get(start)? {
            b'"' | b'\'' => quoted_end(self.text, start)?,
            _ => trimmed(self.text, entry.key_range.clone()),
        };
        let after = skip_blank(self.text, entry.key_range.end);
        entry.colon = (self.text.as_bytes().get(after) == Some(&b':')).then_some(after + 1);
        Some(())
    }

    /// Returns true for a key after a `?`, and for one without a colon.
    fn is_explicit(&self, entry: &Entry) -> bool {
        entry.colon.is_none() || self.text[..entry.key_range.start].trim_end().ends_with('?')
    }

    /// The beginning of the line of a position.
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    /// The column of a position, in bytes from the beginning of its line.
    pub(super) fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    /// The beginning of the line after the one in which a node ends.
    pub(super) fn next_line(&self, end: usize) -> usize {
        if end > 0 && self.text.as_bytes()[end - 1] == b'\n' {
            return end;
        }
        self.text[end..].find('\n').map_or(self.text.len(), |line_end| end + line_end + 1)
    }

    /// The text after a position up to the end of its line.
    pub(super) fn rest_of_line(&self, at: usize) -> &'t str {
        self.text[at..].split(['\r', '\n']).next().unwrap_or_default()
    }
}

/// The end of a range without the white space at its end.
fn trimmed(text: &str, range: Range<usize>) -> usize {
    let Range { start, end } = range;
    start + text[start..end].trim_end().len()
}

/// The position after the white space and the comments from a position on.
pub(super) fn skip_blank(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            Some(b'#') if at == 0 || bytes[at - 1].is_ascii_whitespace() => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
            _ => return at,
        }
    }
}

/// The position after the anchor and the tag at a position.
fn skip_properties(text: &str, from: usize) -> usize {
    let mut at = skip_blank(text, from);
    while text[at..].starts_with(['&', '!']) {
        let length = text[at..].find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len() - at);
        at = skip_blank(text, at + length);
    }
    at
}

/// The header of a block scalar, such as `|-`.
pub(super) fn header(text: &str, at: usize) -> Option<&str> {
    let rest = &text[at..];
    if !rest.starts_with(['|', '>']) {
        return None;
    }
    let length = rest[1..].find(|c: char| !matches!(c, '+' | '-' | '0'..='9')).map_or(rest.len(), |end| end + 1);
    Some(&rest[..length])
}

/// The position after the closing quote of the scalar that begins at a position.
fn quoted_end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.get(at)?;
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            byte if byte != quote => at += 1,
            _ if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 2,
            _ => return Some(at + 1),
        }
    }
}

/// The byte of each character; the parser counts characters.
struct Offsets {
    /// Empty if each character is one byte.
    bytes: Vec<usize>,
    length: usize,
}

impl Offsets {
    fn of(text: &str) -> Self {
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { bytes, length: text.len() }
    }

    fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() {
            return character.min(self.length);
        }
        self.bytes.get(character).copied().unwrap_or(self.length)
    }
}

struct Builder<'t> {
    text: &'t str,
    json: bool,
    nodes: Vec<Node>,
    stack: Vec<Open>,
    root: Option<NodeId>,
    anchors: HashMap<usize, NodeId>,
}

/// A list or map whose end has not been read yet.
struct Open {
    node: NodeId,
    /// The key whose value has not been read yet.
    key: Option<Entry>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) -> Option<()> {
        match event {
            Event::Alias(anchor) => {
                let node = *self.anchors.get(&anchor)?;
                self.add(range, 0, Kind::Alias { anchor, node }, false)?;
            }
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                let value = if self.json {
                    self.json_scalar(&range, quoted)?
                } else {
                    scalar_value(&text, style, tag.as_deref(), Span::default()).ok()?
                };
                let properties = has_properties(anchor, tag.as_deref());
                let empty = text.is_empty() && style == ScalarStyle::Plain;
                self.scalar(range, anchor, Kind::Scalar { value, style, empty }, properties)?;
            }
            Event::SequenceStart(anchor, tag) => {
                let properties = has_properties(anchor, tag.as_deref());
                self.open(range, anchor, properties, |form| Kind::List { form, items: Vec::new() })?;
            }
            Event::MappingStart(anchor, tag) => {
                let properties = has_properties(anchor, tag.as_deref());
                self.open(range, anchor, properties, |form| Kind::Map { form, entries: Vec::new() })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let node = self.stack.pop()?.node;
                self.nodes[node].range.end = range.end;
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
        Some(())
    }

    /// A scalar of JSON by the rules of JSON, which has other escapes than YAML.
    fn json_scalar(&self, range: &Range<usize>, quoted: bool) -> Option<Scalar> {
        let end = if quoted { quoted_end(self.text, range.start)? } else { trimmed(self.text, range.clone()) };
        Some(match serde_json::from_str(&self.text[range.start..end]).ok()? {
            serde_json::Value::Null => Scalar::Null,
            serde_json::Value::Bool(value) => Scalar::Bool(value),
            serde_json::Value::Number(number) => Scalar::Number(number),
            serde_json::Value::String(text) => Scalar::String(text),
            _ => return None,
        })
    }

    fn scalar(&mut self, range: Range<usize>, anchor: usize, kind: Kind, properties: bool) -> Option<()> {
        if let Some(Open { node, key: key @ None }) = self.stack.last_mut()
            && matches!(self.nodes[*node].kind, Kind::Map { .. })
        {
            let Kind::Scalar { value, style, .. } = kind else { return None };
            // An alias of a key is too rare to be followed.
            if anchor > 0 {
                return None;
            }
            let plain = style == ScalarStyle::Plain && !properties;
            let (text, _) = key_text(value);
            let merges = plain && text == "<<";
            *key = Some(Entry { key: text, merges, key_range: range, colon: None, node: 0 });
            return Some(());
        }
        self.add(range, anchor, kind, properties).map(drop)
    }

    fn open(
        &mut self,
        range: Range<usize>,
        anchor: usize,
        properties: bool,
        kind: impl Fn(Form) -> Kind,
    ) -> Option<()> {
        let content = if properties { skip_properties(self.text, range.start) } else { range.start };
        let in_flow = self.stack.last().is_some_and(|open| match self.nodes[open.node].kind {
            Kind::List { form, .. } | Kind::Map { form, .. } => form != Form::Block,
            _ => false,
        });
        let form = if !range.is_empty() && self.text[content..].starts_with(['[', '{']) {
            Form::Flow
        } else if in_flow {
            Form::Other
        } else {
            Form::Block
        };
        let node = self.add(range, anchor, kind(form), properties)?;
        self.stack.push(Open { node, key: None });
        Some(())
    }

    fn add(&mut self, range: Range<usize>, anchor: usize, kind: Kind, properties: bool) -> Option<NodeId> {
        let id = self.nodes.len();
        let content = if properties { skip_properties(self.text, range.start).min(range.end) } else { range.start };
        self.nodes.push(Node { range, content, anchor, kind });
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        let Some(Open { node: parent, key }) = self.stack.last_mut() else {
            self.root = Some(id);
            return Some(id);
        };
        match &mut self.nodes[*parent].kind {
            Kind::List { items, .. } => items.push(Item { dash: 0, node: id }),
            Kind::Map { entries, .. } => entries.push(Entry { node: id, ..key.take()? }),
            _ => return None,
        }
        Some(id)
    }
}

fn has_properties(anchor: usize, tag: Option<&Tag>) -> bool {
    anchor > 0 || tag.is_some()
}
