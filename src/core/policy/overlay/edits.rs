//! Edits: maps with keys such as `$append`, in place of a value.

use crate::core::policy::diagnostic::{Diagnostic, MISPLACED_EDIT};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::problems::Checked;
use crate::core::policy::suggestion::suggest;
use crate::core::schema::{Format, Shape};

use super::edit_keys::KEYS;
use super::entries::EntriesEdit;
use super::networks::NetworksEdit;
use super::source::{Source, SourceContent};
use super::values::{mismatch, text, value};
use super::{ListEdit, StringValue};

const ONE_OF: &str =
    "an edit is `$prepend` or `$append`, `$networks` with or without `$count`, or `$entries` with `$key`";

/// Compiles a string, or an edit of one.
pub(super) fn string_value(source: &Source, shape: &Shape) -> Checked<StringValue> {
    match &source.content {
        SourceContent::Map(_) => edit_of(source),
        _ => value(source, shape).map(StringValue::Text),
    }
}

/// An edit of the list that a string holds.
pub(super) fn edit_of(source: &Source) -> Checked<StringValue> {
    source.readable()?;
    let SourceContent::Map(entries) = &source.content else {
        return Err(mismatch(source, &Shape::Text(Format::Any)).into());
    };
    for entry in entries {
        let key = entry.key.source();
        if !KEYS.contains(&key.as_str()) {
            let message = format!("expected a string or an edit of one, and `{key}` is no edit");
            return Err(Diagnostic::new(entry.span, message)
                .code(MISPLACED_EDIT)
                .hint(suggest(&key, KEYS))
                .into());
        }
    }
    let kind = KEYS.into_iter().find(|key| source.get(key).is_some()).unwrap_or_default();
    let companions: &[&str] = match kind {
        "$prepend" | "$append" => &["$separator"],
        "$networks" => &["$count"],
        "$entries" => &["$key"],
        _ => &[],
    };
    let fits = |key: &str| key == kind || companions.contains(&key);
    let other = entries.iter().find(|entry| !fits(&entry.key.source()));
    if source.get("$prepend").is_some()
        && let Some(append) = source.get("$append")
    {
        return Err(Diagnostic::new(append.span, "one edit adds one entry, in front or at the end")
            .code(MISPLACED_EDIT)
            .hint("write two rules for two entries")
            .into());
    }
    if let Some(other) = other {
        let message = format!("`{}` does not go with `{kind}`", other.key.source());
        return Err(Diagnostic::new(other.span, message).code(MISPLACED_EDIT).hint(ONE_OF).into());
    }
    match kind {
        "$prepend" | "$append" => list_edit(source, kind).map(StringValue::List),
        "$networks" => NetworksEdit::read(source).map(StringValue::Networks),
        "$entries" => EntriesEdit::read(source).map(StringValue::Entries),
        _ => Err(Diagnostic::new(source.span, "this edit changes nothing").hint(ONE_OF).into()),
    }
}

fn list_edit(source: &Source, kind: &str) -> Checked<ListEdit> {
    let entry = text(source.get(kind).unwrap_or(source))?;
    let separator = match source.get("$separator").map(text).transpose()? {
        None => ":".to_owned(),
        Some(Interpolation::Literal(text)) if !text.is_empty() => text,
        Some(_) => {
            let span = source.get("$separator").map_or(source.span, |source| source.span);
            let message = "a separator is a string without expressions, and not empty";
            return Err(Diagnostic::new(span, message).into());
        }
    };
    Ok(ListEdit { entry, separator, prepend: kind == "$prepend" })
}
