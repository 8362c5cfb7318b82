//! Values that the library of a variable does not know, or reads as others.

use fabric_yaml::{Entry, Node, Span};
use serde_json::Value;

use crate::known_names::NAMES;
use crate::source::{Diagnostic, ODD_TEXT, UNKNOWN_ENUM_VALUE, suggest};

/// The warning for the value of a variable that a rule sets.
pub(super) fn finding(entry: &Entry<Node>) -> Option<Diagnostic> {
    let own = match entry.value.to_value() {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    // Expressions and references have other values.
    if own.is_empty() || own.contains('$') {
        return None;
    }
    wrong_value(&entry.key, &own, entry.value.span)
}

/// The warning at a place for the value of a variable that its library does not know, or reads as another.
pub fn wrong_value(key: &str, own: &str, span: Span) -> Option<Diagnostic> {
    // In a list of words, a `;` begins the part of another function.
    let is_odd = |c| matches!(c, ' ' | '|') || c == ';' && NAMES.words(key).is_none();
    let is_list = NAMES.lists.contains(key) && own.trim().contains(is_odd);
    let list = is_list.then(|| {
        let message = format!("`{key}` is a list, whose items have commas between them and no blanks");
        (ODD_TEXT, message, "write it as `one,two`".to_owned())
    });
    let (code, message, hint) = list.or_else(|| unknown_word(key, own)).or_else(|| no_number(key, own))?;
    Some(Diagnostic::warning(code, span, message).hint(hint))
}

/// A code, a message and a hint.
type Wrong = (&'static str, String, String);

/// A word that is none of the few that the library knows.
fn unknown_word(key: &str, own: &str) -> Option<Wrong> {
    let values = NAMES.words(key)?;
    // `^` excludes some, and a part with a `:` is for one function alone.
    let mut parts = own.trim_start_matches('^').split(',').map(str::trim);
    let part = parts.find(|part| {
        !part.is_empty()
            && !part.contains([':', ';', '^'])
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && !values.iter().any(|known| known.eq_ignore_ascii_case(part))
    })?;
    let message = format!("`{key}` has no value `{part}`");
    Some((UNKNOWN_ENUM_VALUE, message, suggest(part, values.iter().map(String::as_str))))
}

/// What NCCL or libfabric reads as another whole number, or what is none of those that they have.
fn no_number(key: &str, own: &str) -> Option<Wrong> {
    let is_number = || NAMES.variables.iter().any(|known| known == key);
    let library =
        [("NCCL_", "NCCL"), ("FI_", "libfabric")].into_iter().find(|(start, _)| key.starts_with(start))?.1;
    if NAMES.texts.contains(key) || NAMES.words(key).is_some() || !is_number() {
        return None;
    }
    let own = own.trim();
    // The name of a value is told as such.
    if own.starts_with(|c: char| c.is_ascii_alphabetic()) && own.contains('.') {
        return None;
    }
    let (number, is_whole) = read_by_strtoll(own);
    if !is_whole {
        let message = format!("`{key}` is a whole number: {library} reads `{own}` as `{number}`");
        let is_true = ["true", "yes", "on"].contains(&own.to_lowercase().as_str());
        let hint = if is_true { "write `1` for on, and `0` for off" } else { "write a whole number" };
        return Some((UNKNOWN_ENUM_VALUE, message, hint.to_owned()));
    }
    let [least, greatest] = *NAMES.ranges.get(key)?;
    let message = format!("`{key}` is `{own}`, and its values are `{least}` to `{greatest}`");
    let hint = format!("write a whole number from `{least}` to `{greatest}`");
    (!(least..=greatest).contains(&number)).then_some((UNKNOWN_ENUM_VALUE, message, hint))
}

/// The number that a text begins with, else 0, and whether the text has nothing else. One that begins with a 0 is octal,
/// which nobody writes on purpose.
fn read_by_strtoll(text: &str) -> (i64, bool) {
    let digits = text.trim_start_matches(['-', '+']);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = hexadecimal.map_or((10, digits), |digits| (16, digits));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = i64::from_str_radix(&digits[..end], radix).unwrap_or_default();
    (if text.starts_with('-') { -number } else { number }, end > 0 && end == digits.len())
}
