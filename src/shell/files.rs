//! Reading files that an operator named: never more than they may hold, and never waiting for them.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::fs::OFlags;

/// What a file may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// What it is, in the singular.
    pub(crate) what: &'static str,
    /// How large it may be.
    pub(crate) mebibytes: u64,
    /// Whether it may be a pipe or a terminal. Whoever writes there may take any time.
    pub(crate) pipes: bool,
}

/// Reads the file at `path`, which is called `name` in messages.
pub(crate) fn read_bounded(name: &Path, path: &Path, allowed: Allowed) -> anyhow::Result<Vec<u8>> {
    let Allowed { what, mebibytes, pipes } = allowed;
    let name = name.display();
    let cannot = || format!("{name} cannot be read");
    let mut options = OpenOptions::new();
    options.read(true);
    if !pipes {
        // To open a pipe is to wait for its writer.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).with_context(cannot)?;
    let kind = file.metadata().with_context(cannot)?;
    // Reading a folder fails by itself.
    ensure!(pipes || kind.is_file() || kind.is_dir(), "{name} is not a regular file");
    let most = mebibytes << 20;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() as u64 <= most, "{name} is larger than {mebibytes} MiB, which no {what} is");
    Ok(bytes)
}
