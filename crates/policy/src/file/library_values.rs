//! Values that the library of a variable does not know, or reads as others.

use fabric_yaml::{Entry, Node};
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
    let key = &entry.key;
    let (code, message, hint) = unknown_word(key, &own).or_else(|| no_number(key, &own)).or_else(|| {
        let is_list = NAMES.lists.contains(key) && own.trim().contains([';', ' ']);
        let items: Vec<&str> = own.split([';', ' ', ',']).filter(|item| !item.is_empty()).collect();
        is_list.then(|| {
            let message = format!("`{key}` is a list with commas, without blanks");
            (ODD_TEXT, message, format!("write `{}`", items.join(",")))
        })
    })?;
    Some(Diagnostic::warning(code, entry.value.span, message).hint(hint))
}

/// A code, a message and a hint.
type Wrong = (&'static str, String, String);

/// A word that is none of the few that the library knows.
fn unknown_word(key: &str, own: &str) -> Option<Wrong> {
    let values = NAMES.values.get(key)?;
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

/// What NCCL reads as another whole number, or what is none of those that it has.
fn no_number(key: &str, own: &str) -> Option<Wrong> {
    let is_number = NAMES.variables.iter().any(|known| known == key) && !NAMES.texts.contains(key);
    if !key.starts_with("NCCL_") || NAMES.values.contains_key(key) || !is_number {
        return None;
    }
    let own = own.trim();
    // The name of a value is told as such.
    if own.starts_with(|c: char| c.is_ascii_alphabetic()) && own.contains('.') {
        return None;
    }
    let hexadecimal = own.strip_prefix("0x").map(|digits| i64::from_str_radix(digits, 16));
    let Ok(number) = hexadecimal.unwrap_or_else(|| own.parse()) else {
        let end = own.find(|c: char| !c.is_ascii_digit()).unwrap_or(own.len());
        let read = own[..end].parse::<i64>().unwrap_or_default();
        let message = format!("`{key}` is a whole number: NCCL reads `{own}` as `{read}`");
        let is_true = ["true", "yes", "on"].contains(&own.to_lowercase().as_str());
        let hint = if is_true { "write `1` for on, and `0` for off" } else { "write a whole number" };
        return Some((UNKNOWN_ENUM_VALUE, message, hint.to_owned()));
    };
    let [least, greatest] = *NAMES.ranges.get(key)?;
    let message = format!("`{key}` has no value `{own}`");
    let hint = format!("write a whole number from `{least}` to `{greatest}`");
    (!(least..=greatest).contains(&number)).then_some((UNKNOWN_ENUM_VALUE, message, hint))
}
