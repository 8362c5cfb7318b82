//! Compares the nodes of a text with the value that it should have, and collects the edits.

use std::collections::{HashMap, HashSet};

use saphyr_parser::ScalarStyle;
use serde_json::{Map, Value};

use crate::pointer::push_token;

use super::super::layout::{Entry, Form, Item, Kind, Layout, Node, NodeId};
use super::align::align;
use super::place::Place;
use super::{Edit, Style};

pub(super) struct Editor<'l, 'v> {
    pub(super) layout: &'l Layout<'l>,
    pub(super) style: &'l Style,
    /// The paths of values that are written again.
    rewritten: &'l [String],
    /// The values that the anchors have after the edits. An anchor that is lost has none.
    anchors: HashMap<usize, &'v Value>,
    pub(super) edits: Vec<Edit>,
    path: String,
}

impl<'l, 'v> Editor<'l, 'v> {
    pub(super) fn new(layout: &'l Layout<'l>, style: &'l Style, rewritten: &'l [String]) -> Self {
        Self { layout, style, rewritten, anchors: HashMap::new(), edits: Vec::new(), path: String::new() }
    }

    /// The edits that lead to `after`. `None` if the whole document must be written again.
    pub(super) fn edits(mut self, after: &'v Value) -> Option<Vec<Edit>> {
        let root = if self.style.flow.json { Place::Flow } else { Place::Root };
        self.visit(self.layout.root, root, after)?;
        Some(self.edits)
    }

    /// Visits the nodes in the order of the text: the value of an anchor is known before its aliases.
    fn visit(&mut self, id: NodeId, place: Place, after: &'v Value) -> Option<()> {
        let node = self.layout.node(id);
        let kept = !self.rewritten.contains(&self.path)
            && match (&node.kind, after) {
                // A key with an anchor does not change.
                (Kind::Alias { node, .. }, _) if self.layout.node(*node).anchor == 0 => {
                    self.layout.to_value(*node) == *after
                }
                (Kind::Alias { anchor, .. }, _) => {
                    self.anchors.get(anchor).is_some_and(|value| *value == after)
                }
                (Kind::Scalar { value, .. }, _) if Value::from(value.clone()) == *after => true,
                (Kind::Scalar { style, .. }, Value::String(text)) => {
                    self.rewrite_string(node, *style, place, text)
                }
                (Kind::List { form, items }, Value::Array(after)) if !items.is_empty() => {
                    self.list(id, *form, items, place, after)?
                }
                (Kind::Map { form, entries }, Value::Object(after)) if !entries.is_empty() => {
                    self.map(id, *form, entries, after)?
                }
                (Kind::List { .. } | Kind::Map { .. }, _) => self.layout.to_value(id) == *after,
                _ => false,
            };
        if !kept {
            return self.replace(node, place, after);
        }
        if node.anchor > 0 {
            self.anchors.insert(node.anchor, after);
        }
        Some(())
    }

    fn visit_child(&mut self, token: &str, id: NodeId, place: Place, after: &'v Value) -> Option<()> {
        let length = self.path.len();
        push_token(&mut self.path, token);
        let visited = self.visit(id, place, after);
        self.path.truncate(length);
        visited
    }

    /// Returns false if the map must be written again.
    fn map(
        &mut self,
        id: NodeId,
        form: Form,
        entries: &'l [Entry],
        after: &'v Map<String, Value>,
    ) -> Option<bool> {
        if form == Form::Other {
            return Some(self.layout.to_value(id) == Value::Object(after.clone()));
        }
        let own_keys = || entries.iter().filter(|entry| !entry.merges).map(|entry| entry.key.as_str());
        // A set is faster only for large maps.
        let own: Option<HashSet<&str>> = (entries.len() > 16).then(|| own_keys().collect());
        let is_own = |key: &str| {
            own.as_ref().map_or_else(|| own_keys().any(|own| own == key), |own| own.contains(key))
        };
        let Some(merged) = self.merged(entries) else { return Some(false) };
        let goes = |entry: &Entry| !entry.merges && !after.contains_key(&entry.key);
        if entries.iter().any(goes) {
            return Some(false);
        }
        // An anchor that has gained a key would add it here.
        let written_out = if merged.keys().any(|key| !is_own(key) && !after.contains_key(key)) {
            let before = self.layout.to_value(id);
            let was_merged = |key: &str| !is_own(key) && before.get(key).is_some();
            let old: Vec<_> = after.iter().filter(|(key, _)| was_merged(key)).collect();
            if !self.write_out_merge(form, entries, &old) {
                return Some(false);
            }
            old
        } else {
            Vec::new()
        };
        for entry in entries.iter().filter(|entry| !entry.merges) {
            let place = match (form, entry.colon) {
                (Form::Block, Some(colon)) => Place::Entry { column: self.layout.column(entry.start), colon },
                _ => Place::Flow,
            };
            self.visit_child(&entry.key, entry.node, place, &after[&entry.key])?;
        }
        let written: HashSet<&str> = written_out.iter().map(|(key, _)| key.as_str()).collect();
        let is_there = |key: &str, value: &Value| {
            if written.is_empty() { merged.get(key) == Some(value) } else { written.contains(key) }
        };
        let is_added = |(key, value): &(&String, &Value)| !is_own(key) && !is_there(key, value);
        let added: Vec<(&String, &Value)> = after.iter().filter(is_added).collect();
        if !added.is_empty() {
            self.add_entries(self.layout.node(id), form, entries, &added);
        }
        Some(true)
    }

    /// The entries that `<<` merges into a map after the edits. `None` if an anchor is lost.
    fn merged(&self, entries: &[Entry]) -> Option<Map<String, Value>> {
        let mut merged = Map::new();
        for entry in entries.iter().filter(|entry| entry.merges) {
            self.merge(entry.node, &mut merged)?;
        }
        Some(merged)
    }

    fn merge(&self, id: NodeId, merged: &mut Map<String, Value>) -> Option<()> {
        let mut add = |source: &Value| {
            for (key, value) in source.as_object().into_iter().flatten() {
                merged.entry(key).or_insert_with(|| value.clone());
            }
        };
        match &self.layout.node(id).kind {
            Kind::Alias { anchor, .. } => match *self.anchors.get(anchor)? {
                Value::Array(sources) => sources.iter().for_each(add),
                source => add(source),
            },
            Kind::List { items, .. } => {
                for item in items {
                    self.merge(item.node, merged)?;
                }
            }
            _ => add(&self.layout.to_value(id)),
        }
        Some(())
    }

    /// Returns false if the list must be written again.
    fn list(
        &mut self,
        id: NodeId,
        form: Form,
        items: &'l [Item],
        place: Place,
        after: &'v [Value],
    ) -> Option<bool> {
        if form == Form::Other {
            return Some(self.layout.to_value(id) == Value::Array(after.to_vec()));
        }
        let pairs = if items.len() == after.len() {
            (0..items.len()).collect()
        } else {
            let before: Vec<Value> = items.iter().map(|item| self.layout.to_value(item.node)).collect();
            match align(&before, after) {
                Some(pairs) => pairs,
                None => return Some(false),
            }
        };
        if pairs.first() != Some(&0) && !self.can_insert_before(form, &items[0]) {
            return Some(false);
        }
        let (mut next, mut previous) = (0, None);
        for (item, at) in items.iter().zip(pairs) {
            self.insert_before(form, item, previous, &after[next..at]);
            let place = if form == Form::Block { Place::Item { dash: item.dash } } else { Place::Flow };
            self.visit_child(&at.to_string(), item.node, place, &after[at])?;
            (next, previous) = (at + 1, Some(item));
        }
        self.append_items(self.layout.node(id), form, items, place, &after[next..]);
        Some(true)
    }

    /// The style of a string that keeps its quotes. Returns false if it needs others.
    fn rewrite_string(&mut self, node: &Node, style: ScalarStyle, place: Place, text: &str) -> bool {
        if self.style.flow.json {
            return false;
        }
        match (style, place) {
            (ScalarStyle::SingleQuoted, _) if !text.chars().any(char::is_control) => {
                let quoted = format!("'{}'", text.replace('\'', "''"));
                self.edit(node.content..node.range.end, quoted);
                true
            }
            (ScalarStyle::DoubleQuoted, _) => {
                let mut quoted = String::new();
                super::super::write::write_quoted(&mut quoted, text);
                self.edit(node.content..node.range.end, quoted);
                true
            }
            (ScalarStyle::Literal | ScalarStyle::Folded, Place::Entry { .. } | Place::Item { .. }) => {
                self.rewrite_block(node, text).is_some()
            }
            _ => false,
        }
    }
}
