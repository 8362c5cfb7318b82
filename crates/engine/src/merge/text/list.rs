//! Lists that a variable such as `LD_LIBRARY_PATH` holds.

const SEPARATOR: &str = ":";

/// `list` with `entry` in front of it or after it; `None` if `list` has it already.
pub(crate) fn with_entry(list: &str, entry: &str, prepend: bool) -> Option<String> {
    if list.is_empty() {
        return (!entry.is_empty()).then(|| entry.to_owned());
    }
    // An entry may contain several; those that the list already has keep their position.
    let mut missing: Vec<&str> = Vec::new();
    for part in entry.split(SEPARATOR) {
        if !missing.contains(&part) && !list.split(SEPARATOR).any(|known| known == part) {
            missing.push(part);
        }
    }
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(SEPARATOR);
    Some(if prepend { format!("{missing}{SEPARATOR}{list}") } else { format!("{list}{SEPARATOR}{missing}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_a_list_has_stay_where_they_are() {
        assert_eq!(with_entry("/a:/b", "/c", true).as_deref(), Some("/c:/a:/b"));
        assert_eq!(with_entry("/a:/b", "/c:/b", false).as_deref(), Some("/a:/b:/c"));
        assert_eq!(with_entry("/a:/b", "/b:/a", true), None);
        assert_eq!(with_entry("", "/a", true).as_deref(), Some("/a"));
        assert_eq!(with_entry("", "", true), None);
        assert_eq!(with_entry("/a", "/c:/c", false).as_deref(), Some("/a:/c"));
    }
}
