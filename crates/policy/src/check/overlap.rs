//! Policies that match pods of another policy.

use crate::definition::{Definition, entries, keys};
use crate::matcher::{ANY_VALUE, Matcher, kind_and_group};
use crate::source::{Diagnostic, POLICIES_OVERLAP, SourceError};

/// A warning for each two policies in use that certainly match a common pod. Such a pod is refused.
pub fn overlaps(definitions: &[&Definition]) -> Vec<SourceError> {
    let mut found = Vec::new();
    for (at, second) in definitions.iter().enumerate() {
        for first in &definitions[..at] {
            let in_use_together = first.provider == second.provider
                && first.name != second.name
                && !first.is_extension_of(second)
                && !second.is_extension_of(first);
            if !in_use_together || !overlap(&first.matcher, &second.matcher) {
                continue;
            }
            let message = format!(
                "the policies `{}` and `{}` can match the same pod, which is then refused",
                first.name, second.name
            );
            let hint = "let the `match.when` of each exclude the pods of the other, or load only one of them";
            // An extension has keys of its own in the `match` of its base, or none.
            let own = entries(second.spec.get("match")).iter().map(|entry| entry.span);
            let mut places = [second.place(&keys(["match"]))].into_iter().chain(own);
            let span = places.find(|span| !second.is_of_base(*span)).unwrap_or(second.extends_span);
            found.push(second.error(Diagnostic::warning(POLICIES_OVERLAP, span, message).hint(hint)));
        }
    }
    found
}

/// Returns whether a pod surely exists that both match. Two different conditions may exclude each other.
fn overlap(one: &Matcher, other: &Matcher) -> bool {
    let agrees = |(key, value): &(String, String)| {
        other.labels.iter().all(|(known, wanted)| known != key || wanted == value)
    };
    one.when == other.when
        && lists_meet(&one.any_annotation, &other.any_annotation, |one, other| one == other)
        && !excludes(one, other)
        && !excludes(other, one)
        && one.labels.iter().all(agrees)
        && lists_meet(&one.namespaces, &other.namespaces, |one, other| one == other)
        && lists_meet(&one.owner_kinds, &other.owner_kinds, |one, other| same_kind(one, other))
}

fn lists_meet<T>(one: &[T], other: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|one| other.iter().any(|other| same(one, other)))
}

fn same_kind(one: &str, other: &str) -> bool {
    let ((kind, group), (other_kind, other_group)) = (kind_and_group(one), kind_and_group(other));
    kind == other_kind && (group.is_none() || other_group.is_none() || group == other_group)
}

/// Returns whether the triggers of a policy may keep the other one from matching.
fn excludes(one: &Matcher, other: &Matcher) -> bool {
    let takes_out = |(key, value): &(String, String)| {
        other.any_annotation.iter().any(|(known, seen)| known == key && (value == ANY_VALUE || value == seen))
    };
    one.except_annotation.iter().any(takes_out)
}
