//! Errors for edits in places that take none.

use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::source::{Diagnostic, MISPLACED_EDIT, reader};

use super::keys::{KEY, of_strings};
use crate::core::policy::overlay::source::{Source, SourceContent};

/// An edit of annotations where there is none.
pub(in crate::core::policy::overlay) fn of_an_annotation(source: &Source, key: &str) -> Diagnostic {
    let span = source.get(key).map_or(source.span, |edit| edit.span);
    Diagnostic::new(span, format!("`{key}` edits the text of an annotation, and this is none"))
        .code(MISPLACED_EDIT)
        .hint("write it as the value of a key of `pod.metadata.annotations`")
}

/// Fails for an edit in a place that takes none.
pub(in crate::core::policy::overlay) fn refuse_edits(source: &Source) -> Result<(), Diagnostic> {
    let SourceContent::Map(entries) = &source.content else { return Ok(()) };
    let named = |key: &&str| {
        entries.iter().any(|entry| matches!(&entry.key, Interpolation::Literal(name) if name == key))
    };
    if let Some(entry) = entries.iter().find(|entry| entry.key.source() == "$replace") {
        let error = Diagnostic::new(entry.span, "`$replace` is no key of an overlay").code(MISPLACED_EDIT);
        return Err(reader::renamed("$replace").into_iter().fold(error, Diagnostic::hint));
    }
    let Some(key) = of_strings().find(named) else { return Ok(()) };
    if source.get(KEY).is_some() {
        return Err(of_an_annotation(source, KEY));
    }
    let span = source.get(key).map_or(source.span, |edit| edit.span);
    Err(Diagnostic::new(span, format!("`{key}` edits a list in a string, and this is none"))
        .code(MISPLACED_EDIT)
        .hint("write it as the value of a variable in `env`, or of an annotation"))
}
