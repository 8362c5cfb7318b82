//! The facts in the log of one process.

use std::collections::{BTreeMap, BTreeSet};

use regex::bytes::Captures;

use super::counters::Traffic;

/// The limit on communicators, ranks and causes that are kept for a process.
const MOST: usize = 64;
/// The limit on names of networks, providers and lists of adapters. A process that has more is not judged by them.
pub(super) const MOST_NAMES: usize = 16;
/// The longest text of a fact, in bytes: a line of NCCL has 1,024.
const LONGEST: usize = 1_024;
/// The longest name of a host or a pod.
const LONGEST_NAME: usize = 253;

/// A place in the input: the file, and the line among those with a fact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) file: usize,
    pub(super) line: usize,
}

impl Position {
    /// After the whole input.
    pub(super) const END: Self = Self { file: usize::MAX, line: usize::MAX };
}

/// A process, or the lines of a source without one.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what another line says")]
pub(super) struct Process {
    /// The file, or the pod of a prefix.
    pub(super) source: String,
    /// Empty for lines that no process of NCCL wrote.
    pub(super) host: String,
    pub(super) pid: u32,
    /// True if there is a line of `NCCL_DEBUG=INFO`.
    pub(super) has_info: bool,
    /// True if the pod has devices, and what its adapters move.
    pub(super) has_devices: bool,
    pub(super) traffic: Option<Traffic>,
    /// The policy that injected the pod.
    pub(super) policy: Option<String>,
    pub(super) version: Option<String>,
    /// The networks that were chosen, those of connections, and the transports of UCX.
    pub(super) networks: BTreeSet<String>,
    pub(super) paths: BTreeSet<String>,
    pub(super) transports: BTreeSet<String>,
    /// Connections with and without GPUDirect RDMA.
    pub(super) with_gdr: u64,
    pub(super) without_gdr: u64,
    /// True if there are connections by `NVLink` between nodes.
    pub(super) nvlink: bool,
    /// The most ranks and nodes of a communicator, and the process's ranks in it.
    pub(super) size: u32,
    pub(super) ranks: BTreeSet<u32>,
    pub(super) nodes: u32,
    /// The ranks that send to the next one of a ring without a network.
    pub(super) inner: BTreeSet<u32>,
    /// The hosts of the ranks that nccl-tests lists.
    pub(super) listed: BTreeSet<String>,
    /// True if a communicator is ready, since when it is or its network is chosen, and true if its ranks are connected.
    pub(super) is_complete: bool,
    pub(super) completed: Option<Position>,
    pub(super) is_connected: bool,
    /// True if there is TCP for want of another network.
    pub(super) has_socket: bool,
    /// True if a communicator is within one `NVLink` domain.
    pub(super) is_mnnvl: bool,
    pub(super) communicators: BTreeSet<u64>,
    pub(super) devices: BTreeSet<String>,
    pub(super) providers: BTreeSet<String>,
    pub(super) interface: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) machine: Option<String>,
    /// The causes that a line names, each once.
    pub(super) causes: Vec<Named>,
    /// What contradicts causes or confirms them, each with its last line.
    pub(super) facts: BTreeMap<usize, Position>,
    /// The first and the last line, and the last one that shows progress.
    pub(super) first: Position,
    pub(super) last: Position,
    pub(super) got_on: Option<Position>,
    /// The first warning since then, the last error that NCCL returns, and the end of the communicator.
    pub(super) warning: Option<String>,
    pub(super) returned: Option<Position>,
    pub(super) finished: Option<Position>,
    /// The line that says the most about the network.
    pub(super) evidence: Option<String>,
}

/// A cause that a line names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) cause: usize,
    /// The first such line.
    pub(super) line: String,
    /// The last one; `None` if all are informational lines of NCCL, which continues after them.
    pub(super) last: Option<Position>,
    /// The last one of any kind.
    pub(super) at: Position,
}

/// The text of a group, which begins and ends at a character of ASCII.
pub(super) fn text<'l>(groups: &Captures<'l>, name: &str) -> Option<&'l str> {
    str::from_utf8(groups.name(name)?.as_bytes()).ok()
}

impl Process {
    /// Adds what has no process: the release in older ones, the hosts of nccl-tests, and the provider of NIXL.
    pub(super) fn add_version(&mut self, groups: &Captures<'_>) {
        if let Some(host) = text(groups, "listed") {
            insert(&mut self.listed, MOST, shortened(host));
        }
        if let Some(provider) = text(groups, "carrier") {
            insert(&mut self.transports, MOST_NAMES, shortened(provider));
        }
        if let (Some(library), Some(version)) = (text(groups, "library"), text(groups, "version")) {
            let version = format!("{library}CCL {version}");
            self.version.get_or_insert_with(|| shortened(&version));
        }
    }

    /// Adds the values of the groups of a pattern.
    pub(super) fn add(&mut self, line: &str, groups: &Captures<'_>) {
        let text = |name: &str| text(groups, name);
        let number = |name: &str| text(name).and_then(|text| text.parse::<u32>().ok());
        let kept = |name: &str| text(name).map(shortened);
        self.add_version(groups);
        if let Some(network) = text("network") {
            insert(&mut self.networks, MOST_NAMES, shortened(network.trim_end()));
            self.evidence.get_or_insert_with(|| shortened(line));
        }
        if let Some(path) = text("path") {
            if self.paths.is_empty() {
                self.evidence = Some(shortened(line));
            }
            if !self.paths.contains(path) {
                insert(&mut self.paths, MOST_NAMES, shortened(path));
            }
            let count = if text("gdr").is_some() { &mut self.with_gdr } else { &mut self.without_gdr };
            *count = count.saturating_add(1);
        }
        if let Some(transport) = text("transport") {
            insert(&mut self.transports, MOST_NAMES, shortened(transport));
            self.evidence.get_or_insert_with(|| shortened(line));
        }
        if text("nvlink").is_some() {
            self.nvlink = true;
            if self.paths.is_empty() {
                self.evidence = Some(shortened(line));
            }
        }
        if let (Some(rank), Some(size)) = (number("rank"), number("ranks")) {
            self.add_rank(rank, size);
        }
        if let Some(ring) = text("ring") {
            self.size = self.size.max(u32::try_from(ring.split_whitespace().count()).unwrap_or_default());
        }
        if let Some(rank) = number("inner") {
            insert(&mut self.inner, MOST, rank);
        }
        if number("ranks").is_some_and(|ranks| ranks == self.size) {
            self.nodes = self.nodes.max(number("nodes").unwrap_or_default());
            self.is_complete |= text("complete").is_some();
        }
        self.is_connected |= text("connected").is_some();
        self.is_mnnvl |= text("mnnvl") == Some("1");
        self.has_socket |= text("socket").is_some();
        if let Some(id) = text("comm").and_then(|id| u64::from_str_radix(id, 16).ok()) {
            insert(&mut self.communicators, MOST, id);
        }
        for (names, name) in [(&mut self.devices, "devices"), (&mut self.providers, "provider")] {
            if let Some(said) = kept(name) {
                insert(names, MOST_NAMES, said);
            }
        }
        let facts = [
            (&mut self.interface, "interface"),
            (&mut self.topology, "topology"),
            (&mut self.machine, "machine"),
        ];
        for (fact, name) in facts {
            if let Some(said) = kept(name) {
                *fact = Some(said);
            }
        }
    }

    fn add_rank(&mut self, rank: u32, size: u32) {
        if size > self.size {
            (self.size, self.nodes, self.is_complete, self.is_connected) = (size, 0, false, false);
            self.ranks.clear();
        }
        if size == self.size {
            insert(&mut self.ranks, MOST, rank);
        }
    }

    /// Adds a cause. After an informational line NCCL continues.
    pub(super) fn add_cause(&mut self, cause: usize, line: &str, at: Position, is_info: bool) {
        let last = (!is_info).then_some(at);
        if let Some(known) = self.causes.iter_mut().find(|known| known.cause == cause) {
            (known.last, known.at) = (known.last.max(last), known.at.max(at));
        } else if self.causes.len() < MOST {
            self.causes.push(Named { cause, line: shortened(line), last, at });
        }
    }

    /// Adds what a line of NCCL says about the end of the process.
    pub(super) fn add_end(&mut self, line: &str, groups: &Captures<'_>, at: Position) {
        let has = |name: &str| groups.name(name).is_some();
        if ["path", "nvlink", "complete", "connected", "transport"].into_iter().any(has) {
            (self.got_on, self.warning) = (Some(at), None);
        }
        if has("complete") || has("network") {
            self.completed = Some(at);
        }
        if has("warning") {
            self.warning.get_or_insert_with(|| shortened(line));
        }
        if has("returned") && self.warning.is_some() {
            self.returned = Some(at);
        }
        if has("finished") {
            self.finished = Some(at);
        }
    }

    /// The networks of NCCL, or if it has none between nodes, the transports of UCX.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let is_by_ucx = self.is_by_ucx();
        let of_nccl = self.paths.union(&self.networks).filter(move |_| !is_by_ucx);
        of_nccl.chain(self.transports.iter().filter(move |_| is_by_ucx))
    }

    /// Returns whether UCX moves the data between nodes: NCCL is not there, or on one node.
    pub(super) fn is_by_ucx(&self) -> bool {
        !self.transports.is_empty() && !self.spans_nodes_by_nccl()
    }

    /// Returns whether NCCL may have ranks on several nodes.
    pub(super) fn spans_nodes_by_nccl(&self) -> bool {
        let is_within = self.paths.is_empty() && (self.nodes == 1 || self.size == 1);
        self.is_rank_of_nccl() && !is_within
    }

    /// Returns whether a line names a cause.
    pub(super) fn has(&self, cause: Option<usize>) -> bool {
        self.causes.iter().any(|named| Some(named.cause) == cause)
    }

    /// Returns whether the process says anything about a communicator of NCCL.
    pub(super) fn is_rank_of_nccl(&self) -> bool {
        self.size > 0 || self.has_socket || !self.networks.is_empty() || !self.paths.is_empty() || self.nvlink
    }

    /// Returns whether the process says anything about a communicator, or a connection of UCX.
    pub(super) fn is_rank(&self) -> bool {
        self.is_rank_of_nccl() || !self.transports.is_empty()
    }
}

fn insert<T: Ord>(set: &mut BTreeSet<T>, most: usize, item: T) {
    if set.len() < most {
        set.insert(item);
    }
}

/// A name of at most 253 bytes, as those of Kubernetes have.
pub(super) fn name(text: &str) -> String {
    cut(text, LONGEST_NAME)
}

fn shortened(text: &str) -> String {
    cut(text, LONGEST)
}

fn cut(text: &str, longest: usize) -> String {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim().to_owned()
}
