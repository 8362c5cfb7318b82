//! References to variables in values of variables that the kubelet does not resolve.

use std::collections::BTreeMap;

use crate::definition::{Definition, Rule};
use crate::overlay::{Addition, Section, Write, references};
use crate::source::{Diagnostic, UNRESOLVED_REFERENCE};
use fabric_yaml::Span;

/// A variable that a rule sets in the containers that it selects.
struct Set<'d> {
    name: &'d str,
    value: String,
    span: Span,
}

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let all: Vec<Set<'_>> = definition.rules.iter().flat_map(variables).collect();
    let own = all.iter().filter_map(|set| {
        let (message, hint) = own(set.name, &set.value)?;
        Some(Diagnostic::warning(UNRESOLVED_REFERENCE, set.span, message).hint(hint))
    });
    own.chain(cycle(&all)).collect()
}

/// The error for variables that refer to each other, so that none can stand first.
fn cycle(all: &[Set<'_>]) -> Option<Diagnostic> {
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for set in all {
        left.entry(set.name).or_default().extend(references(&set.value).filter(|name| *name != set.name));
    }
    let mut referring: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, others) in &left {
        let others = others.iter().filter(|other| left.contains_key(**other));
        open.insert(name, others.clone().count());
        others.for_each(|other| referring.entry(other).or_default().push(name));
    }
    let mut first: Vec<&str> = open.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = first.pop() {
        open.remove(name);
        for other in referring.get(name).into_iter().flatten() {
            if let Some(count) = open.get_mut(other) {
                *count -= 1;
                first.extend((*count == 0).then_some(*other));
            }
        }
    }
    let mut path = vec![*open.keys().next()?];
    let at = loop {
        let next = left[path.last()?].iter().find(|other| open.contains_key(**other))?;
        if let Some(at) = path.iter().position(|known| known == next) {
            break at;
        }
        path.push(next);
    };
    let names = path.split_off(at).iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let span = all.iter().find(|set| names.contains(&format!("`{}`", set.name)))?.span;
    let message = format!("the variables {names} refer to each other");
    Some(Diagnostic::new(span, message).code(UNRESOLVED_REFERENCE).hint("write the value of one of them out"))
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

/// The variables of a rule whose names are written out, in order.
fn variables<'d>(rule: &'d Rule) -> impl Iterator<Item = Set<'d>> {
    let set = |write: Write<'d>| {
        let value = write.value.get("value")?;
        // An entry that is added to a list is below the key of its side.
        let written = value.entries().first().map_or(value, |side| &side.value).source()?;
        Some(Set { name: write.name()?, value: written, span: value.span })
    };
    let writes = rule.additions_to(&Section::Selected).flat_map(Addition::writes);
    writes.filter(|write| write.path == ["env"]).filter_map(set)
}
