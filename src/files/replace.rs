//! Replaces files that other programs read at the same time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::thread;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

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
