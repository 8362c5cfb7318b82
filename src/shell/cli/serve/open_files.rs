//! The limit on open files, each connection being one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are not connections to the webhook: those of the admin port, and files that are read.
const OTHER_FILES: usize = 128;

/// The number of connections that the limit on open files allows, `wanted` at most. Raises the limit first.
pub(super) fn max_connections(wanted: usize) -> usize {
    let Some(files) = raise_limit() else { return wanted };
    let connections = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(1);
    if connections >= wanted {
        return wanted;
    }
    tracing::warn!(
        files,
        connections,
        "fewer connections than `--max-connections`: the limit on open files is too low"
    );
    connections
}

/// Raises the limit as far as the system permits; the limit, if there is one.
fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    }
}
