//! Rules that contradict each other.

use std::collections::HashMap;

use crate::definition::{OnConflict, Rule};
use crate::overlay::{Tree, Write};
use crate::source::{CONFLICTING_RULES, Diagnostic, Problems};

/// The contradictions of rules, the first of each kind.
pub(super) fn find(rules: &[Rule]) -> Problems {
    let mut problems = Problems::default();
    problems.take(same_volumes(rules));
    problems.take(edits_and_insists(rules));
    problems
}

/// Two rules of a file can declare a volume of one name if it is the same volume. That of an extension replaces that of
/// its base.
fn same_volumes(rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut known: HashMap<(&str, usize), &Tree> = HashMap::new();
    for rule in rules {
        for write in rule.writes().filter(Write::is_volume) {
            let Some(name) = write.name() else { continue };
            if *known.entry((name, rule.rank)).or_insert(write.value) != write.value {
                let message = format!("two rules have different volumes `{name}`");
                return Err(Diagnostic::error(CONFLICTING_RULES, write.span(), message)
                    .hint("give one of them another name"));
            }
        }
    }
    Ok(())
}

/// A rule that replaces other values of a variable or annotation, and another rule that edits it, undo each
/// other.
fn edits_and_insists(rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut edited = Vec::new();
    let mut set: HashMap<&str, Vec<&Rule>> = HashMap::new();
    for rule in rules {
        for write in rule.writes().filter(Write::is_of_strings) {
            let Some(name) = write.name() else { continue };
            if write.is_edit() {
                edited.push((name, rule, write.span()));
            } else if rule.on_conflict != OnConflict::Keep {
                set.entry(name).or_default().push(rule);
            }
        }
    }
    for (name, rule, span) in &edited {
        let mut setters = set.get(name).into_iter().flatten();
        if let Some(Rule { name: setter, .. }) = setters.find(|setter| setter.rank <= rule.rank) {
            let message = format!(
                "rule `{}` edits `{name}`, for which rule `{setter}` allows only one value",
                rule.name
            );
            let hint = "set the whole value in one rule";
            return Err(Diagnostic::error(CONFLICTING_RULES, *span, message).hint(hint));
        }
    }
    Ok(())
}
