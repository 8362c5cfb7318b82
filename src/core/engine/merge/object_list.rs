//! Lists of objects that the text of an annotation holds, as JSON or YAML, and changes to them that keep the form.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use crate::core::yaml;

/// A list of objects in a text.
#[derive(Debug)]
pub(super) struct ObjectList<'t> {
    text: &'t str,
    form: Form,
    entries: Vec<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    /// YAML in brackets: JSON with a comma too much, or without quotes.
    Flow,
    /// YAML with a line for each entry.
    Block,
}

impl<'t> ObjectList<'t> {
    /// Reads a text; `None` if it is no list of objects.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        if let Some(entries) = objects(text, Form::Json) {
            return Some(Self { text, form: Form::Json, entries });
        }
        let form = if text.lines().any(is_first_entry) { Form::Block } else { Form::Flow };
        let entries = objects(text, form)?;
        Some(Self { text, form, entries })
    }

    pub(super) fn entries(&self) -> &[Map<String, Value>] {
        &self.entries
    }

    /// The text with some entries replaced and others appended.
    pub(super) fn with(
        &self,
        replaced: &[(usize, Map<String, Value>)],
        added: &[Map<String, Value>],
    ) -> String {
        let mut entries = self.entries.clone();
        for (at, entry) in replaced {
            entries[*at].clone_from(entry);
        }
        let rewritten = if replaced.is_empty() {
            self.text.to_owned()
        } else {
            match self.form {
                Form::Json => self.with_replaced(replaced),
                Form::Flow | Form::Block => self.rewritten(&entries),
            }
        };
        entries.extend(added.iter().cloned());
        let written = match self.form {
            _ if added.is_empty() => Some(rewritten),
            Form::Json => appended_json(&rewritten, added),
            Form::Flow => appended_flow(&rewritten, added),
            Form::Block => Some(appended_block(&rewritten, added)),
        };
        // Comments and other peculiarities of YAML may be in the way.
        let is_right = |text: &String| objects(text, self.form).as_ref() == Some(&entries);
        written.filter(is_right).unwrap_or_else(|| self.rewritten(&entries))
    }

    /// The text of other entries in the form of the list, without the comments.
    fn rewritten(&self, entries: &[Map<String, Value>]) -> String {
        match self.form {
            Form::Json => compact(&entries),
            Form::Flow if self.text.contains('\n') => pretty(&entries, "  "),
            Form::Flow => compact(&entries),
            Form::Block => block(entries, ""),
        }
    }

    fn with_replaced(&self, replaced: &[(usize, Map<String, Value>)]) -> String {
        let spans = spans(self.text);
        let mut text = self.text.to_owned();
        let mut replaced: Vec<_> =
            replaced.iter().filter_map(|(at, entry)| Some((spans.get(*at)?, entry))).collect();
        replaced.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        for (span, entry) in replaced {
            text.replace_range(span.clone(), &Style::of(self.text, Some(span)).entry(entry));
        }
        text
    }
}

/// Returns whether an object has all fields of another one, and each object in it those of the other's.
pub(super) fn covers_object(existing: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| match (existing.get(key), wanted) {
        (Some(Value::Object(existing)), Value::Object(wanted)) => covers_object(existing, wanted),
        (existing, wanted) => existing == Some(wanted),
    })
}

fn objects(text: &str, form: Form) -> Option<Vec<Map<String, Value>>> {
    if form == Form::Json {
        return serde_json::from_str(text).ok();
    }
    let manifest = yaml::read_value(text).ok()?;
    if manifest.duplicate_key.is_some() {
        return None;
    }
    let Some(Value::Array(items)) = manifest.root else { return None };
    items.into_iter().map(|item| if let Value::Object(entry) = item { Some(entry) } else { None }).collect()
}

/// The entries of a JSON list of objects, by their bytes.
fn spans(text: &str) -> Vec<Range<usize>> {
    let (mut depth, mut start, mut spans) = (0usize, 0, Vec::new());
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                if depth == 1 {
                    start = at;
                }
                depth += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 1 {
                    spans.push(start..at + 1);
                }
            }
            _ => {}
        }
    }
    spans
}

/// The layout of one entry.
struct Style {
    /// The indentation of a level, if an entry has several lines.
    unit: Option<String>,
    /// The indentation of the entry itself.
    base: String,
}

impl Style {
    /// The layout of the entry of a JSON list that is at these bytes.
    fn of(text: &str, entry: Option<&Range<usize>>) -> Self {
        let Some(entry) = entry else { return Self { unit: None, base: String::new() } };
        let blanks = |line: &str| line.chars().take_while(|c| *c == ' ' || *c == '\t').collect::<String>();
        let line = text[..entry.start].rfind('\n').map_or(0, |at| at + 1);
        let base = blanks(&text[line..]);
        let inner = text[entry.clone()].lines().nth(1).map(blanks);
        let unit = inner.map(|inner| inner.strip_prefix(base.as_str()).unwrap_or("  ").to_owned());
        Self { unit, base }
    }

    fn entry(&self, entry: &Map<String, Value>) -> String {
        match &self.unit {
            // Line breaks in strings are escaped.
            Some(unit) => pretty(entry, unit).replace('\n', &format!("\n{}", self.base)),
            None => compact(entry),
        }
    }
}

fn compact(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn pretty(value: &impl Serialize, unit: &str) -> String {
    let mut out = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    // Writing JSON values into memory cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, formatter));
    String::from_utf8(out).unwrap_or_default()
}

fn appended_json(text: &str, added: &[Map<String, Value>]) -> Option<String> {
    let spans = spans(text);
    let style = Style::of(text, spans.last());
    let texts: Vec<String> = added.iter().map(|entry| style.entry(entry)).collect();
    let open = text.find('[')? + 1;
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        let close = text.rfind(']')?;
        return Some(format!("{}{}{}", &text[..open], texts.join(","), &text[close..]));
    };
    let lead = &text[open..first.start];
    let between = match spans.get(1) {
        Some(second) => text[first.end..second.start].to_owned(),
        None if lead.contains('\n') => format!(",{lead}"),
        None => ",".to_owned(),
    };
    let added = texts.join(&between);
    Some(format!("{}{between}{added}{}", &text[..last.end], &text[last.end..]))
}

fn appended_flow(text: &str, added: &[Map<String, Value>]) -> Option<String> {
    let (open, close) = (text.find('[')? + 1, text.rfind(']')?);
    let body = text.get(..close)?.trim_end();
    let blanks = &text[close - (close - body.len())..close];
    let (body, comma) = match body.strip_suffix(',') {
        Some(body) => (body.trim_end(), ","),
        None => (body, ""),
    };
    let lead: String = text[open..].chars().take_while(|c| c.is_whitespace()).collect();
    let between = if lead.contains('\n') { format!(",{lead}") } else { ", ".to_owned() };
    let added = added.iter().map(compact).collect::<Vec<_>>().join(&between);
    Some(format!("{body}{between}{added}{comma}{blanks}{}", &text[close..]))
}

fn appended_block(text: &str, added: &[Map<String, Value>]) -> String {
    let first = text.lines().find(|line| is_first_entry(line)).unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start().len()];
    // Comments and the end of the document stay behind the list.
    let lines = text.split_inclusive('\n').rev();
    let is_behind = |line: &&str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "..."
    };
    let behind: usize = lines.take_while(is_behind).map(str::len).sum();
    let body = text[..text.len() - behind].trim_end();
    format!("{body}\n{}{}", block(added, indent).trim_end(), &text[body.len()..])
}

/// Returns whether a line is the first one of an entry of a list in YAML, and not the beginning of a document.
fn is_first_entry(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix('-');
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn block(entries: &[Map<String, Value>], indent: &str) -> String {
    let list = entries.iter().cloned().map(Value::Object).collect();
    let text = yaml::write(&Value::Array(list));
    let lines: Vec<&str> = text.lines().collect();
    format!("{indent}{}\n", lines.join(&format!("\n{indent}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn added(text: &str) -> Option<String> {
        Some(ObjectList::parse(text)?.with(&[], &[object(json!({"i": "eth1", "net": "r1"}))]))
    }

    fn replaced(text: &str) -> Option<String> {
        Some(ObjectList::parse(text)?.with(&[(0, object(json!({"i": "eth0", "net": "new"})))], &[]))
    }

    #[test]
    fn json_keeps_its_layout() {
        for (before, after) in [
            (r#"[{"i":"eth0"}]"#, r#"[{"i":"eth0"},{"i":"eth1","net":"r1"}]"#),
            (r#"[{"i":"eth0"}, {"i":"eth9"}]"#, r#"[{"i":"eth0"}, {"i":"eth9"}, {"i":"eth1","net":"r1"}]"#),
            ("[]", r#"[{"i":"eth1","net":"r1"}]"#),
            ("[\n  {\"i\":\"eth0\"}\n]\n", "[\n  {\"i\":\"eth0\"},\n  {\"i\":\"eth1\",\"net\":\"r1\"}\n]\n"),
            (
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    }\n]",
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    },\n    {\n        \"i\": \"eth1\",\n        \"net\": \"r1\"\n    }\n]",
            ),
        ] {
            assert_eq!(added(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn yaml_keeps_its_layout() {
        for (before, after) in [
            ("[{i: eth0}]", "[{i: eth0}, {\"i\":\"eth1\",\"net\":\"r1\"}]"),
            (
                "[\n  {\"i\":\"eth0\"},\n]\n",
                "[\n  {\"i\":\"eth0\"},\n  {\"i\":\"eth1\",\"net\":\"r1\"},\n]\n",
            ),
            ("- i: eth0\n  net: r0\n", "- i: eth0\n  net: r0\n- i: eth1\n  net: r1\n"),
            ("  - i: eth0", "  - i: eth0\n  - i: eth1\n    net: r1"),
            ("# a\n- i: eth0 # b\n", "# a\n- i: eth0 # b\n- i: eth1\n  net: r1\n"),
            ("---\n- i: eth0\n...\n", "---\n- i: eth0\n- i: eth1\n  net: r1\n...\n"),
            ("- i: eth0\n# end\n", "- i: eth0\n- i: eth1\n  net: r1\n# end\n"),
            ("-\n  i: eth0\n", "-\n  i: eth0\n- i: eth1\n  net: r1\n"),
            // In a text, it is no comment.
            ("- i: |\n    # x\n", "- i: |\n    # x\n- i: eth1\n  net: r1\n"),
            ("--- [{i: eth0}]", "--- [{i: eth0}, {\"i\":\"eth1\",\"net\":\"r1\"}]"),
            ("# a\n[{i: eth0}]\n...\n", "# a\n[{i: eth0}, {\"i\":\"eth1\",\"net\":\"r1\"}]\n...\n"),
            // The comment hides where the list ends.
            ("[{i: eth0}] # ]", "[{\"i\":\"eth0\"},{\"i\":\"eth1\",\"net\":\"r1\"}]"),
        ] {
            assert_eq!(added(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn an_entry_is_replaced_in_the_layout_of_the_text() {
        for (before, after) in [
            (r#"[ {"i":"eth0"}, {"x":1.0} ]"#, r#"[ {"i":"eth0","net":"new"}, {"x":1.0} ]"#),
            (
                "[\n  {\n    \"i\": \"eth0\"\n  }\n]",
                "[\n  {\n    \"i\": \"eth0\",\n    \"net\": \"new\"\n  }\n]",
            ),
            ("[{i: eth0}]", r#"[{"i":"eth0","net":"new"}]"#),
            ("- i: eth0\n", "- i: eth0\n  net: new\n"),
        ] {
            assert_eq!(replaced(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_none() {
        for text in ["", "eth0", "[1]", "{}", "[{", "- a", "- {a: 1, a: 2}", "[{}]x", "- a: 1\n---\n- a: 2"] {
            assert!(ObjectList::parse(text).is_none(), "{text}");
        }
    }
}
