//! The keys of edits: maps that an overlay has in place of a value.

/// The key of a list that takes the place of the pod's.
pub(in crate::core::policy::overlay) const REPLACE: &str = "$replace";

/// The key that names the field by which entries of a list of objects are known.
pub(in crate::core::policy::overlay) const KEY: &str = "$key";

/// The keys of edits of strings.
pub(in crate::core::policy::overlay) const KEYS: [&str; 4] = ["$prepend", "$append", "$separator", KEY];
