//! YAML that two readers read differently. It is refused, because a manifest would have one value here and another one
//! in the cluster.
//!
//! kubectl reads with a copy of libyaml, which follows YAML 1.1; saphyr-parser follows YAML 1.2.

use std::ops::Range;

use super::tokens::{skip_blank, trimmed};

/// The first character of a text that YAML does not allow, or that ends a line only for some readers.
pub(super) fn character(text: &str) -> Option<(usize, String)> {
    let bytes = text.as_bytes();
    let suspect = |at: &usize| match bytes[*at] {
        b'\t' | b'\n' | b' '..=b'~' => false,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        // The first bytes of U+0080, U+2028 and U+FEFF.
        byte => byte < b' ' || matches!(byte, 0x7f | 0xc2 | 0xe2 | 0xef),
    };
    (0..bytes.len()).filter(suspect).find_map(|at| {
        let c = text[at..].chars().next()?;
        let code = u32::from(c);
        let message = match c {
            '\r' => {
                "found a carriage return (U+000D) without a line feed after it: not every YAML reader ends the \
                 line there; save the file with Unix or Windows line endings"
                    .to_owned()
            }
            '\u{85}' | '\u{2028}' | '\u{2029}' => format!(
                "found U+{code:04X}, which ends a line for kubectl but not for other YAML readers; write it as \
                 `\\u{code:04X}` in double quotes"
            ),
            '\u{feff}' if at == 0 => return None,
            '\u{feff}' => {
                "found a byte order mark (U+FEFF) within the text, which not every YAML reader accepts; write it \
                 as `\\uFEFF` in double quotes"
                    .to_owned()
            }
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => format!(
                "found the control character U+{code:04X}, which YAML does not allow; write it as `\\u{code:04X}` \
                 in double quotes"
            ),
            _ => return None,
        };
        Some((at, message))
    })
}

/// The first line that begins a document only for kubectl.
pub(super) fn marker(text: &str) -> Option<(usize, String)> {
    let at = if text.starts_with("---#") { 0 } else { text.find("\n---#")? + 1 };
    Some((
        at,
        "kubectl starts a document here, but other YAML readers do not; write a space after `---`".to_owned(),
    ))
}

/// Why readers differ about a plain scalar within brackets.
pub(super) fn in_brackets(text: &str, range: Range<usize>) -> Option<String> {
    let scalar = &text[range.start..trimmed(text, range.clone())];
    let end = range.start + scalar.len();
    let colon = skip_blank(text, end);
    let is_part = !scalar.is_empty()
        && text[colon..].starts_with(':')
        && text.as_bytes().get(colon + 1).is_some_and(|next| !next.is_ascii_whitespace());
    let sign = match scalar.chars().next() {
        Some(first @ (':' | '|' | '>' | '%')) => first,
        _ if is_part => ':',
        _ if scalar.contains('?') => '?',
        _ => return None,
    };
    Some(format!(
        "within brackets, YAML readers differ about the `{sign}` in `{scalar}`; put the string in quotes, or a \
         space after the `{sign}`"
    ))
}

/// Returns true for a key that is not on one line with its colon, and has no `?` before it.
pub(super) fn is_broken_key(text: &str, start: usize, end: usize) -> bool {
    let comment = text[end..].starts_with('#').then(|| text[end..].find('\n')).flatten();
    let colon = skip_blank(text, end + comment.unwrap_or(0));
    text[colon..].starts_with(':')
        && text[start..colon].contains('\n')
        && !text[..start].trim_end().ends_with('?')
}

/// Why not every reader of YAML accepts an anchor, an alias or a tag.
pub(super) fn property(word: &str) -> Option<String> {
    let name = word.get(1..)?;
    let (signs, what): (&[u8], _) = if word.starts_with('!') {
        (
            b"-_;/?:@&=+$.!~*'()%",
            "a tag has letters and digits of ASCII, and the signs of a URL but for commas and brackets",
        )
    } else {
        (b"-_", "an anchor has ASCII letters, digits, `-` and `_`")
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte));
    (!is_name).then(|| format!("not every YAML reader accepts the name `{word}`: {what}"))
}

/// Parts of a text, each with the column from which a tab is an ordinary character.
pub(super) type Parts = Vec<(Range<usize>, usize)>;

/// The first tab before the first character of a line, or between it and a `-`, `?` or `:`, that is in none of these
/// parts.
pub(super) fn tab(text: &str, parts: &Parts) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let indentation =
            line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'?' | b':')).enumerate();
        let mut tabs = indentation.filter(|(_, byte)| *byte == b'\t').map(|(column, _)| column);
        let is_wrong = |column: &usize| {
            let at = start + column;
            let before = parts.partition_point(|(part, _)| part.start <= at);
            let part = before.checked_sub(1).map(|part| &parts[part]);
            !part.is_some_and(|(part, first)| part.contains(&at) && *column >= *first)
        };
        if let Some(column) = tabs.find(is_wrong) {
            return Some(start + column);
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use crate as yaml;

    #[test]
    fn what_readers_read_differently_is_refused_with_its_place() {
        for (text, line, column, part) in [
            ("a: b\u{85}c\n", 1, 5, "U+0085"),
            ("a: 1\n# b\u{2028}c\n", 2, 4, "U+2028"),
            ("a: 'é\u{2029}'\n", 1, 6, "U+2029"),
            ("a: b\rc: d\n", 1, 5, "carriage return"),
            ("a: |\r\n  b\r\n  c\r", 3, 4, "carriage return"),
            ("a: b\u{7f}\n", 1, 5, "U+007F"),
            ("a: \"\u{1}\"\n", 1, 5, "U+0001"),
            ("a: b\n\u{feff}c: d\n", 2, 1, "byte order mark"),
            ("a: [b:, c]\n", 1, 5, "`b`"),
            ("a: {b :, c}\n", 1, 5, "`b`"),
            ("a: [b, :c]\n", 1, 8, "`:c`"),
            ("a: [http://x/?y]\n", 1, 5, "`?`"),
            ("a: {\"b\"\n: c}\n", 1, 5, "one line"),
            ("a: &é b\n", 1, 4, "`&é`"),
            ("a: &b.c 1\nd: 2\n", 1, 4, "`&b.c`"),
            ("a: !b#c d\n", 1, 4, "`!b#c`"),
            ("|\na\n", 2, 1, "one block of text"),
            ("a: b\n---#c\n", 2, 1, "`---`"),
            ("a: 1\n<<: {b: 2, a: 3}\n", 2, 1, "`a`"),
            ("<<: {a: 1}\n<<: {a: 2}\n", 2, 1, "`a`"),
            ("! <<: {a: 1}\n", 1, 1, "tag"),
            ("a: b\n\t\nc: d\n", 2, 1, "tab"),
            ("- \ta\n", 1, 3, "tab"),
            ("a: |\n  \tb\n", 2, 3, "tab"),
            ("null: 1\n", 1, 1, "key"),
            (": 1\n", 1, 1, "key"),
            ("18446744073709551615: 1\n", 1, 1, "key"),
            ("a: \"\\/\"\n", 1, 4, "`\\/`"),
            ("a: !!int b\n", 1, 4, "`!!int`"),
            ("a: !!binary b\n", 1, 4, "Base64"),
        ] {
            let error = yaml::read_value(text).expect_err(text);
            assert_eq!((error.span.line, error.span.column), (line, column), "{text:?} {error}");
            assert!(error.message.contains(part), "{text:?} {error}");
        }
    }

    #[test]
    fn tabs_within_texts_and_brackets_are_read() {
        let text = "a: |\n  b\n  \tc\nd:\t'e\n\tf'\ng: [\n\th,\t--\ti\n\t]\nj: k\tl\t# m\n";
        let wanted = serde_json::json!({"a": "b\n\tc\n", "d": "e f", "g": ["h", "--\ti"], "j": "k\tl"});
        assert_eq!(yaml::read_value(text).unwrap().root, Some(wanted));
        // With an indicator, a block can begin with a tab.
        for (text, wanted) in [
            ("a: |2\n  \tb\n", "\tb\n"),
            ("a: >2-\n\n    b\n  \tc\n", "\n  b\n\tc"),
            ("a: |1\n \n \t\n  b\n", "\n\t\n b\n"),
        ] {
            let root = yaml::read_value(text).unwrap().root;
            assert_eq!(root, Some(serde_json::json!({"a": wanted})), "{text:?}");
        }
        let error = yaml::read_value("a: |2\n  b\n \tc\n").unwrap_err();
        assert_eq!(error.span.line, 3, "{error}");
    }
}
