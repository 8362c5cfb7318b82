//! Rules that contradict each other.

use std::collections::HashMap;

use fabric_yaml::Node;

use crate::definition::{At, OnConflict, Rule, in_volume, span_in_rule};
use crate::overlay::Element;
use crate::parameter::Files;
use crate::source::{CONFLICTING_RULES, Diagnostic, Problems};

/// The contradictions of rules, the first of each kind.
pub(super) fn find(node: &Node, rules: &[Rule], files: &Files) -> Problems {
    let mut problems = Problems::default();
    problems.take(same_volumes(node, rules, files));
    problems.take(edits_and_insists(node, rules));
    problems
}

/// Two rules of a file can declare a volume of one name if it is the same volume. That of an extension replaces that of
/// its base.
fn same_volumes(node: &Node, rules: &[Rule], files: &Files) -> Result<(), Diagnostic> {
    let mut known: HashMap<(&str, usize), &Element> = HashMap::new();
    for (rule, volume) in rules.iter().flat_map(|rule| rule.pod.volumes.iter().map(move |one| (rule, one))) {
        let Some(name) = volume.0.literal("name") else { continue };
        let first = known.entry((name, files.rank(rule.span))).or_insert(volume);
        if *first != volume {
            let message = format!("two rules have different volumes `{name}`");
            let path = in_volume(name, &[]);
            return Err(contradiction(node, rule, &path, message, "give one of them another name"));
        }
    }
    Ok(())
}

/// An error at a value of a rule.
fn contradiction(rules: &Node, rule: &Rule, path: &[At], message: String, hint: &str) -> Diagnostic {
    Diagnostic::new(span_in_rule(rules, rule, path), message).code(CONFLICTING_RULES).hint(hint)
}

/// A rule that replaces or refuses other values of a variable or annotation, and another rule that edits it, undo each
/// other.
fn edits_and_insists(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let (mut edited, mut set) = (Vec::new(), Vec::new());
    for rule in rules {
        for placed in rule.writes().filter(|placed| placed.write.is_of_strings()) {
            let Some(name) = placed.write.name() else { continue };
            if placed.write.is_edit() {
                edited.push((name, placed));
            } else if rule.on_conflict != OnConflict::Keep {
                set.push((name, &rule.name));
            }
        }
    }
    for (name, placed) in &edited {
        let gives_way = |setter: &str| placed.rule.gives_way_to(setter);
        if let Some((_, setter)) = set.iter().find(|(other, setter)| other == name && !gives_way(setter)) {
            let rule = placed.rule;
            let message = format!(
                "rule `{}` edits `{name}`, for which rule `{setter}` allows only one value",
                rule.name
            );
            return Err(contradiction(
                node,
                rule,
                &placed.path(),
                message,
                "set the whole value in one rule",
            ));
        }
    }
    Ok(())
}
