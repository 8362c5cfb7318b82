//! The keys of edits: maps that an overlay has in place of a value.

/// The key of a list that takes the place of the pod's.
pub(super) const REPLACE: &str = "$replace";

/// The key that names the field by which entries of a list of objects are known.
pub(super) const KEY: &str = "$key";

/// The key of the number of networks to attach.
pub(super) const COUNT: &str = "$count";

/// The keys of edits of strings.
pub(super) const KEYS: [&str; 5] = ["$prepend", "$append", "$separator", COUNT, KEY];
