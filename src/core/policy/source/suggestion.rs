//! The names that an author most probably means.

/// The known name that is nearest to a mistyped one.
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= candidate.len().div_ceil(3) && *distance < candidate.len()
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Names that the language had, the names that replaced them, and how to write those.
const REMOVED: &[(&str, &str, &str)] = &[
    ("byInstanceType", "byNode", "`byNode:` with the table under `node.kubernetes.io/instance-type:`"),
    ("gpuResources", "gpus", "`gpus: {resources: […]}`"),
    ("gpuClaims", "gpus", "`gpus: {claims: {names: […], gpus: …}}`"),
    ("requiresPodNetwork", "when", "`when: ${!hostNetwork}`"),
    ("refusals", "warnings", "the entry into `warnings`, with `action: refuse`"),
    ("nodeLabels", "match", "a `*` in the values of the tables, as in `byNode: {pool: {'*h100': …}}`"),
    ("instanceType", "node", "`node[?'node.kubernetes.io/instance-type'].orValue('')`"),
];

/// A hint with the nearest known name, or with all known names.
pub(crate) fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    if let Some((_, _, how)) = REMOVED.iter().find(|(old, new, _)| *old == name && known.contains(new)) {
        return format!("write {how}");
    }
    if let Some(closest) = closest(name, known.iter().copied()) {
        return format!("did you mean `{closest}`?");
    }
    known.sort_unstable();
    let listed: Vec<String> = known.iter().take(24).map(|name| format!("`{name}`")).collect();
    if listed.is_empty() {
        return "no field is allowed here".to_owned();
    }
    format!("known here: {}{}", listed.join(", "), if known.len() > 24 { ", …" } else { "" })
}
