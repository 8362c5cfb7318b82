//! Strings of the policy language, with and without expressions.

use super::keys::Schema;

/// A string with an expression in it.
pub(super) const INTERPOLATED: &str = r"\$\{";
/// A string that is one expression.
pub(super) const EXPRESSION: &str = r"^\$\{[\s\S]*\}$";

pub(super) fn text() -> Schema {
    Schema::of(&["string"])
}

pub(super) fn texts() -> Schema {
    Schema::list(text())
}

/// A string that a pattern matches, and its form in words.
pub(super) fn matching(pattern: &str, form: &str) -> Schema {
    text().matching(pattern, form)
}

/// One of these strings.
pub(super) fn one_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Schema {
    text().with("enum", values.into_iter().collect::<Vec<_>>())
}

/// One expression, and white space around it.
pub(super) fn condition() -> Schema {
    matching(r"^\s*\$\{[\s\S]*\}\s*$", "one expression: `${…}`")
}

/// The names of devices: a list, or one expression that yields it. A name has one `*` at most.
pub(super) fn device_names() -> Schema {
    let name = matching("^.+$", "a name, in which a `*` matches any text");
    Schema::any_of([Schema::list(name), condition()])
}
