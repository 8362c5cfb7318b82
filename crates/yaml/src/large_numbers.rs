//! Numbers that do not fit in 64 bits. Writing them again would change them.

use serde_json::Value;

use super::edit::missing;
use super::error::Error;
use super::layout::{Kind, Layout};
use super::read::span_at;
use super::scalar::Scalar;

/// The first number of a document that would change if it was written again.
pub fn inexact_number(text: &str, json: bool) -> Option<Error> {
    let (at, number) = inexact(text, json).into_iter().next()?;
    Some(error(text, at, number))
}

/// The first such number that an edit of the document has changed.
pub fn changed_number(text: &str, edited: &str, json: bool) -> Option<Error> {
    let (at, number) = missing(inexact(text, json), inexact(edited, json)).into_iter().next()?;
    Some(error(text, at, number))
}

fn error(text: &str, at: usize, number: &str) -> Error {
    let message =
        format!("the number `{number}` does not fit in 64 bits, and writing it again would change it");
    Error::new(message, span_at(text, at))
}

/// Returns true if a value has a number that is not a 64-bit integer. All others can be written again.
pub fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

/// The numbers of a text that change when they are read, with their positions.
fn inexact(text: &str, json: bool) -> Vec<(usize, &str)> {
    let Some(layout) = Layout::read(text, json) else { return Vec::new() };
    let mut found = Vec::new();
    for node in &layout.nodes {
        let Kind::Scalar { value: Scalar::Number(number), .. } = &node.kind else { continue };
        let written = text[node.content..node.range.end].trim_end();
        if number.is_f64() && decimal(written) != decimal(&number.to_string()) {
            found.push((node.content, written));
        }
    }
    found
}

/// The digits of a decimal number without zeros around them, and its exponent.
fn decimal(text: &str) -> (String, i64) {
    let text = text.trim_start_matches(['+', '-']).replace('_', "");
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(i64::MAX)),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).unwrap_or(0);
    let places = i64::try_from(fraction.len()).unwrap_or(0);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return (String::new(), 0);
    }
    (significant.to_owned(), exponent.saturating_sub(places).saturating_add(zeros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_exact_if_it_is_the_one_that_is_written() {
        for text in [
            "0.1",
            "-2.50",
            "1e3",
            "1.5E+10",
            "0.0",
            "-0.0",
            "1e21",
            "08",
            "1_0.5",
            "5.",
            ".5",
            "1E-7",
            "10e-8",
            "0.00012e-3",
        ] {
            assert_eq!(inexact_number(&format!("a: {text}\n"), false), None, "{text}");
        }
        for text in ["123456789012345678901", "-18446744073709551616.5", "0.1000000000000000055", "1e-400"] {
            let error = inexact_number(&format!("b: 1\na: {text}\n"), false).unwrap();
            assert_eq!((error.span.line, error.span.column), (2, 4), "{text}");
            assert!(inexact_number(&format!("{{\"a\": {text}}}"), true).is_some(), "{text}");
        }
    }
}
