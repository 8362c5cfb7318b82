//! The parts of a condition: the operands of `&&` and `||`, of `!`, and of `a ? b : c`.

/// A condition, taken apart at its outermost operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Split<'s> {
    All(Vec<&'s str>),
    Any(Vec<&'s str>),
    Not(&'s str),
    Choice {
        condition: &'s str,
        then: &'s str,
        otherwise: &'s str,
    },
    /// An expression without such an operator.
    Leaf,
}

/// Takes a condition apart. Text that cannot be taken apart is a [`Split::Leaf`].
pub(super) fn split(condition: &str) -> Split<'_> {
    let condition = bare(condition);
    let tokens = top_level(condition);
    if let Some(choice) = choice(condition, &tokens) {
        return choice;
    }
    for (operator, make) in [("||", Split::Any as fn(_) -> _), ("&&", Split::All as fn(_) -> _)] {
        let parts = parts(condition, &tokens, operator);
        if parts.len() > 1 {
            return make(parts);
        }
    }
    match condition.strip_prefix('!') {
        Some(rest) if !rest.starts_with('=') && !tokens.iter().any(|(_, token)| *token == "other") => {
            Split::Not(bare(rest))
        }
        _ => Split::Leaf,
    }
}

/// The text without blanks and parentheses around it.
pub(super) fn bare(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        if !is_closed(inner) {
            break;
        }
        text = inner.trim();
    }
    text
}

/// Returns whether each parenthesis in the text is closed in it.
fn is_closed(text: &str) -> bool {
    let mut depth = 0_i32;
    let mut closed = true;
    scan(text, &mut |_, byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        closed &= depth >= 0;
    });
    closed && depth == 0
}

fn choice<'s>(text: &'s str, tokens: &[(usize, &str)]) -> Option<Split<'s>> {
    let (question, _) = *tokens.iter().find(|(_, token)| *token == "?")?;
    let mut depth = 0;
    for (at, token) in tokens.iter().filter(|(at, _)| *at > question) {
        match *token {
            "?" => depth += 1,
            ":" if depth > 0 => depth -= 1,
            ":" => {
                return Some(Split::Choice {
                    condition: bare(&text[..question]),
                    then: bare(&text[question + 1..*at]),
                    otherwise: bare(&text[at + 1..]),
                });
            }
            _ => {}
        }
    }
    None
}

fn parts<'s>(text: &'s str, tokens: &[(usize, &str)], operator: &str) -> Vec<&'s str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in tokens.iter().filter(|(_, token)| *token == operator) {
        parts.push(bare(&text[start..*at]));
        start = at + operator.len();
    }
    parts.push(bare(&text[start..]));
    parts
}

/// The operators outside of parentheses and strings. Comparisons and arithmetic are `other`.
fn top_level(text: &str) -> Vec<(usize, &'static str)> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut depth = 0_i32;
    scan(text, &mut |at, byte| {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let before = at.checked_sub(1).map_or(0, |before| bytes[before]);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let token = match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                return;
            }
            b')' | b']' | b'}' => {
                depth -= 1;
                return;
            }
            b'&' if next == b'&' => "&&",
            b'|' if next == b'|' => "||",
            b'?' if before != b'.' => "?",
            b':' => ":",
            b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'%' => "other",
            b'i' if next == b'n'
                && !is_word(before)
                && !is_word(bytes.get(at + 2).copied().unwrap_or_default()) =>
            {
                "other"
            }
            _ => return,
        };
        if depth == 0 {
            tokens.push((at, token));
        }
    });
    tokens
}

/// Calls `visit` with each byte outside of strings.
fn scan(text: &str, visit: &mut dyn FnMut(usize, u8)) {
    let mut quote = None;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'\'' || byte == b'"' => quote = Some(byte),
            None => visit(at, byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart_at_the_operator_that_binds_least() {
        assert_eq!(split("a && (b || c) && !d"), Split::All(vec!["a", "b || c", "!d"]));
        assert_eq!(split("(a && b || c == '&&')"), Split::Any(vec!["a && b", "c == '&&'"]));
        assert_eq!(split("!(a || b)"), Split::Not("a || b"));
        assert_eq!(
            split("x ? y ? 1 : 2 : z"),
            Split::Choice { condition: "x", then: "y ? 1 : 2", otherwise: "z" }
        );
    }

    #[test]
    fn everything_else_is_whole() {
        for text in [
            "a != b",
            "!a == b",
            "!a in b",
            "node[?'x'].orValue('') == 'a || b'",
            "c.?env.orValue([]).exists(e, e.x && e.y)",
            "(a) == (b)",
            "",
        ] {
            assert_eq!(split(text), Split::Leaf, "{text}");
        }
        assert_eq!(split("!pod.?a.orValue(false)"), Split::Not("pod.?a.orValue(false)"));
    }
}
