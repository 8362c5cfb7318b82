//! The keys of edits: maps that an overlay has in place of a value.

use crate::keys::{ENTRIES_EDIT, LIST_EDIT, Map, NETWORKS_EDIT};

/// The key that names the field that identifies the entries of a list of objects.
pub(crate) const KEY: &str = "$key";

/// The keys of edits of strings.
pub(crate) fn of_strings() -> impl Iterator<Item = &'static str> {
    [&LIST_EDIT, &NETWORKS_EDIT, &ENTRIES_EDIT].into_iter().flat_map(Map::names)
}
