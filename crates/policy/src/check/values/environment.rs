//! References to variables in values of variables that the kubelet does not resolve.

use crate::definition::{Definition, Rule};
use crate::overlay::{Addition, Section, Write};
use crate::source::{Diagnostic, LONGEST, UNRESOLVED_REFERENCE};
use fabric_yaml::Span;

/// A variable that a rule sets in the containers that it selects.
struct Set<'d> {
    rule: &'d Rule,
    name: &'d str,
    value: Option<String>,
    span: Span,
}

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let Some(all) = definition.rules.iter().map(variables).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let all: Vec<Set<'_>> = all.into_iter().flatten().collect();
    let mut found = Vec::new();
    for (at, set) in all.iter().enumerate() {
        let Some(value) = &set.value else { continue };
        let problem = own(set.name, value).or_else(|| {
            let later = references(value).find(|name| {
                let mut later = all[at + 1..].iter().filter(|other| other.name == *name);
                let is_set_before = all[..at].iter().any(|other| other.name == *name);
                !is_set_before && later.any(|other| is_as_wide(other.rule, set.rule))
            })?;
            let message = format!(
                "`{}` refers to `$({later})`, which the policy sets later: the kubelet resolves the variables before it",
                set.name
            );
            Some((message, format!("set `{later}` first")))
        });
        let Some((message, hint)) = problem else { continue };
        found.push(Diagnostic::warning(UNRESOLVED_REFERENCE, set.span, message).hint(hint));
    }
    found
}

/// Returns whether a rule applies wherever another one does: it has the same conditions, or less of them.
fn is_as_wide(rule: &Rule, other: &Rule) -> bool {
    (rule.when.is_none() || rule.when == other.when) && rule.containers == other.containers
}

/// The problem of a value that refers to its own variable.
fn own(name: &str, value: &str) -> Option<(String, String)> {
    let shell = value.match_indices('$').find_map(|(at, _)| {
        let rest = value[at + 1..].strip_prefix(name)?;
        let is_escaped = value[..at].ends_with('$');
        let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (ends && !is_escaped).then(|| format!("${name}"))
    });
    let written =
        shell.or_else(|| references(value).any(|other| other == name).then(|| format!("$({name})")))?;
    let message =
        format!("`{written}` does not become the value that the container has: it stays as it is written");
    Some((message, format!("write `ENTRY:$({name})` or `$({name}):ENTRY`, with one entry")))
}

/// The names in `$(NAME)`; `$$(NAME)` is not a reference.
fn references(value: &str) -> impl Iterator<Item = &str> {
    value.match_indices("$(").filter_map(|(at, _)| {
        let dollars = value[..at].bytes().rev().take_while(|byte| *byte == b'$').count();
        let end = value[at..].bytes().take(LONGEST).position(|byte| byte == b')')?;
        dollars.is_multiple_of(2).then(|| &value[at + 2..at + end])
    })
}

/// The variables of a rule, in order; `None` if an expression yields some of them.
fn variables<'d>(rule: &'d Rule) -> Option<Vec<Set<'d>>> {
    let set = |write: Write<'d>| {
        let value = write.value.get("value");
        let span = value.map_or(write.value.span, |value| value.span);
        // An entry that is added to a list is below the key of its side.
        let written =
            value.and_then(|value| value.entries().first().map_or(value, |side| &side.value).source());
        Some(Set { rule, name: write.name()?, value: written, span })
    };
    let writes = rule.additions_to(&Section::Selected).flat_map(Addition::writes);
    writes.filter(|write| write.path == ["env"]).map(set).collect()
}
