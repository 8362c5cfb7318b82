//! Errors for misplaced edits.

use crate::source::{Diagnostic, MISPLACED_EDIT, reader};

use super::keys::{KEY, of_strings};
use crate::overlay::source::{Source, SourceContent};

/// An edit of annotations where there is none.
pub(crate) fn of_an_annotation(source: &Source, key: &str) -> Diagnostic {
    let span = source.get(key).map_or(source.span, |edit| edit.span);
    Diagnostic::new(span, format!("`{key}` edits the text of an annotation, but this is not one"))
        .code(MISPLACED_EDIT)
        .hint("write it as the value of a key of `pod.metadata.annotations`")
}

/// Fails for a misplaced edit.
pub(crate) fn refuse_edits(source: &Source) -> Result<(), Diagnostic> {
    refuse_edit(source, "write it as the value of a variable in `env`, or of an annotation")
}

/// The same, with a replacement for an edit of a list in a string.
pub(crate) fn refuse_edit(source: &Source, instead: &str) -> Result<(), Diagnostic> {
    let SourceContent::Map(entries) = &source.content else { return Ok(()) };
    if let Some(entry) = entries.iter().find(|entry| entry.key.source() == "$replace") {
        let error = Diagnostic::new(entry.span, "`$replace` is no key of an overlay").code(MISPLACED_EDIT);
        return Err(reader::renamed("$replace").into_iter().fold(error, Diagnostic::hint));
    }
    let edit = entries.iter().find(|entry| of_strings().any(|key| entry.key.source() == key));
    let Some(edit) = edit else { return Ok(()) };
    if source.get(KEY).is_some() {
        return Err(of_an_annotation(source, KEY));
    }
    let message = format!("`{}` edits a list in a string, but this is not one", edit.key.source());
    Err(Diagnostic::new(edit.span, message).code(MISPLACED_EDIT).hint(instead))
}
