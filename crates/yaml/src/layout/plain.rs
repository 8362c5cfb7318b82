//! The layout of a text in the plain part of YAML: block lists and maps, those in brackets on one line, scalars on one
//! line, `|` blocks, comments.
//!
//! Most manifests have nothing else, and are read many times faster than by the parser. The reader accepts only text
//! that it reads as the parser does, and leaves any other text to the parser.

use std::ops::Range;

use super::super::scalar::{self, Scalar};
use super::{Entry, Form, Item, Kind, Layout, Node, NodeId, ScalarForm};

/// A level of nesting is a call on the stack.
const MAX_DEPTH: usize = 64;
/// The largest map, since each key is compared with all others.
const MAX_ENTRIES: usize = 256;

/// Reads a text. `None` if a part of it is not plain.
pub(super) fn read(text: &str) -> Option<Layout<'_>> {
    let is_plain = |byte: u8| byte == b'\n' || matches!(byte, b' '..=b'~');
    if !text.ends_with('\n') || !text.bytes().all(is_plain) {
        return None;
    }
    // A line of a manifest has about 20 characters and one node.
    let nodes = Vec::with_capacity(text.len() / 20);
    let mut reader = Reader { text, at: 0, line: 0, depth: 0, nodes };
    reader.skip_blank();
    if reader.column() == 0 && text[reader.at..].starts_with("---") {
        reader.at += 3;
        reader.end_of_line()?;
        reader.skip_blank();
    }
    let root = reader.block()?;
    (reader.at == text.len()).then(|| Layout::new(text, reader.nodes, root))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The beginning of the current line.
    line: usize,
    depth: usize,
    nodes: Vec<Node>,
}

impl<'t> Reader<'t> {
    fn column(&self) -> usize {
        self.at - self.line
    }

    fn rest(&self) -> &'t [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// The rest of the line.
    fn rest_of_line(&self) -> &'t str {
        let rest = &self.text[self.at..];
        &rest[..memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len())]
    }

    /// Moves to the next character that is neither white space nor in a comment, from the beginning of a line.
    fn skip_blank(&mut self) {
        loop {
            match self.rest().first() {
                Some(b' ') => self.at += 1,
                Some(b'\n') => {
                    self.at += 1;
                    self.line = self.at;
                }
                Some(b'#') => self.at += self.rest_of_line().len(),
                _ => return,
            }
        }
    }

    /// Moves over white space and a comment to the next line with content. `None` if there is anything else on the
    /// line.
    fn end_of_line(&mut self) -> Option<()> {
        let rest = self.rest_of_line();
        let blanks = rest.len() - rest.trim_start().len();
        let ends = blanks == rest.len() || (blanks > 0 && rest[blanks..].starts_with('#'));
        self.at += rest.len();
        self.skip_blank();
        ends.then_some(())
    }

    fn is_dash(&self) -> bool {
        self.rest().first() == Some(&b'-') && matches!(self.rest().get(1), Some(b' ' | b'\n'))
    }

    /// A list or a map at the current column.
    fn block(&mut self) -> Option<NodeId> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let (start, column) = (self.at, self.column());
        let id = self.add(start..start, Kind::List { form: Form::Block, items: Vec::new() });
        let kind = if self.is_dash() { self.list(column)? } else { self.map(column)? };
        let last = match &kind {
            Kind::List { items, .. } => items.last()?.node,
            Kind::Map { entries, .. } => entries.last()?.node,
            _ => return None,
        };
        self.nodes[id].range.end = self.nodes[last].range.end;
        self.nodes[id].kind = kind;
        self.depth -= 1;
        Some(id)
    }

    fn list(&mut self, column: usize) -> Option<Kind> {
        let mut items = Vec::new();
        while self.at < self.text.len() && self.column() == column && self.is_dash() {
            let dash = self.at;
            self.at += 1;
            items.push(Item { dash, node: self.value(column, dash + 1, column + 1)? });
        }
        self.ends_block(column)?;
        Some(Kind::List { form: Form::Block, items })
    }

    fn map(&mut self, column: usize) -> Option<Kind> {
        let mut entries: Vec<Entry> = Vec::new();
        while self.at < self.text.len() && self.column() == column && !self.is_dash() {
            // A list can be at the column of its key.
            let value = |reader: &mut Self, colon| reader.value(column, colon, column);
            let entry = self.entry(&entries, value)?;
            entries.push(entry);
        }
        self.ends_block(column)?;
        Some(Kind::Map { form: Form::Block, entries })
    }

    /// The next entry of a map that has these already. `value` reads its value, after the colon.
    fn entry(
        &mut self,
        entries: &[Entry],
        value: impl Fn(&mut Self, usize) -> Option<NodeId>,
    ) -> Option<Entry> {
        let (key, key_range) = self.key()?;
        if entries.len() >= MAX_ENTRIES || entries.iter().any(|entry| entry.key == key) {
            return None;
        }
        let colon = self.at;
        let node = value(self, colon)?;
        Some(Entry { key, merges: false, start: key_range.start, key_range, colon: Some(colon), node })
    }

    /// Deeper lines would continue a scalar.
    fn ends_block(&self, column: usize) -> Option<()> {
        (self.at == self.text.len() || self.column() <= column).then_some(())
    }

    /// The key at the current position and the colon after it.
    fn key(&mut self) -> Option<(String, Range<usize>)> {
        let (start, rest) = (self.at, &self.text[self.at..]);
        let (length, key) = if rest.starts_with(['"', '\'']) {
            quoted(rest)?
        } else {
            let in_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
            let length = rest.bytes().position(|byte| !in_key(byte))?;
            let text = &rest[..length];
            if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || scalar::is_unrepresentable(text) {
                return None;
            }
            (length, scalar::key(scalar::resolve(text)).ok()?.0)
        };
        self.at += length + 1;
        let is_key = length < 1000 && matches!(rest.as_bytes()[length..], [b':', b' ' | b'\n', ..]);
        is_key.then(|| (key, start..start + length))
    }

    /// The value after a colon or a dash that ends at `from`, in a block at `column`.
    fn value(&mut self, column: usize, from: usize, list_column: usize) -> Option<NodeId> {
        let rest = self.rest_of_line();
        let blanks = rest.len() - rest.trim_start().len();
        let inline = &rest[blanks..];
        if inline.is_empty() || inline.starts_with('#') {
            self.end_of_line()?;
            let deeper = self.at < self.text.len()
                && (self.column() > column || (self.is_dash() && self.column() >= list_column));
            if deeper {
                return self.block();
            }
            return Some(self.scalar(from..from, Scalar::Null, ScalarForm::Plain, true));
        }
        self.at += blanks;
        let in_list = list_column > column;
        if in_list && (self.is_dash() || self.is_key()) {
            return self.block();
        }
        self.inline(inline, column)
    }

    fn is_key(&mut self) -> bool {
        let at = self.at;
        let is_key = self.key().is_some();
        self.at = at;
        is_key
    }

    /// A value that begins on the line of its key.
    fn inline(&mut self, text: &str, column: usize) -> Option<NodeId> {
        if text.starts_with('|') {
            return self.literal(text, column);
        }
        let node = if text.starts_with(['[', '{']) { self.flow()? } else { self.one_line(plain(text))? };
        self.end_of_line()?;
        Some(node)
    }

    /// A list or a map in brackets, on one line.
    fn flow(&mut self) -> Option<NodeId> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let (start, form) = (self.at, Form::Flow);
        let is_list = self.rest().first() == Some(&b'[');
        let id = self.add(start..start, Kind::List { form, items: Vec::new() });
        let (mut items, mut entries) = (Vec::new(), Vec::new());
        loop {
            // The bracket, and the comma after each value.
            self.at += 1;
            self.skip_spaces();
            if items.is_empty() && entries.is_empty() && matches!(self.rest(), [b']' | b'}', ..]) {
                break;
            }
            if is_list {
                items.push(Item { dash: 0, node: self.in_flow()? });
            } else {
                let entry = self.entry(&entries, |reader, _| reader.in_flow())?;
                entries.push(entry);
            }
            self.skip_spaces();
            if self.rest().first() != Some(&b',') {
                break;
            }
        }
        let close = if is_list { b']' } else { b'}' };
        (self.rest().first() == Some(&close)).then_some(())?;
        self.at += 1;
        self.depth -= 1;
        self.nodes[id].range.end = self.at;
        self.nodes[id].kind = if is_list { Kind::List { form, items } } else { Kind::Map { form, entries } };
        Some(id)
    }

    /// A value within brackets.
    fn in_flow(&mut self) -> Option<NodeId> {
        self.skip_spaces();
        // A line can be long, and have many values.
        let rest = &self.text[self.at..];
        if rest.starts_with(['[', '{']) {
            return self.flow();
        }
        let in_plain = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'.' | b'/' | b'-' | b'=' | b'+' | b'$' | b'(' | b')' | b' ')
        };
        let length = rest.bytes().position(|byte| !in_plain(byte))?;
        self.one_line(plain(&rest[..length]))
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    /// A scalar in quotes, or else this plain one.
    fn one_line(&mut self, plain: Option<&str>) -> Option<NodeId> {
        let (start, rest) = (self.at, &self.text[self.at..]);
        let (length, value, form) = match rest.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => {
                let (length, value) = quoted(rest)?;
                let is_double = *quote == b'"';
                let form = if is_double { ScalarForm::DoubleQuoted } else { ScalarForm::SingleQuoted };
                (length, Scalar::String(value), form)
            }
            _ => plain.map(|text| (text.len(), scalar::resolve(text), ScalarForm::Plain))?,
        };
        self.at += length;
        Some(self.scalar(start..self.at, value, form, false))
    }

    /// A block after `|` or `|-`, with lines deeper than `column`.
    fn literal(&mut self, header: &str, column: usize) -> Option<NodeId> {
        let start = self.at;
        if !matches!(header, "|" | "|-") {
            return None;
        }
        self.at += header.len() + 1;
        let first = self.rest_of_line();
        let indent = first.len() - first.trim_start().len();
        if indent == first.len() || indent <= column {
            return None;
        }
        let (mut value, mut end) = (String::new(), self.at);
        let mut empty_lines = 0;
        while self.at < self.text.len() {
            let line = self.rest_of_line();
            let blanks = line.len() - line.trim_start().len();
            if blanks == line.len() {
                if blanks > indent {
                    return None;
                }
                empty_lines += 1;
            } else if blanks < indent {
                break;
            } else {
                value.extend(std::iter::repeat_n('\n', empty_lines));
                value.push_str(&line[indent..]);
                (end, empty_lines) = (self.at + line.trim_end().len(), 1);
            }
            self.at += line.len() + 1;
        }
        if header == "|" {
            value.push('\n');
        }
        self.line = self.at;
        self.skip_blank();
        Some(self.scalar(start..end, Scalar::String(value), ScalarForm::Block, false))
    }

    fn scalar(&mut self, range: Range<usize>, value: Scalar, form: ScalarForm, empty: bool) -> NodeId {
        self.add(range, Kind::Scalar { value, form, empty })
    }

    fn add(&mut self, range: Range<usize>, kind: Kind) -> NodeId {
        self.nodes.push(Node { content: range.start, range, anchor: 0, kind });
        self.nodes.len() - 1
    }
}

/// The length and the value of a quoted text on one line. In double quotes, `\"` and `\\` are the only escapes.
fn quoted(text: &str) -> Option<(usize, String)> {
    let quote = *text.as_bytes().first()?;
    let (mut value, mut rest) = (String::new(), &text[1..]);
    loop {
        let ends = |byte: u8| byte == quote || (byte == b'\\' && quote == b'"') || byte == b'\n';
        let at = rest.bytes().position(ends)?;
        value.push_str(&rest[..at]);
        match rest.as_bytes()[at..] {
            [b'\\', escaped @ (b'"' | b'\\'), ..] | [b'\'', escaped @ b'\'', ..] => {
                value.push(char::from(escaped));
            }
            [b'\\' | b'\n', ..] => return None,
            _ => return Some((text.len() - rest.len() + at + 1, value)),
        }
        rest = &rest[at + 2..];
    }
}

/// The plain scalar at the beginning of a text.
fn plain(text: &str) -> Option<&str> {
    let text = text.find(" #").map_or(text, |comment| &text[..comment]).trim_end();
    let begins = match text.as_bytes() {
        [b'-', next, ..] => !matches!(next, b' ' | b'-'),
        [first, ..] => {
            first.is_ascii_alphanumeric()
                || matches!(first, b'/' | b'.' | b'_' | b'^' | b'$' | b'(' | b'+' | b'~' | b'=')
        }
        [] => false,
    };
    let ends = !text.ends_with(':') && !text.contains(": ");
    (begins && ends && !scalar::is_unrepresentable(text)).then_some(text)
}

#[cfg(test)]
mod tests;
