//! The verdict about a process.

use super::process::{MOST_NAMES, Named, Process};
use super::signatures::{NetworkKind, Signatures};
use super::verdict::Verdict;

/// The verdict about a process whose communicators span nodes; if it is unknown, how to find it.
pub(super) fn of_process<'k>(process: &Process, signatures: &'k Signatures) -> (Verdict, Option<&'k str>) {
    let kinds: Vec<_> = process.names().map(|name| signatures.network(name, process)).collect();
    let has = |wanted: NetworkKind| kinds.iter().any(|(kind, _)| *kind == wanted);
    let unknown = (Verdict::Unknown, kinds.iter().find_map(|(_, remedy)| *remedy));
    // A line without a process may be a quotation, several that fit together are none. Names that were dropped may be
    // those of TCP.
    let is_whole = !process.paths.is_empty() && process.interface.is_some() && !process.devices.is_empty();
    let is_own = !process.host.is_empty() || !process.transports.is_empty();
    let is_certain = (is_own || is_whole) && kinds.len() < MOST_NAMES;
    let has_path = !process.paths.is_empty() || !process.transports.is_empty();
    let is_within = process.is_mnnvl && process.nodes <= 1;
    // NVLink carries the traffic that the network would carry.
    if process.nvlink && !has_path && process.nodes <= 1 {
        return if is_within && process.nodes == 1 && is_certain { (Verdict::Fabric, None) } else { unknown };
    }
    let is_connected = has_path || process.is_connected;
    // A network that was chosen and has no connection yet counts, too.
    let is_chosen = process.size > 0 || process.is_complete || process.nodes > 0;
    match (has(NetworkKind::Fabric), has(NetworkKind::Tcp), has(NetworkKind::Unknown)) {
        (true, true, _) => (Verdict::Mixed, None),
        (false, true, _) if has_path || is_chosen && !is_within => (Verdict::Tcp, None),
        (true, false, false) if is_connected && is_certain => (Verdict::Fabric, None),
        (false, false, false) if has_only_tcp(process, signatures) => (Verdict::Tcp, None),
        (false, false, false) if is_connected && is_certain && has_only_ib(process, signatures) => {
            (Verdict::Fabric, None)
        }
        _ => unknown,
    }
}

/// Returns whether a line of a process names TCP, or says that there is no fabric.
pub(super) fn names_tcp(process: &Process, signatures: &Signatures) -> bool {
    process.has_socket
        || process.names().any(|name| signatures.network(name, process).0 == NetworkKind::Tcp)
        || process.causes.iter().any(|named| signatures.cause(named.cause).leaves_tcp)
}

/// Returns whether a process of a release that does not name its network can only have TCP.
fn has_only_tcp(process: &Process, signatures: &Signatures) -> bool {
    // Before the network is named, libfabric names its provider.
    if !process.providers.is_empty() {
        return signatures.network("OFI", process).0 == NetworkKind::Tcp;
    }
    let leaves_tcp = |named: &Named| signatures.cause(named.cause).leaves_tcp;
    let has_other = !process.devices.is_empty() || !process.providers.is_empty();
    process.has_socket && process.is_complete && !has_other && process.causes.iter().any(leaves_tcp)
}

/// Returns whether a process of a release that does not name its network has adapters, which NCCL then uses.
fn has_only_ib(process: &Process, signatures: &Signatures) -> bool {
    let has_adapters = process.size > 0 && !process.devices.is_empty() && process.providers.is_empty();
    has_adapters && signatures.network("IB", process).0 == NetworkKind::Fabric
}
