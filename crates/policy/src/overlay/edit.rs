//! Edits: maps with keys such as `$append`, in place of a value. The engine applies them to the value of a pod.

pub(super) mod entries;
pub(super) mod keys;
pub(super) mod misplaced;
pub(super) mod networks;
pub(super) mod strings;

pub use entries::EntriesEdit;
pub use networks::NetworksEdit;
