//! The beginnings and ends of the tokens of a YAML text.

use std::ops::Range;

use saphyr_parser::ScalarStyle;

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// The end of a range without the white space at its end.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> usize {
    let Range { start, end } = range;
    start + text[start..end].trim_end_matches(BLANKS).len()
}

/// Returns whether a scalar is after `|` or `>`.
pub(super) fn is_block(style: ScalarStyle) -> bool {
    matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
}

/// The position after the white space and the comments from a position on.
pub(super) fn skip_blank(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_whitespace() => at += 1,
            Some(b'#') if at == 0 || bytes[at - 1].is_ascii_whitespace() => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
            _ => return at,
        }
    }
}

/// The position after the anchor and the tag at a position.
pub(super) fn skip_properties(text: &str, from: usize) -> usize {
    properties(text, from).1
}

/// The anchor and the tag at a position, and the position after them.
pub(super) fn properties(text: &str, from: usize) -> (Vec<&str>, usize) {
    let (mut words, mut at) = (Vec::new(), skip_blank(text, from));
    while text[at..].starts_with(['&', '!']) {
        let length = text[at..].find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len() - at);
        words.push(&text[at..at + length]);
        at = skip_blank(text, at + length);
    }
    (words, at)
}

/// The header of a block scalar, such as `|-`.
pub(super) fn header(text: &str, at: usize) -> Option<&str> {
    let rest = &text[at..];
    if !rest.starts_with(['|', '>']) {
        return None;
    }
    let length =
        rest[1..].find(|c: char| !matches!(c, '+' | '-' | '0'..='9')).map_or(rest.len(), |end| end + 1);
    Some(&rest[..length])
}

/// Returns whether the header of a block scalar has an indentation indicator, from the header or the first line.
pub(super) fn has_indicator(text: &str, at: usize) -> bool {
    let of_header = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    if let Some(header) = header(text, at) {
        return of_header(header);
    }
    let line = text[..trimmed(text, 0..at)].rsplit('\n').next().unwrap_or_default();
    let line = line.find(" #").map_or(line, |comment| &line[..comment]);
    line.rfind(['|', '>']).is_some_and(|start| of_header(&line[start..]))
}

/// The position of the first character of a block scalar after its indentation, from its header or from there.
pub(super) fn block(text: &str, at: usize) -> usize {
    let from = if header(text, at).is_some() {
        text[at..].find('\n').map_or(text.len(), |end| at + end)
    } else {
        at
    };
    text.len() - text[from..].trim_start_matches([' ', '\r', '\n']).len()
}
