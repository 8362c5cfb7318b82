//! The layout of a YAML text, from the events of the parser.
//!
//! The ranges of the parser differ from those of the text: a quoted scalar includes the comment after it, a block
//! scalar the indentation of the next line, a closing bracket can be at the comma before it, and an empty scalar has no
//! place. [`Layout::locate`] corrects them.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::super::final_newline::WithFinalNewline;
use super::super::joined::joined;
use super::super::offsets::Offsets;
use super::super::quoted;
use super::super::read::scalar_value;
use super::super::scalar;
use super::super::tokens::{header, skip_blank, skip_properties, trimmed};
use super::{Entry, Form, Item, Kind, Layout, Node, NodeId};

/// Reads a text that holds one document.
pub(super) fn read(text: &str) -> Option<Layout<'_>> {
    let ended = WithFinalNewline::new(text).text;
    parsed(text, &ended).or_else(|| parsed(text, &joined(&ended).text))
}

/// Reads a text through a substitute for the parser.
fn parsed<'t>(text: &'t str, joined: &str) -> Option<Layout<'t>> {
    let offsets = Offsets::new(text);
    let mut builder =
        Builder { text, nodes: Vec::new(), stack: Vec::new(), root: None, anchors: HashMap::new() };
    for event in Parser::new_from_str(joined) {
        let (mut event, span) = event.ok()?;
        let range = offsets.byte(span.start.index())..offsets.byte(span.end.index());
        if let Event::Scalar(scalar, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) = &mut event {
            let start = skip_properties(text, range.start);
            *scalar = quoted::value(&text[start..quoted::end(text, start)?]).ok()?.into();
        }
        builder.event(event, range)?;
    }
    let root = builder.root?;
    let mut layout = Layout::new(text, builder.nodes, root);
    let start = skip_blank(text, 0);
    let is_marker = start == 0 || text[..start].ends_with('\n');
    layout.locate(root, if is_marker && text[start..].starts_with("---") { start + 3 } else { 0 })?;
    Some(layout)
}

impl Layout<'_> {
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
                ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => quoted::end(self.text, *content)?,
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    *content = skip_properties(self.text, from);
                    let keeps = header(self.text, *content)?.contains('+');
                    range.start = range.start.min(*content);
                    let body = &self.text[..range.end];
                    // The range ends with the indentation of the next line.
                    let body = body.trim_end_matches([' ', '\t']);
                    if keeps { body.len() } else { trimmed(body, 0..body.len()) }
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
            Kind::List { form, items } => {
                let (mut end, form) = (*content + usize::from(*form == Form::Flow), *form);
                for item in items {
                    end = self.locate(item.node, self.nodes[item.node].range.start)?;
                }
                if form == Form::Flow { self.after_bracket(end)? } else { end }
            }
            Kind::Map { entries, form } => {
                let (mut end, form) = (*content + usize::from(*form == Form::Flow), *form);
                for entry in entries {
                    self.locate_key(entry, end)?;
                    end = self.locate(entry.node, entry.colon.unwrap_or(entry.key_range.end))?;
                }
                if form == Form::Flow { self.after_bracket(end)? } else { end }
            }
        };
        Some((kind, end))
    }

    /// The position after the closing bracket that follows the last entry, a comma and comments.
    fn after_bracket(&self, from: usize) -> Option<usize> {
        let at = self.skip_comma(from);
        self.text[at..].starts_with([']', '}']).then_some(at + 1)
    }

    /// The position after white space, comments and at most one comma.
    fn skip_comma(&self, from: usize) -> usize {
        let at = skip_blank(self.text, from);
        if self.text[at..].starts_with(',') { skip_blank(self.text, at + 1) } else { at }
    }

    /// Corrects the range of a key, which is after `from`.
    fn locate_key(&self, entry: &mut Entry, from: usize) -> Option<()> {
        let mark = skip_properties(self.text, self.skip_comma(from));
        if mark < entry.start && self.text[mark..].starts_with('?') {
            entry.start = mark;
        }
        let start = skip_properties(self.text, entry.key_range.start);
        entry.key_range.end = match self.text.as_bytes().get(start)? {
            b'"' | b'\'' => quoted::end(self.text, start)?,
            _ => trimmed(self.text, entry.key_range.clone()),
        };
        let after = skip_blank(self.text, entry.key_range.end);
        entry.colon = (self.text.as_bytes().get(after) == Some(&b':')).then_some(after + 1);
        Some(())
    }
}

struct Builder<'t> {
    text: &'t str,
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
                let value = scalar_value(&text, style, tag.as_deref()).ok()?;
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
                self.stack.pop()?;
            }
            // The beginning or the end of a document or of the stream.
            _ => {}
        }
        Some(())
    }

    fn scalar(&mut self, range: Range<usize>, anchor: usize, kind: Kind, properties: bool) -> Option<()> {
        if let Some(Open { node, key: key @ None }) = self.stack.last_mut()
            && matches!(self.nodes[*node].kind, Kind::Map { .. })
        {
            let Kind::Scalar { value, style, .. } = kind else { return None };
            if anchor > 0 {
                // For aliases of the key. The node is in no list and no map.
                let value = Kind::Scalar { value: value.clone(), style, empty: false };
                self.anchors.insert(anchor, self.nodes.len());
                self.nodes.push(Node { content: range.start, range: range.clone(), anchor: 0, kind: value });
            }
            let plain = style == ScalarStyle::Plain && !properties;
            let (text, _) = scalar::key(value).ok()?;
            let merges = plain && text == "<<";
            *key =
                Some(Entry { key: text, merges, start: range.start, key_range: range, colon: None, node: 0 });
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
        let content =
            if properties { skip_properties(self.text, range.start).min(range.end) } else { range.start };
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
