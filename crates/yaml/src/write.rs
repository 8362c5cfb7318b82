//! From a JSON value to YAML that kubectl reads back as the same value.

use std::fmt::Write as _;

use serde_json::Value;

use super::scalar;

/// The indentation of a text, in columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Indent {
    /// A map below its key.
    pub(super) map: usize,
    /// A list below its key.
    pub(super) list: usize,
}

impl Indent {
    /// The layout of `kubectl get -o yaml`.
    pub(super) const KUBECTL: Self = Self { map: 2, list: 0 };
}

/// Writes a value as one YAML document, in the layout of `kubectl get -o yaml`: two spaces per level, list items at the
/// column of their key.
pub fn write(value: &Value) -> String {
    let mut out = String::with_capacity(1024);
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0, Indent::KUBECTL),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0, Indent::KUBECTL),
        Value::String(text) => {
            write_string(&mut out, text, None);
            out.push('\n');
        }
        _ => {
            write_scalar(&mut out, value, 0);
            out.push('\n');
        }
    }
    out
}

pub(super) fn blanks(out: &mut String, mut columns: usize) {
    const BLANKS: &str = "                                                                ";
    while columns > 0 {
        let part = columns.min(BLANKS.len());
        out.push_str(&BLANKS[..part]);
        columns -= part;
    }
}

/// The entries of a map, each on a line of its own.
pub(super) fn write_map<'v>(
    out: &mut String,
    entries: impl IntoIterator<Item = (&'v String, &'v Value)>,
    column: usize,
    indent: Indent,
) {
    for (key, value) in entries {
        blanks(out, column);
        write_entry(out, key, value, column, indent);
    }
}

/// One entry after its indentation. Its key is at `column`.
fn write_entry(out: &mut String, key: &str, value: &Value, column: usize, indent: Indent) {
    write_string(out, key, None);
    out.push(':');
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            write_map(out, map, column + indent.map, indent);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            write_list(out, items, column + indent.list, indent);
        }
        _ => {
            out.push(' ');
            write_scalar(out, value, column);
            out.push('\n');
        }
    }
}

/// The items of a list, each on a line of its own.
pub(super) fn write_list(out: &mut String, items: &[Value], column: usize, indent: Indent) {
    for item in items {
        blanks(out, column);
        write_item(out, item, column, indent);
    }
}

/// One item after its indentation: `- ` and the value. The further lines of the value are two columns deeper.
pub(super) fn write_item(out: &mut String, item: &Value, column: usize, indent: Indent) {
    out.push_str("- ");
    match item {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in map.iter().enumerate() {
                blanks(out, if at > 0 { column + 2 } else { 0 });
                write_entry(out, key, value, column + 2, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, inner) in items.iter().enumerate() {
                blanks(out, if at > 0 { column + 2 } else { 0 });
                write_item(out, inner, column + 2, indent);
            }
        }
        _ => {
            write_scalar(out, item, column);
            out.push('\n');
        }
    }
}

/// A scalar, `[]` or `{}`. `column` is that of the key or the `-` before it.
pub(super) fn write_scalar(out: &mut String, value: &Value, column: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => write_string(out, text, Some(column)),
        // Only the empty ones arrive here.
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Writes a string plain where every YAML version reads it back unchanged, as a block where it has several
/// lines and the place allows a block (`column` is given), quoted otherwise.
fn write_string(out: &mut String, text: &str, column: Option<usize>) {
    if is_plain_safe(text) {
        out.push_str(text);
    } else if let Some(column) = column
        && text.contains('\n')
        && is_block_safe(text)
    {
        write_block(out, text, column + 2);
    } else {
        write_quoted(out, text);
    }
}

pub(super) fn is_plain_safe(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    let starts_well = match first {
        b'-' => bytes.get(1).is_some_and(|next| !matches!(next, b' ' | b'-')),
        b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\''
        | b'"' | b'%' | b'@' | b'`' | b' ' | b'=' | b'~' => false,
        b'.' => bytes.get(1).is_some_and(|next| *next == b'/' || next.is_ascii_alphabetic()),
        _ => true,
    };
    starts_well
        && last != b' '
        && last != b':'
        && bytes.iter().all(|byte| matches!(byte, 0x20..=0x7e))
        && !text.contains(": ")
        && !text.contains(" #")
        && !scalar::is_ambiguous(text)
}

/// Returns true if a block can hold the text: no reader strips or refuses a part of it.
pub(super) fn is_block_safe(text: &str) -> bool {
    !text.starts_with([' ', '\n', '\t'])
        && text.chars().all(|c| c == '\n' || (c >= ' ' && c != '\u{7f}' && !is_special(c)))
        && !text.split('\n').any(|line| line.ends_with(' ') || line.starts_with('\t'))
}

/// Characters that YAML treats as line breaks or forbids.
fn is_special(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Writes a string as a block, with its lines at `column`.
fn write_block(out: &mut String, text: &str, column: usize) {
    let body = text.trim_end_matches('\n');
    out.push_str(match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    write_lines(out, body, column);
    // The caller ends the last line, so only the further line breaks of `|+` are written here.
    for _ in 1..(text.len() - body.len()) {
        out.push('\n');
    }
}

/// The lines of a block, each after a line end.
pub(super) fn write_lines(out: &mut String, text: &str, column: usize) {
    for line in text.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            blanks(out, column);
            out.push_str(line);
        }
    }
}

/// Returns true if the last line of a written text belongs to a block whose line end is part of the string.
pub(super) fn ends_in_block(text: &str) -> bool {
    let column = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().rev().filter(|line| !line.is_empty());
    let mut least = usize::MAX;
    lines.any(|line| {
        let is_header = line.ends_with(" |") || line.ends_with(" |+");
        let encloses = is_header && column(line) < least;
        least = least.min(column(line));
        encloses
    })
}

pub(super) fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' || c == '\u{7f}' || is_special(c) => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate as yaml;

    #[test]
    fn layout_is_that_of_kubectl() {
        let value = json!({"a": {"b": [1, {"c": "x", "d": []}, ["w", "z"]]}, "t": "l1\nl2\n", "e": {}});
        let expected = "a:\n  b:\n  - 1\n  - c: x\n    d: []\n  - - w\n    - z\nt: |\n  l1\n  l2\ne: {}\n";
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn strings_that_yaml_1_1_reads_otherwise_are_quoted() {
        for text in [
            "n", "y", "on", "off", "yes", "no", "0755", "1_000", "8", "1e3", ".5", "null", "~", "", "=",
            "<<", "0x1F", ".inf",
        ] {
            assert_eq!(write(&json!({"k": text})), format!("k: \"{text}\"\n"));
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~\n\t]{0,24}",
            "[yn0-9_.:~#&*!|>'\"%@`{}\\[\\], x+-]{0,6}",
            any::<String>().prop_map(|text| text.replace('\0', "")),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|number| json!(number)),
            any_text().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::vec((any_text(), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_reads_back_as_the_same_value(value in any_value()) {
            let text = write(&value);
            let read = yaml::read_value(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(read.root.unwrap_or(Value::Null), value, "{}", text);
        }
    }
}
