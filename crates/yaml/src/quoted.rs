//! The value of a quoted text, as kubectl reads it.

/// The position after the closing quote of the text that begins at a position.
pub(super) fn end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.get(at)?;
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            byte if byte != quote => at += 1,
            _ if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 2,
            _ => return Some(at + 1),
        }
    }
}

/// The value of a string with its quotes. An error is the part that is not a valid escape.
pub(super) fn value(text: &str) -> Result<String, &str> {
    let (quote, mut rest) = (&text[..1], &text[1..text.len() - 1]);
    let mut value = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        match c {
            '\'' if quote == "'" => {
                value.push('\'');
                rest = &rest[2..];
            }
            '\\' if quote == "\"" => rest = escape(rest, &mut value)?,
            ' ' | '\t' | '\r' | '\n' => rest = blanks(rest, &mut value),
            _ => {
                value.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Ok(value)
}

/// Writes the white space at the beginning of a text. A single line end becomes a space. Of several, all but the first
/// are kept.
fn blanks<'t>(text: &'t str, value: &mut String) -> &'t str {
    let rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    let blanks = &text[..text.len() - rest.len()];
    match blanks.bytes().filter(|byte| *byte == b'\n').count() {
        0 => value.push_str(blanks),
        1 => value.push(' '),
        ends => value.extend(std::iter::repeat_n('\n', ends - 1)),
    }
    rest
}

/// Writes the escape at the beginning of a text.
pub(super) fn escape<'t>(text: &'t str, value: &mut String) -> Result<&'t str, &'t str> {
    let Some(letter) = text[1..].chars().next() else { return Err(text) };
    let after = &text[1 + letter.len_utf8()..];
    let digits = match letter {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        '\r' | '\n' => {
            // No space for this line end, and none for the white space at the beginning of the next line.
            let next = after.strip_prefix('\n').filter(|_| letter == '\r').unwrap_or(after);
            let rest = next.trim_start_matches([' ', '\t', '\r', '\n']);
            let further = next[..next.len() - rest.len()].bytes().filter(|byte| *byte == b'\n').count();
            value.extend(std::iter::repeat_n('\n', further));
            return Ok(rest);
        }
        _ => {
            let Some(c) = single(letter) else { return Err(&text[..=letter.len_utf8()]) };
            value.push(c);
            return Ok(after);
        }
    };
    let code = after.get(..digits).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let found = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
    let shown = after.char_indices().nth(digits).map_or(text.len(), |(end, _)| 2 + end);
    value.push(found.ok_or(&text[..shown])?);
    Ok(&after[digits..])
}

fn single(letter: char) -> Option<char> {
    Some(match letter {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' | '"' | '\'' | '\\' => letter,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_kubectl() {
        for (text, expected) in [
            ("'it''s'", "it's"),
            ("\"a\\tb\\x41\\u00e9\\U0001F600\\'\\ \"", "a\tbAé😀' "),
            ("\"a \n b\n\n\n  c\"", "a b\n\nc"),
            ("'\n a\n'", " a "),
            ("\"a \\\n  b\\\r\n\r\n c\"", "a b\nc"),
            ("'a\r\nb'", "a b"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, escape) in [("\"a\\/b\"", "\\/"), ("\"\\ud83d \"", "\\ud83d"), ("\"\\x4\"", "\\x4")] {
            assert_eq!(value(text), Err(escape), "{text}");
        }
    }
}
