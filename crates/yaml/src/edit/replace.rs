//! The text of a value in place of another one.

use std::ops::Range;

use serde_json::Value;

use super::super::layout::Node;
use super::super::tokens;
use super::super::write;
use super::insert::without_line_end;
use super::place::Place;
use super::visit::Editor;

impl Editor<'_, '_> {
    /// Writes a value in place of a node, with the comments of the node. Its anchor and its tag are lost.
    pub(super) fn replace(&mut self, node: &Node, place: Place, after: &Value) -> Option<()> {
        let range = node.range.clone();
        match place {
            Place::Root => return None,
            Place::Entry { column, colon } => self.replace_entry(range, column, colon, after),
            Place::Item { dash } => self.replace_item(dash..range.end, after),
            Place::Flow => {
                let mut value = String::new();
                if range.is_empty() {
                    let colon = self.layout.text[..range.start].ends_with(':');
                    value.push_str(if colon { self.style.flow.after_colon } else { ": " });
                }
                let margin = self.margin(range.start);
                for (_, comment) in self.layout.comments(range.clone()) {
                    value.push_str(&format!(" {comment}\n{margin} "));
                }
                self.style.flow.write(&mut value, after, &margin);
                self.edit(range, value);
            }
        }
        Some(())
    }

    fn replace_entry(&mut self, range: Range<usize>, column: usize, colon: usize, after: &Value) {
        let text = self.layout.text;
        let one_line = !text[colon..range.end].contains('\n');
        let comments = self.layout.comments(colon..range.end);
        let lines = self.block(column, after);
        let mut value = String::new();
        if lines.is_none() && self.has_comment(range.end, column) {
            self.style.flow.write(&mut value, after, "");
        } else if lines.is_none() {
            write::write_scalar(&mut value, after, column);
        }
        if lines.is_none() && comments.is_empty() {
            let inline = one_line && !range.is_empty();
            let (from, blank) = if inline { (range.start, "") } else { (colon, " ") };
            return self.edit(from..range.end, format!("{blank}{value}"));
        }
        let mut head = String::new();
        let new_line = |head: &mut String| {
            head.push('\n');
            write::blanks(head, column + self.style.indent.map);
        };
        for (at, comment) in comments {
            if text[colon..at].contains('\n') {
                new_line(&mut head);
            } else {
                head.push(' ');
            }
            head.push_str(comment);
        }
        let comment_after = !self.layout.rest_of_line(range.end).trim().is_empty();
        if !value.is_empty() || (comment_after && !one_line) {
            new_line(&mut head);
        }
        self.edit(colon..range.end, head + &value);
        // The comments after the old value stay above the new one.
        if let Some(lines) = lines {
            self.insert(self.end_of_block(range.end, column + 1), lines);
        }
    }

    /// The lines of the value of a key. `None` for one that is not a block.
    fn block(&self, column: usize, value: &Value) -> Option<String> {
        let indent = self.style.indent;
        let mut lines = String::new();
        match value {
            Value::Object(map) if !map.is_empty() => {
                write::write_map(&mut lines, map, column + indent.map, indent);
            }
            Value::Array(items) if !items.is_empty() => {
                write::write_list(&mut lines, items, column + indent.list, indent);
            }
            _ => return None,
        }
        Some(lines)
    }

    fn replace_item(&mut self, range: Range<usize>, after: &Value) {
        let column = self.layout.column(range.start);
        let mut item = String::new();
        for (_, comment) in self.layout.comments(range.clone()) {
            item.push_str(&format!("{comment}\n"));
            write::blanks(&mut item, column);
        }
        if self.has_comment(range.end, column) {
            item.push_str("- ");
            self.style.flow.write(&mut item, after, "");
        } else {
            write::write_item(&mut item, after, column, self.style.indent);
        }
        self.edit(range, without_line_end(item));
    }

    /// Writes a string as a block in place of another block. `None` if it cannot be one.
    pub(super) fn rewrite_block(&mut self, node: &Node, string: &str) -> Option<()> {
        let text = self.layout.text;
        let header = tokens::header(text, node.content)?;
        let lines = string.strip_suffix('\n').unwrap_or(string);
        if header.contains(|c: char| c.is_ascii_digit())
            || !write::is_block_safe(string)
            || lines.ends_with('\n')
            || lines.is_empty()
        {
            return None;
        }
        let start = node.content + text[node.content..].find('\n')? + 1;
        let end = tokens::trimmed(text, start..node.range.end.max(start));
        let first = text[start..end].lines().find(|line| !line.trim_matches([' ', '\t', '\r']).is_empty())?;
        let column = first.len() - first.trim_start_matches(' ').len();
        let mut block = String::new();
        // The first line is at the end of the header already.
        write::write_lines(&mut block, lines, column);
        let new_header = if lines.len() == string.len() { "|-" } else { "|" };
        if header != new_header {
            self.edit(node.content..node.content + header.len(), new_header.to_owned());
        }
        self.edit(start..end, block.split_off(1));
        Some(())
    }

    /// Returns true if a comment follows that a block scalar before it would absorb.
    fn has_comment(&self, end: usize, column: usize) -> bool {
        let next_line = self.layout.next_line(end);
        !self.layout.rest_of_line(end).trim().is_empty() || self.end_of_block(end, column + 1) > next_line
    }
}
