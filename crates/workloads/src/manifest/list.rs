//! A `List` that is read item by item. The memory is proportional to the largest item.
//!
//! Each item is read as a `List` of its own, between the same lines. Its text, its edits and its errors are the same as
//! in the whole list. A text that cannot be split must be read as a whole.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::read::{Document, RawDocument, Syntax, lines};

/// The longest text around the items, which is read again with each of them.
const MAX_FRAME: usize = 4096;

/// A `List` in JSON, or in YAML with a line for each `-`.
#[derive(Debug)]
pub struct List<'t> {
    text: &'t str,
    piece: &'t RawDocument,
    items: Vec<Range<usize>>,
    /// The line of the text on which the next item begins, which was counted up to `counted`.
    line: usize,
    counted: usize,
    pub syntax: Syntax,
    /// The value, with `null` in place of each item.
    pub value: Value,
}

impl<'t> List<'t> {
    /// Splits the text of a `List`. `None` for another document, and for a list that must be read as a whole.
    pub fn split(piece: &'t RawDocument) -> Option<Self> {
        let text = std::str::from_utf8(&piece.bytes).ok()?;
        let json = text.trim_start().starts_with('{');
        let items = if json { json_items(text)? } else { yaml_items(text)? };
        // An alias must follow its anchor.
        if !json && ["- &", ": &"].iter().any(|anchor| text.contains(anchor)) {
            return None;
        }
        let syntax = if json { Syntax::Json } else { Syntax::Yaml };
        let mut list = Self { text, piece, items, line: 0, counted: 0, syntax, value: Value::Null };
        if list.head().len() + list.tail().len() > MAX_FRAME {
            return None;
        }
        let (_, mut document) = list.read(0)?;
        list.value = document.value.take()?;
        let is_list = list.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if !is_list || list.value.get("spec").is_some() {
            return None;
        }
        list.value["items"] = vec![Value::Null; list.items.len()].into();
        Some(list)
    }

    /// The number of items.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// The text before the first item.
    pub fn head(&self) -> &'t str {
        &self.text[..self.items[0].start]
    }

    /// The text after the last item.
    pub fn tail(&self) -> &'t str {
        &self.text[self.items[self.items.len() - 1].end..]
    }

    /// The text between an item and the next one.
    pub fn separator(&self, index: usize) -> &'t str {
        self.items.get(index + 1).map_or("", |next| &self.text[self.items[index].end..next.start])
    }

    /// Reads an item as a `List` of its own. `None` if the list must be read as a whole.
    pub fn read(&mut self, index: usize) -> Option<(RawDocument, Document)> {
        let item = self.items[index].clone();
        self.line += lines(&self.text[self.counted..item.start]);
        self.counted = item.start;
        let line = self.piece.line + self.line - lines(self.head());
        let bytes = [self.head(), &self.text[item], self.tail()].concat().into_bytes();
        let alone = RawDocument { bytes, line, after_json: self.piece.after_json };
        let document = Document::read(&alone).ok()?;
        let items = document.value.as_ref()?.get("items")?.as_array()?;
        let is_alone =
            items.len() == 1 && document.syntax == self.syntax && !document.repeats && document.mark == 0;
        is_alone.then_some((alone, document))
    }
}

/// The items of a JSON text.
fn json_items(text: &str) -> Option<Vec<Range<usize>>> {
    #[derive(Deserialize)]
    struct Items<'t> {
        #[serde(borrow)]
        items: Vec<&'t RawValue>,
    }
    let Items { items } = serde_json::from_str(text).ok()?;
    let range = |item: &RawValue| {
        let start = item.get().as_ptr() as usize - text.as_ptr() as usize;
        start..start + item.get().len()
    };
    let items: Vec<_> = items.into_iter().map(range).collect();
    (!items.is_empty()).then_some(items)
}

/// The items of a block list under the key `items` of a YAML text, each with its lines.
fn yaml_items(text: &str) -> Option<Vec<Range<usize>>> {
    let is_blank = |line: &str| matches!(line.trim_start().as_bytes().first(), None | Some(b'#'));
    let (mut items, mut column) = (Vec::<Range<usize>>::new(), None);
    let (mut at, mut in_items) = (0, false);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if !in_items {
            in_items = line.strip_prefix("items:").is_some_and(is_blank);
            continue;
        }
        if is_blank(line) {
            continue;
        }
        let blanks = line.len() - line.trim_start_matches(' ').len();
        let content = line[blanks..].trim_end();
        if (content == "-" || content.starts_with("- ")) && *column.get_or_insert(blanks) == blanks {
            if let Some(last) = items.last_mut() {
                last.end = start;
            }
            items.push(start..text.len());
        } else if column.is_none_or(|column| blanks <= column) {
            items.last_mut()?.end = start;
            return (blanks == 0).then_some(items);
        }
    }
    (!items.is_empty()).then_some(items)
}
