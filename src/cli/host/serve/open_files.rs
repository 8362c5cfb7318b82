//! The limit on open files. Each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::server::MaxConnections;

/// Open files other than client connections: ports, the log, files that are read, connections to the API server. If the
/// limit is low, half of it is reserved for these.
const OTHER_FILES: usize = 64;

/// The numbers of connections that the limit on open files allows, at most `wanted` to the webhook. Raises the limit
/// first.
///
/// The ports share the limit: connections to one of them leave files for the other.
pub(super) fn max_connections(wanted: usize) -> MaxConnections {
    let default = MaxConnections::with(wanted);
    let Some(files) = raise_limit() else { return default };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let free = files - OTHER_FILES.min(files / 2);
    let admin = default.admin.min(free / 4).max(1);
    let webhook = free.saturating_sub(admin).max(1).min(wanted);
    if webhook < wanted {
        tracing::warn!(
            files,
            connections = webhook,
            "fewer connections than `--max-connections`: the limit on open files is too low"
        );
    }
    MaxConnections { webhook, admin }
}

/// Raises the limit as far as the system permits, and returns it, if there is one.
fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    }
}
