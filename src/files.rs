//! Reads files whose paths come from the operator, with a limit on their size and without blocking on pipes, and
//! replaces them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use rustix::fs::OFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

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

/// Replaces the content of a file in one step: a reader sees the old content or the new one. A symbolic link stays, and
/// the file that it leads to keeps its mode.
///
/// Fails if the content of the file is no longer `before`, and if a link leads out of the folder where it was found.
pub(crate) fn replace(path: &Path, folder: Option<&Path>, before: &[u8], after: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    if let Some(folder) = folder
        && !target.starts_with(fs::canonicalize(folder)?)
    {
        return Err(io::Error::other(format!(
            "it is a link to {}, outside of {}; name the file itself to edit it",
            target.display(),
            folder.display()
        )));
    }
    let kind = fs::metadata(&target)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary =
        target.with_file_name(format!(".{name}.{}.{:08x}", std::process::id(), fastrand::u32(..)));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(after)?;
        // Only root can give a file to another user.
        let _ = fchown(&file, Some(kind.uid()), Some(kind.gid()));
        file.set_permissions(kind.permissions())?;
        file.sync_all()?;
        if fs::read(&target)? != before {
            return Err(io::Error::other("it has changed since it was read; run the command again"));
        }
        fs::rename(&temporary, &target)
    };
    uninterrupted(|| write().inspect_err(|_| drop(fs::remove_file(&temporary))))
}

/// Makes a change of several steps, which removes its temporary files. A signal that ends the program, such as Ctrl-C,
/// takes effect after the change.
pub(crate) fn uninterrupted<T, E: From<io::Error>>(change: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    /// Locked during a change; true if signals wait for it.
    static CHANGE: Mutex<bool> = Mutex::new(false);

    let mut signals_wait = CHANGE.lock();
    if !*signals_wait {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let _change = CHANGE.lock();
                // A shell ends its script only if the signal ends the program.
                let _ = emulate_default_handler(signal);
            }
        })?;
        *signals_wait = true;
    }
    change()
}
