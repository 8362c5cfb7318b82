//! The names that an author most probably means.

/// The longest name that is compared, in bytes: the comparison of two takes the product of their lengths.
pub(crate) const LONGEST: usize = 128;

/// The known name that is nearest to a mistyped one.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .filter(|candidate| name.len().max(candidate.len()) <= LONGEST)
        .map(|candidate| (strsim::levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= candidate.len().div_ceil(3) && *distance < candidate.len()
        })
        // A wrong letter is more likely than one too many.
        .min_by_key(|(distance, candidate)| (*distance, candidate.len().abs_diff(name.len()), *candidate))
        .map(|(_, candidate)| candidate)
}

/// Returns whether two names differ in a letter, or in the order of two.
pub(crate) fn are_near(name: &str, known: &str) -> bool {
    name.len().max(known.len()) <= LONGEST && strsim::osa_distance(name, known) <= 1
}

/// A hint with the nearest known name, or with all known names.
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    if let Some(closest) = closest(name, known.iter().copied()) {
        return format!("did you mean `{closest}`?");
    }
    known.sort_unstable();
    known.dedup();
    let listed: Vec<String> = known.iter().take(24).map(|name| format!("`{name}`")).collect();
    if listed.is_empty() {
        return "no field is allowed here".to_owned();
    }
    format!("known here: {}{}", listed.join(", "), if known.len() > 24 { ", …" } else { "" })
}
