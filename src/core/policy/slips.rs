//! Slips in YAML that the parser reports by their consequences.

use crate::core::yaml;

use super::diagnostic::{Diagnostic, YAML_SYNTAX};

/// The error with a hint for its most likely cause, which the line shows.
pub(super) fn explained(error: yaml::Error, text: &str) -> Diagnostic {
    let lines: Vec<&str> = text.lines().take(error.span.line).collect();
    // The parser notices some slips on the next line.
    let hint = lines.iter().rev().filter(|line| !line.trim().is_empty()).take(2).find_map(|line| hint(line));
    let diagnostic = Diagnostic::from(error).code(YAML_SYNTAX);
    match hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

fn hint(line: &str) -> Option<&'static str> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let (_, value) = line.split_once(": ").or_else(|| line.split_once("- ")).unwrap_or(("", line));
    if indent.contains('\t') {
        Some("indent with spaces: YAML allows no tabs there")
    } else if line.contains("{{") {
        Some("an expression is written as `${…}`, not as `{{ … }}`")
    } else if value.contains("${") && !value.trim_start().starts_with(['"', '\'']) {
        Some("put a value with an expression in quotes, or on the line below `>-`")
    } else if line.contains('\t') {
        Some("separate with spaces instead of tabs")
    } else {
        None
    }
}
