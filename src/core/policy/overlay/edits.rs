//! Edits of the lists that strings hold.

use crate::core::policy::diagnostic::{Diagnostic, suggest};
use crate::core::policy::interpolation::Interpolation;
use crate::core::schema::{Format, Shape};

use super::source::{Source, SourceContent};
use super::values::{expected, mismatch, value};
use super::{ListEdit, NetworksEdit, StringValue};

/// Compiles a string, or an edit of one.
pub(super) fn string_value(source: &Source, shape: &Shape) -> Result<StringValue, Diagnostic> {
    match &source.content {
        SourceContent::Map(_) => edit_of(source),
        _ => value(source, shape).map(StringValue::Text),
    }
}

/// An edit of the list that a string holds.
pub(super) fn edit_of(source: &Source) -> Result<StringValue, Diagnostic> {
    const KEYS: [&str; 5] = ["$prepend", "$append", "$separator", "$networks", "$count"];
    let SourceContent::Map(entries) = &source.content else {
        return Err(mismatch(source, &Shape::Text(Format::Any)));
    };
    let text = |key: &str| source.get(key).map(edit_text).transpose();
    for entry in entries {
        let key = entry.key.source();
        if !KEYS.contains(&key.as_str()) {
            let message = format!("expected a string or an edit of one, and `{key}` is no edit");
            return Err(Diagnostic::new(entry.span, message).hint(suggest(&key, KEYS)));
        }
    }
    let (prepend, append, networks, count) =
        (text("$prepend")?, text("$append")?, text("$networks")?, text("$count")?);
    let separator = match text("$separator")? {
        None => ":".to_owned(),
        Some(Interpolation::Literal(text)) if !text.is_empty() => text,
        Some(_) => {
            let span = source.get("$separator").map_or(source.span, |source| source.span);
            return Err(Diagnostic::new(span, "a separator is a string without expressions, and not empty"));
        }
    };
    match (prepend, append, networks, count) {
        (Some(_), Some(_), ..) => {
            let span = source.get("$append").map_or(source.span, |source| source.span);
            Err(Diagnostic::new(span, "one edit adds one entry, in front or at the end")
                .hint("write two rules for two entries"))
        }
        (Some(entry), None, None, None) => {
            Ok(StringValue::List(ListEdit { entry, separator, prepend: true }))
        }
        (None, Some(entry), None, None) => {
            Ok(StringValue::List(ListEdit { entry, separator, prepend: false }))
        }
        (None, None, Some(network), Some(count)) if source.get("$separator").is_none() => {
            Ok(StringValue::Networks(NetworksEdit { network, count }))
        }
        _ => {
            let message = "an edit is either `$prepend`, `$append`, or `$networks` with `$count`";
            Err(Diagnostic::new(source.span, message))
        }
    }
}

fn edit_text(source: &Source) -> Result<Interpolation, Diagnostic> {
    match &source.content {
        SourceContent::Text(text) => Ok(text.clone()),
        _ => Err(expected(source, "a string").hint("put it in quotes")),
    }
}
