//! Entries that rules add to the lists that variables such as `LD_LIBRARY_PATH` hold.

use fabric_policy::Rule;
use fabric_policy::overlay::{EditKind, Tree};

/// An entry that a rule adds to the list that a variable holds.
#[derive(Debug, Clone)]
pub(super) struct AddedEntry {
    pub(super) name: String,
    pub(super) entry: String,
    prepends: bool,
}

impl AddedEntry {
    pub(super) fn of(variable: &Tree) -> Option<Self> {
        let edit = variable.edit_at("value")?;
        let (name, entry) = (variable.literal("name")?.to_owned(), edit.added.as_str()?.to_owned());
        Some(Self { name, entry, prepends: edit.kind == EditKind::Prepend })
    }

    /// The list with the entry; `None` if the list has it already.
    pub(super) fn to(&self, list: &str) -> Option<String> {
        with_entry(list, &self.entry, self.prepends)
    }
}

/// The entries that these trees add to lists in variables.
pub(super) fn added_entries(trees: &[(&Rule, Tree)]) -> Vec<AddedEntry> {
    let variables = trees.iter().filter_map(|(_, tree)| tree.get("env")).flat_map(Tree::items);
    variables.filter_map(AddedEntry::of).collect()
}

const SEPARATOR: &str = ":";

/// A list that a variable such as `LD_LIBRARY_PATH` holds, with `entry` in front of it or after it; `None` if the list has
/// it already.
fn with_entry(list: &str, entry: &str, prepend: bool) -> Option<String> {
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
