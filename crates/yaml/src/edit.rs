//! Edits of a text that make it read as another value, and keep its comments and its layout.
//!
//! Each edit is the smallest one for its value. If the edited text reads as a different value than it should, the value
//! that encloses the difference is written again, and then the next larger one.

mod align;
mod comments;
mod insert;
mod place;
mod replace;
mod visit;

use std::ops::Range;

use serde_json::Value;

use crate::json;
use crate::pointer::push_token;

use super::flow::Flow;
use super::layout::{Form, Kind, Layout};
use super::write::{self, Indent};
pub use comments::Comment;
use comments::head;
pub(super) use comments::missing;
use visit::Editor;

/// The number of values that are written again before the whole document is.
const MAX_ATTEMPTS: usize = 12;

/// The replacement of a range of the text.
#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    text: String,
}

/// A text after its edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// The comments that it lost.
    pub lost: Vec<Comment>,
}

/// Edits the text of one document so that it reads as `after`. `None` if the whole document must be written again.
pub(super) fn edit(text: &str, after: &Value, json: bool) -> Option<Edited> {
    let mut rewritten: Vec<String> = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let edits = edits(text, after, json, &rewritten)?;
        let has_comment = edits.iter().any(|edit| text[edit.range.clone()].contains('#'));
        let edited = apply(text, edits)?;
        let Some(different) = difference(&read(&edited, json)?, after) else {
            let lost = if has_comment && !json { comments::lost(text, &edited) } else { Vec::new() };
            return Some(Edited { text: edited, lost });
        };
        rewritten = enlarged(rewritten, different)?;
    }
    None
}

/// The edits after which a text reads as a value. The layout takes several times the memory of the text, and is not
/// kept while the edited text is read.
fn edits(text: &str, after: &Value, json: bool, rewritten: &[String]) -> Option<Vec<Edit>> {
    let layout = Layout::read(text, json)?;
    let style = Style::new(&layout, json);
    Editor::new(&layout, &style, rewritten).edits(after)
}

/// Writes a document again below its leading comments.
pub(super) fn rewrite(text: &str, after: &Value) -> Edited {
    let mut written = format!("{}{}", &text[..head(text)], write::write(after));
    if text.contains("\r\n") {
        written = written.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    Edited { lost: comments::lost(text, &written), text: written }
}

/// The style of a string.
#[derive(Debug)]
struct Style {
    indent: Indent,
    flow: Flow,
}

impl Style {
    fn new(layout: &Layout<'_>, json: bool) -> Self {
        // JSON with an extra comma reads as YAML, and stays as close to JSON as it was.
        let is_like_json = layout.text.trim_start().starts_with('[') && layout.text.contains("{\"");
        let flow = if json || is_like_json { Flow::of_json(layout.text) } else { Flow::YAML };
        Self { indent: indent_of(layout), flow }
    }
}

/// The indentation of the first map and the first list below a key.
fn indent_of(layout: &Layout<'_>) -> Indent {
    let (mut map, mut list) = (None, None);
    for node in &layout.nodes {
        let Kind::Map { form: Form::Block, entries } = &node.kind else { continue };
        for entry in entries {
            let column = layout.column(entry.start);
            match &layout.node(entry.node).kind {
                Kind::Map { form: Form::Block, entries } if map.is_none() => {
                    let inner = entries.first().map(|first| layout.column(first.start));
                    map = inner.and_then(|inner| inner.checked_sub(column)).filter(|step| *step > 0);
                }
                Kind::List { form: Form::Block, items } if list.is_none() => {
                    list = items.first().and_then(|first| layout.column(first.dash).checked_sub(column));
                }
                _ => {}
            }
        }
        if map.is_some() && list.is_some() {
            break;
        }
    }
    Indent { map: map.unwrap_or(Indent::KUBECTL.map), list: list.unwrap_or(Indent::KUBECTL.list) }
}

/// The text with all edits. `None` if two of them overlap.
fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    // Insertions at one place keep their order: the innermost first.
    edits.sort_by_key(|edit| edit.range.start);
    let line_end = match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    let mut out = String::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let (mut at, mut missing_end) = (0, false);
    for Edit { range, text: inserted } in edits {
        out.push_str(text.get(at..range.start)?);
        if range.start == text.len() && !out.is_empty() && !out.ends_with('\n') && inserted.ends_with('\n') {
            // The last line has no end, and still has none afterwards, if it is not that of a block scalar.
            out.push_str(line_end);
            missing_end = !write::ends_in_block(&inserted);
        }
        if line_end == "\n" {
            out.push_str(&inserted);
        } else {
            out.push_str(&inserted.replace('\n', line_end));
        }
        at = range.end;
    }
    out.push_str(text.get(at..)?);
    if missing_end {
        out.truncate(out.len() - line_end.len());
    }
    Some(out)
}

fn read(text: &str, json: bool) -> Option<Value> {
    if json {
        return json::read(text).ok().map(|(value, _)| value);
    }
    let manifest = super::read_value(text).ok()?;
    manifest.root.filter(|_| manifest.ambiguity.is_none())
}

/// The path of the smallest value that contains all differences.
fn difference(found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) if found.len() == wanted.len() => {
            wanted.iter().find_map(|(key, wanted)| match found.get(key) {
                Some(found) => within(key, difference(found, wanted)),
                None => Some(String::new()),
            })
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            let mut pairs = found.iter().zip(wanted).enumerate();
            pairs.find_map(|(at, (found, wanted))| within(&at.to_string(), difference(found, wanted)))
        }
        _ => (found != wanted).then(String::new),
    }
}

fn within(token: &str, difference: Option<String>) -> Option<String> {
    let mut path = String::new();
    push_token(&mut path, token);
    difference.map(|rest| path + &rest)
}

/// The values that are written again because they enclose a difference. `None` if that is the whole document.
fn enlarged(mut rewritten: Vec<String>, different: String) -> Option<Vec<String>> {
    let encloses = |path: &String| different == *path || different.starts_with(&format!("{path}/"));
    let path = match rewritten.iter().find(|path| encloses(path)) {
        // Writing it again was not enough.
        Some(path) => path[..path.rfind('/')?].to_owned(),
        None => different,
    };
    if path.is_empty() {
        return None;
    }
    rewritten.retain(|old| !old.starts_with(&path));
    rewritten.push(path);
    Some(rewritten)
}

#[cfg(test)]
mod tests;
