//! Reads files whose paths come from the operator, with a limit on their size and without blocking on pipes, and
//! replaces them.

#[cfg_attr(target_family = "wasm", path = "files/replace_alone.rs")]
mod replace;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

pub(crate) use replace::replace;
#[cfg(not(target_family = "wasm"))]
pub(crate) use replace::uninterrupted;

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
    #[cfg(unix)]
    if !pipes {
        // Without this flag, opening a pipe blocks until a writer opens it.
        let flag = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flag);
    }
    let file = options.open(path).with_context(cannot)?;
    let kind = file.metadata().with_context(cannot)?;
    // Reading a folder fails below, with the error of the operating system.
    ensure!(pipes || kind.is_file() || kind.is_dir(), "{name} is not a regular file");
    let most = mebibytes << 20;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() as u64 <= most, "{name} exceeds the {mebibytes} MiB limit for a {what}");
    Ok(bytes)
}

/// The file of a name, or standard input for `-`, and the name for messages.
pub(crate) fn open(name: &str) -> anyhow::Result<(&str, Box<dyn BufRead>)> {
    if name == "-" {
        return Ok(("stdin", Box::new(io::stdin().lock())));
    }
    let file = File::open(name).with_context(|| format!("{name} cannot be read"))?;
    Ok((name, Box::new(BufReader::new(file))))
}

/// The path itself, or the manifests in a directory, sorted by name and without those of its subdirectories.
pub(crate) fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = path.display();
    let kind = fs::metadata(path).with_context(|| format!("{shown} cannot be read"))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files =
        with_endings(path, &["yaml", "yml", "json"]).with_context(|| format!("{shown} cannot be read"))?;
    files.retain(|file| file.is_file());
    ensure!(!files.is_empty(), "{shown} has no file that ends in .yaml, .yml or .json");
    Ok(files)
}

/// What a directory has with one of these endings, sorted by name.
pub(crate) fn with_endings(folder: &Path, endings: &[&str]) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| endings.iter().any(|known| end == *known)));
    paths.sort();
    Ok(paths)
}
