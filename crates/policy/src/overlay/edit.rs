//! Edits: maps with keys such as `$append`, in place of a value. What an edit makes of the value of a pod is known to the
//! engine.

pub(super) mod entries;
pub(super) mod keys;
pub(super) mod misplaced;
pub(super) mod networks;
pub(super) mod strings;

pub use entries::EntriesEdit;
pub use networks::NetworksEdit;
