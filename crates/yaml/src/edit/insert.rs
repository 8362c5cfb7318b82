//! The text of an addition, in the style of its place.

use std::ops::Range;

use serde_json::Value;

use super::super::flow::Flow;
use super::super::layout::{Entry, Form, Item, Node};
use super::super::tokens;
use super::super::write;
use super::Edit;
use super::place::Place;
use super::visit::Editor;

impl Editor<'_, '_> {
    pub(super) fn edit(&mut self, range: Range<usize>, text: String) {
        self.edits.push(Edit { range, text });
    }

    pub(super) fn insert(&mut self, at: usize, text: String) {
        self.edit(at..at, text);
    }

    /// Adds entries after the last one of a map.
    pub(super) fn add_entries(
        &mut self,
        node: &Node,
        form: Form,
        entries: &[Entry],
        added: &[(&String, &Value)],
    ) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        if form == Form::Flow {
            let margin = self.margin(last.start);
            let last_entry = last.start..self.layout.node(last.node).range.end.max(last.key_range.end);
            let flow = self.flow_after(node, &last_entry);
            let texts = added.iter().map(|(key, value)| {
                let mut text = String::new();
                flow.entry(&mut text, key, value, &margin);
                text
            });
            return self.append_flow(node, last_entry, texts.collect());
        }
        let column = self.layout.column(first.start);
        let mut lines = String::new();
        write::write_map(&mut lines, added.iter().copied(), column, self.style.indent);
        self.insert(self.end_of_block(node.range.end, column), lines);
    }

    /// Writes entries in place of the merge key of a block map. Returns false if that is not possible.
    pub(super) fn write_out_merge(
        &mut self,
        form: Form,
        entries: &[Entry],
        old: &[(&String, &Value)],
    ) -> bool {
        let mut merges = entries.iter().filter(|entry| entry.merges);
        let (Some(merge), None, Form::Block, false) = (merges.next(), merges.next(), form, old.is_empty())
        else {
            return false;
        };
        let column = self.layout.column(merge.start);
        let end = self.layout.node(merge.node).range.end;
        let mut lines = String::new();
        for (_, comment) in self.layout.comments(merge.start..end) {
            write::blanks(&mut lines, column);
            lines.push_str(&format!("{comment}\n"));
        }
        write::write_map(&mut lines, old.iter().copied(), column, self.style.indent);
        // The blanks before the first line stay.
        self.edit(merge.start..end, without_line_end(lines.split_off(column)));
        true
    }

    /// Returns whether an item can be inserted before the first one of a list.
    pub(super) fn can_insert_before(&self, form: Form, first: &Item) -> bool {
        let line = &self.layout.text[self.layout.line_start(first.dash)..first.dash];
        form == Form::Flow || line.bytes().all(|byte| byte == b' ')
    }

    /// Adds items before an item of a list: after the previous item, or above the comments of the first item.
    pub(super) fn insert_before(&mut self, form: Form, item: &Item, before: Option<&Item>, added: &[Value]) {
        if added.is_empty() {
            return;
        }
        if form == Form::Flow {
            let start = self.layout.node(item.node).range.start;
            let margin = self.margin(start);
            let separator = match &self.style.flow.unit {
                Some(_) => format!(",\n{margin}"),
                None => format!(",{}", self.style.flow.after_comma),
            };
            let texts = added.iter().map(|item| self.style.flow.text(item, &margin) + &separator);
            return self.insert(start, texts.collect());
        }
        let column = self.layout.column(item.dash);
        let at = match before {
            Some(before) => self.layout.next_line(self.layout.node(before.node).range.end),
            None => self.start_of_comments(item.dash, column),
        };
        self.insert_items(at, added, column);
    }

    /// Adds items after the last one of a list.
    pub(super) fn append_items(
        &mut self,
        node: &Node,
        form: Form,
        items: &[Item],
        place: Place,
        added: &[Value],
    ) {
        let (Some(last), false) = (items.last(), added.is_empty()) else { return };
        if form == Form::Flow {
            let last = self.layout.node(last.node).range.clone();
            let margin = self.margin(last.start);
            let flow = self.flow_after(node, &last);
            let texts = added.iter().map(|item| flow.text(item, &margin));
            return self.append_flow(node, last, texts.collect());
        }
        let column = self.layout.column(last.dash);
        // A comment at the column of the key can be about the next key.
        let at_key = matches!(place, Place::Entry { column: key, .. } if key == column);
        let at = self.end_of_block(node.range.end, if at_key { column + 1 } else { column });
        self.insert_items(at, added, column);
    }

    fn insert_items(&mut self, at: usize, items: &[Value], column: usize) {
        let mut lines = String::new();
        write::write_list(&mut lines, items, column, self.style.indent);
        self.insert(at, lines);
    }

    /// The form of entries after the last one: on one line if that one is.
    fn flow_after(&self, node: &Node, last: &Range<usize>) -> Flow {
        let last_text = &self.layout.text[last.clone()];
        let one_line = last_text.ends_with(['}', ']']) && !last_text.contains('\n');
        let unit =
            if one_line || !self.is_on_own_line(node, last) { None } else { self.style.flow.unit.clone() };
        Flow { unit, ..self.style.flow.clone() }
    }

    fn is_on_own_line(&self, node: &Node, entry: &Range<usize>) -> bool {
        let line_start = self.layout.line_start(entry.start);
        line_start > node.content && line_start + self.margin(entry.start).len() == entry.start
    }

    /// Adds entries or items before the closing bracket, on lines of their own if the last one is on its own.
    fn append_flow(&mut self, node: &Node, last: Range<usize>, texts: Vec<String>) {
        let layout = self.layout;
        let margin = self.margin(last.start);
        if !self.is_on_own_line(node, &last) {
            let separator = format!(",{}", self.style.flow.after_comma);
            return self.insert(last.end, texts.into_iter().map(|text| separator.clone() + &text).collect());
        }
        let after = tokens::skip_blank(layout.text, last.end);
        let comma = layout.text[after..].starts_with(',');
        let end = if comma { after + 1 } else { last.end };
        let rest = layout.rest_of_line(end).trim_start();
        if !(rest.is_empty() || rest.starts_with('#')) {
            // The closing bracket is on the line of the last entry.
            let separator = format!(",\n{margin}");
            return self
                .insert(last.end, texts.iter().flat_map(|text| [&separator, text]).cloned().collect());
        }
        if !comma {
            self.insert(last.end, ",".to_owned());
        }
        let mut lines = String::new();
        for (at, text) in texts.iter().enumerate() {
            let separator = if comma || at + 1 < texts.len() { "," } else { "" };
            lines.push_str(&format!("{margin}{text}{separator}\n"));
        }
        self.insert(layout.next_line(end), lines);
    }

    /// The position after a block and the comments that follow it: those deeper than its column, which a block scalar
    /// at the end of an addition would absorb, and, up to a blank line, those at its column.
    pub(super) fn end_of_block(&self, end: usize, column: usize) -> usize {
        let mut block_end = self.layout.next_line(end);
        let (mut at, mut after_blank) = (block_end, false);
        while at < self.layout.text.len() {
            let line = self.layout.rest_of_line(at);
            let blanks = line.len() - line.trim_start_matches(' ').len();
            at = self.layout.next_line(at + 1);
            if blanks == line.len() {
                after_blank = true;
                continue;
            }
            // At the first column, a comment can be about anything.
            let can_be_here = blanks > column || (blanks == column && column > 0 && !after_blank);
            if !can_be_here || !line[blanks..].starts_with('#') {
                break;
            }
            (block_end, after_blank) = (at, false);
        }
        block_end
    }

    /// The beginning of the line of a position, or of the comments above it.
    fn start_of_comments(&self, at: usize, column: usize) -> usize {
        let mut start = self.layout.line_start(at);
        while start > 0 {
            let above = self.layout.line_start(start - 1);
            let line = &self.layout.text[above..start];
            let blanks = line.len() - line.trim_start_matches(' ').len();
            if blanks < column || !line[blanks..].starts_with('#') {
                break;
            }
            start = above;
        }
        start
    }

    /// The indentation of the line of a position.
    pub(super) fn margin(&self, at: usize) -> String {
        let line = &self.layout.text[self.layout.line_start(at)..at];
        line[..line.len() - line.trim_start().len()].to_owned()
    }
}

pub(super) fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}
