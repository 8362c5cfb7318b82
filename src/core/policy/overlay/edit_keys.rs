//! The keys of edits: maps that an overlay has in place of a value.

/// The key of a list that takes the place of the pod's.
pub(super) const REPLACE: &str = "$replace";

/// The keys of edits of strings. The first of those that a map has says which edit it is.
pub(super) const KEYS: [&str; 7] =
    ["$prepend", "$append", "$networks", "$entries", "$separator", "$count", "$key"];
