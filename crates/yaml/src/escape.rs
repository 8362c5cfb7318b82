//! Control characters of values in text that people read.
//!
//! A name or a value of a manifest, a cluster or a policy may hold escape sequences of a terminal, and line ends that
//! forge lines of a report. Both are shown as JSON writes them, so a line of JSON keeps its value.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text as one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_special)
}

/// A text whose line ends are the program's own.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_special(c) && c != '\n')
}

/// Control characters other than the tab, separators of lines, and marks that change the direction of the text.
fn is_special(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_special: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_special) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_special(c) => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if is_special(c) => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TEXT: &str = "a\tü\u{1b}[31m\r\n\u{9b}\u{7f}\u{2028}\u{202e}\0";

    #[test]
    fn control_characters_are_visible() {
        assert_eq!(line(TEXT), r"a	ü\u001b[31m\r\n\u009b\u007f\u2028\u202e\u0000");
        assert_eq!(lines(TEXT), "a\tü\\u001b[31m\\r\n\\u009b\\u007f\\u2028\\u202e\\u0000");
        assert!(matches!(line("train\tü"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_value() {
        let json = json!({ TEXT: TEXT });
        assert_eq!(serde_json::from_str::<Value>(&line(&json.to_string())).unwrap(), json);
        assert_eq!(serde_json::from_str::<Value>(&lines(&format!("{json:#}"))).unwrap(), json);
    }
}
