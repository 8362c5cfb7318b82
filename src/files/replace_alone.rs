//! Replaces files where no other program reads them: in the memory of a page.

use std::fs;
use std::io;
use std::path::Path;

pub(crate) fn replace(path: &Path, _folder: Option<&Path>, _before: &[u8], after: &[u8]) -> io::Result<()> {
    fs::write(path, after)
}
