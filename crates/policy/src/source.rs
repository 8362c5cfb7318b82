//! The text of a policy as a tree of nodes with places, and the mistakes that are found in it.
//!
//! `reader` reads maps and lists of the tree. A `Diagnostic` is a mistake at a place, `Problems` are several, and a
//! `SourceError` is one with the lines of the file. The meaning of the keys is defined elsewhere.

mod diagnostic;
mod problems;
pub mod reader;
mod source_error;
mod source_file;
mod suggestion;

pub use diagnostic::*;
pub use problems::{Checked, MOST_SHOWN, Problems, Reported, all};
pub(crate) use reader::{located, unambiguous};
pub use source_error::{SourceError, SourceErrors};
pub use source_file::SourceFile;
pub(crate) use source_file::{at_line, extension_at};
pub(crate) use suggestion::{LONGEST, without_doubled_letters};
pub use suggestion::{closest, did_you_mean, is_misspelling, suggest};
