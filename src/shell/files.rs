//! Reads files whose paths come from the operator: with a limit on their size, and without blocking on pipes.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::fs::OFlags;

/// The limits on a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// The noun for the file in messages, in the singular.
    pub(crate) what: &'static str,
    /// The largest size.
    pub(crate) mebibytes: u64,
    /// True if the file can be a pipe or a terminal. Reading one blocks until its writer has closed it.
    pub(crate) pipes: bool,
}

/// Reads the file at `path`. Messages call it `name`.
pub(crate) fn read_bounded(name: &Path, path: &Path, allowed: Allowed) -> anyhow::Result<Vec<u8>> {
    let Allowed { what, mebibytes, pipes } = allowed;
    let name = name.display();
    let cannot = || format!("{name} cannot be read");
    let mut options = OpenOptions::new();
    options.read(true);
    if !pipes {
        // Without this flag, opening a pipe blocks until a writer opens it.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).with_context(cannot)?;
    let kind = file.metadata().with_context(cannot)?;
    // Reading a folder fails below, with the error of the operating system.
    ensure!(pipes || kind.is_file() || kind.is_dir(), "{name} is not a regular file");
    let most = mebibytes << 20;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() as u64 <= most, "{name} is larger than {mebibytes} MiB, which no {what} is");
    Ok(bytes)
}
