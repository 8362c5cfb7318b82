//! References to variables in values of variables that the kubelet does not resolve.

use crate::definition::{Definition, Rule};
use crate::overlay::{Addition, Section, Write, in_order, references};
use crate::source::{Diagnostic, UNKNOWN_VARIABLE, UNRESOLVED_REFERENCE, did_you_mean, is_misspelling};
use fabric_yaml::Span;

/// A variable that a rule sets in the containers that it selects.
struct Set<'d> {
    name: &'d str,
    value: String,
    span: Span,
    name_span: Span,
}

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let all: Vec<Set<'_>> = definition.rules.iter().flat_map(variables).collect();
    let own = all.iter().filter_map(|set| {
        let (message, hint) = own(set.name, &set.value)?;
        Some(Diagnostic::warning(UNRESOLVED_REFERENCE, set.span, message).hint(hint))
    });
    let hyphens = all.iter().filter(|set| set.name.contains(['-', ' '])).map(|set| {
        let message =
            format!("the variable `{}` has a `-` or a blank, with which no shell can read it", set.name);
        let warning = Diagnostic::warning(UNKNOWN_VARIABLE, set.name_span, message);
        warning.hint(did_you_mean(&set.name.trim_start_matches("export ").replace(['-', ' '], "_")))
    });
    let misspelt = all.iter().filter_map(|set| {
        let other = references(&set.value).find(|other| is_misspelling(other, set.name))?;
        let message = format!("`$({other})` is almost the variable `{}` itself", set.name);
        let warning = Diagnostic::warning(UNRESOLVED_REFERENCE, set.span, message);
        Some(warning.hint(did_you_mean(&format!("$({})", set.name))))
    });
    own.chain(hyphens).chain(misspelt).chain(cycle(&all)).collect()
}

/// The error for variables that refer to each other, so that none can stand first.
fn cycle(all: &[Set<'_>]) -> Option<Diagnostic> {
    let (_, cycle) = in_order(all.iter().map(|set| (set.name, set.value.as_str())));
    let first = all.iter().find(|set| cycle.contains(&set.name))?;
    let names: Vec<String> = cycle.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("the variables {} refer to each other", names.join(", "));
    let error = Diagnostic::error(UNRESOLVED_REFERENCE, first.span, message);
    Some(error.hint("write the value of one of them out"))
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
        Some(Set { name: write.name()?, value: written, span: value.span, name_span: write.span() })
    };
    let writes = rule.additions_to(&Section::Selected).flat_map(Addition::writes);
    writes.filter(|write| write.path == ["env"]).filter_map(set)
}
