//! The text of a policy as a tree of nodes with places, and the mistakes that are found in it.
//!
//! `reader` takes maps and lists of the tree apart; a `Diagnostic` is a mistake at a place, `Problems` are several, and a
//! `SourceError` is one with the lines of the file. What the keys mean is not known here.

mod diagnostic;
mod problems;
pub(crate) mod reader;
mod source_error;
mod source_file;
mod suggestion;

pub(crate) use diagnostic::{
    ALWAYS_FALSE, CONFLICTING_RULES, DECIMAL_MODE, DEVICE_WITHOUT_IPC_LOCK, DUPLICATE_KEY, DUPLICATE_NAME,
    EXTENSION, FIELD_NOT_SETTABLE, INVALID_EXPRESSION, MISPLACED_EDIT, MISSING_KEY, MODE_IN_MOUNT_PATH,
    MOUNT_WITHOUT_VOLUME, NETWORKS_AS_TEXT, NO_VALUE, NOT_A_POD_FIELD, NOT_IDEMPOTENT, POLICIES_OVERLAP,
    QUANTITY_AS_TEXT, REQUEST_WITHOUT_LIMIT, SAMPLE_FAILED, SIDECAR_KEEPS_JOB, TEMPLATE_BRACES, TINY_AMOUNT,
    TOO_COSTLY, TOO_EARLY, TYPE_MISMATCH, UNKNOWN_ANNOTATION, UNKNOWN_ENUM_VALUE, UNKNOWN_KEY, UNKNOWN_LABEL,
    UNKNOWN_NAME, UNKNOWN_RESOURCE, UNKNOWN_SETTING_VARIABLE, UNKNOWN_TABLE_KEY, UNKNOWN_VARIABLE,
    UNLIKE_TYPES, UNREADABLE_FILE, UNRESOLVED_REFERENCE, UNUSED_PARAMETER, UNUSED_PART, UNUSED_SUPPRESSION,
    UNUSED_VARIABLE, VOLUME_WITHOUT_MOUNT, WRONG_TYPE, YAML_SYNTAX,
};
pub use diagnostic::{Diagnostic, ERRORS, Severity, WARNINGS};
pub(crate) use problems::{Checked, Problems, all};
pub(crate) use reader::{located, unambiguous};
pub use source_error::{SourceError, SourceErrors};
pub use source_file::SourceFile;
pub(crate) use source_file::at_line;
pub(crate) use suggestion::{closest, suggest};
