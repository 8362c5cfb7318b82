//! Rules that contradict each other.

use std::collections::HashMap;

use crate::core::yaml::Node;

use crate::core::policy::definition::{At, OnConflict, Placed, Rule, in_volume, span_in_rule};
use crate::core::policy::overlay::{Element, Written};
use crate::core::policy::parameter::Files;
use crate::core::policy::source::{CONFLICTING_RULES, Diagnostic, Problems};

/// The contradictions of rules, the first of each kind.
pub(super) fn find(node: &Node, rules: &[Rule], files: &Files) -> Problems {
    let mut problems = Problems::default();
    problems.take(same_volumes(node, rules, files));
    for contradict in [edits_and_insists, other_separators, additions_and_replacements] {
        problems.take(contradict(node, rules));
    }
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
                "rule `{}` edits `{name}`, of which rule `{setter}` allows one value only",
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

/// A list in a string has one separator: by another one, an edit takes several entries for one.
fn other_separators(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut known: Vec<(Placed<'_>, &str)> = Vec::new();
    for placed in rules.iter().flat_map(Rule::writes) {
        let (Some(name), Some(separator)) = (placed.write.name(), placed.write.separator()) else { continue };
        let same = |other: &&(Placed<'_>, &str)| {
            (other.0.write.field(), other.0.write.name()) == (placed.write.field(), Some(name))
        };
        match known.iter().find(same) {
            Some((other, before)) if *before != separator => {
                let message = format!(
                    "rule `{}` separates the entries of `{name}` by `{separator}`, and rule `{}` by `{before}`",
                    placed.rule.name, other.rule.name
                );
                let hint = "use the same `$separator` in both";
                return Err(contradiction(node, placed.rule, &placed.path(), message, hint));
            }
            Some(_) => {}
            None => known.push((placed, separator)),
        }
    }
    Ok(())
}

/// A rule that replaces a list would remove what another rule adds to it.
fn additions_and_replacements(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let (mut added, mut replaced) = (Vec::new(), Vec::new());
    for placed in rules.iter().flat_map(Rule::writes) {
        match placed.write.value {
            Written::Replacement(_) => replaced.push(placed),
            Written::Entry(_) | Written::Computed { .. } => added.push(placed),
            _ => {}
        }
    }
    for list in &replaced {
        // Any two containers of a pod can be the same one.
        let meets = |other: &&Placed<'_>| {
            other.is_of_container() == list.is_of_container()
                && list.write.path.starts_with(&other.write.path)
        };
        if let Some(adder) = added.iter().find(meets) {
            let message = format!(
                "rule `{}` replaces `{}`, to which rule `{}` adds",
                list.rule.name,
                list.write.field(),
                adder.rule.name
            );
            let hint = "write all entries into `$replace`";
            return Err(contradiction(node, list.rule, &list.path(), message, hint));
        }
    }
    Ok(())
}
