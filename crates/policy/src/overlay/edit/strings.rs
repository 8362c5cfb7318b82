//! Edits: maps with keys such as `$append`, in place of a value.

use crate::interpolation::Interpolation;
use crate::keys::{ENTRIES_EDIT, NETWORKS_EDIT};
use crate::overlay::{ListEdit, NETWORKS, StringValue};
use crate::schema::{Format, Shape};
use crate::source::{Checked, Diagnostic, MISPLACED_EDIT, reader, suggest};

use super::entries::EntriesEdit;
use super::keys::{KEY, of_strings};
use super::misplaced::of_an_annotation;
use super::networks::NetworksEdit;
use crate::overlay::source::{Source, SourceContent, SourceEntry};
use crate::overlay::values::{mismatch, text, value};

const FORMS: &str =
    "an edit of a variable is `$prepend` or `$append`, that of an annotation `$append` with `$key`";

/// Compiles the value of an annotation, or an edit of it.
pub(crate) fn annotation(entry: &SourceEntry, shape: &Shape) -> Checked<StringValue> {
    let source = &entry.value;
    if !matches!(source.content, SourceContent::Map(_)) {
        return value(source, shape).map(StringValue::Text);
    }
    let (_, value) = side(source)?;
    if entry.key.source() == NETWORKS && source.get(KEY).is_none() {
        only(source, NETWORKS_EDIT.names())?;
        return NetworksEdit::read(value).map(StringValue::Networks);
    }
    if source.get(KEY).is_none() && !matches!(entry.key, Interpolation::Literal(_)) {
        let message = "an edit of networks is for a key that is written out";
        return Err(Diagnostic::new(entry.span, message)
            .code(MISPLACED_EDIT)
            .hint(format!("write `{NETWORKS}`, or `$key` for a list of maps"))
            .into());
    }
    only(source, ENTRIES_EDIT.names())?;
    EntriesEdit::read(source, value).map(StringValue::Entries)
}

/// Compiles an edit of the list that a variable holds.
pub(crate) fn of_variable(source: &Source) -> Checked<ListEdit> {
    let (side, entry) = side(source)?;
    if source.get(KEY).is_some() {
        return Err(of_an_annotation(source, KEY).into());
    }
    let span = entry.span;
    let entry = text(entry)?;
    if matches!(&entry, Interpolation::Literal(text) if text.is_empty()) {
        return Err(Diagnostic::new(span, format!("`{side}` adds an empty entry"))
            .hint("write the entry, or leave the edit out")
            .into());
    }
    Ok(ListEdit { entry, prepend: side == "$prepend" })
}

/// The side on which an edit adds, and the entry that it adds.
fn side(source: &Source) -> Checked<(&'static str, &Source)> {
    source.readable()?;
    let SourceContent::Map(entries) = &source.content else {
        return Err(mismatch(source, &Shape::Text(Format::Any)).into());
    };
    for entry in entries {
        let key = entry.key.source();
        if of_strings().all(|known| known != key) {
            let message = format!("expected a string or an edit of one, but `{key}` is not an edit");
            return Err(Diagnostic::new(entry.span, message)
                .code(MISPLACED_EDIT)
                .hint(reader::renamed(&key).map_or_else(|| suggest(&key, of_strings()), str::to_owned))
                .into());
        }
    }
    match (source.get("$prepend"), source.get("$append")) {
        (Some(_), Some(append)) => {
            Err(Diagnostic::new(append.span, "one edit adds one entry, in front or at the end")
                .code(MISPLACED_EDIT)
                .hint("write two rules for two entries")
                .into())
        }
        (Some(value), None) => Ok(("$prepend", value)),
        (None, Some(value)) => Ok(("$append", value)),
        (None, None) => Err(Diagnostic::new(source.span, "this edit adds nothing").hint(FORMS).into()),
    }
}

/// Fails for an edit with a key other than these.
fn only(source: &Source, keys: impl IntoIterator<Item = &'static str>) -> Result<(), Diagnostic> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let other = of_strings().filter(|key| !keys.contains(key)).find_map(|key| Some((key, source.get(key)?)));
    other.map_or(Ok(()), |(key, value)| {
        let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let message = format!("`{key}` does not go with {}", known.join(" and "));
        Err(Diagnostic::new(value.span, message).code(MISPLACED_EDIT).hint(FORMS))
    })
}
