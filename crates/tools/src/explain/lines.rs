//! The lines of policy files and values files that have a value.

use serde::Serialize;

use crate::helm_values::Values;
use fabric_policy::Definition;
use fabric_yaml::Span;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileLine {
    pub file: String,
    pub line: usize,
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The place of a key of a parameter, such as `default`, or of the parameter itself.
pub(super) fn parameter(definition: &Definition, name: &str, key: Option<&str>) -> Option<FileLine> {
    let parameter = definition.spec.get("parameters")?.entry(name)?;
    let entry = key.map_or(Some(parameter), |key| parameter.value.entry(key));
    entry.map(|entry| in_file(definition, entry.span))
}

/// The place of a setting in a values file: of the parameter, of its `default`, or of an entry of its tables.
pub(super) fn setting(
    definition: &Definition,
    values_file: &Values,
    parameter: &str,
    within: &Within,
) -> Option<FileLine> {
    let (file, entries) = values_file.entries(&definition.provider);
    let setting = entries.iter().find(|entry| entry.key == parameter)?;
    let span = match within {
        Within::Whole => Some(setting.span),
        Within::Default => setting.value.entry("default").map(|entry| entry.span),
        Within::At(span) => Some(*span),
    };
    span.map(|span| FileLine { file: file.to_owned(), line: span.line })
}

/// The lines of the files of a policy count on from one to the next, its own file last.
pub(super) fn in_file(definition: &Definition, span: Span) -> FileLine {
    let (file, line) = definition.line_in_file(span);
    FileLine { file: file.to_owned(), line }
}

/// The part of a setting that gives a value.
pub(super) enum Within {
    Whole,
    Default,
    /// A row of its tables, which is here.
    At(Span),
}
