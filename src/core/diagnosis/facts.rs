//! What the log of one process says.

use std::collections::BTreeSet;

use regex::Captures;

/// The most names, communicators, ranks and lines that are kept for a process.
const MOST: usize = 64;
/// The longest text of a fact, in bytes.
const LONGEST: usize = 240;

/// A process, or what stands in a source without one.
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
    /// The policy that injected the pod.
    pub(super) policy: Option<String>,
    pub(super) version: Option<String>,
    /// The networks that were chosen, and those of connections.
    pub(super) networks: BTreeSet<String>,
    pub(super) paths: BTreeSet<String>,
    /// Connections with and without GPUDirect RDMA.
    pub(super) with_gdr: u64,
    pub(super) without_gdr: u64,
    /// True if there are connections by `NVLink` between nodes.
    pub(super) nvlink: bool,
    /// The most ranks and nodes of a communicator, and the process's ranks in it.
    pub(super) size: u32,
    pub(super) ranks: BTreeSet<u32>,
    pub(super) nodes: u32,
    /// True if a communicator is ready.
    pub(super) is_complete: bool,
    /// True if there is TCP for want of another network.
    pub(super) has_socket: bool,
    /// True if a communicator is within one `NVLink` domain.
    pub(super) is_mnnvl: bool,
    pub(super) communicators: BTreeSet<u64>,
    pub(super) devices: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) machine: Option<String>,
    /// The causes that a line names, each with its first line.
    pub(super) causes: Vec<(usize, String)>,
    /// The line that says the most about the network.
    pub(super) evidence: Option<String>,
}

impl Process {
    /// Adds what the groups of a pattern say.
    pub(super) fn add(&mut self, line: &str, groups: &Captures<'_>) {
        let text = |name: &str| groups.name(name).map(|group| group.as_str());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u32>().ok());
        let kept = |name: &str| text(name).map(shortened);
        if let (Some(library), Some(version)) = (text("library"), text("version")) {
            self.version.get_or_insert_with(|| shortened(&format!("{library}CCL {version}")));
        }
        if let Some(network) = text("network") {
            insert(&mut self.networks, shortened(network.trim_end()));
            self.evidence.get_or_insert_with(|| shortened(line));
        }
        if let Some(path) = text("path") {
            if self.paths.is_empty() {
                self.evidence = Some(shortened(line));
            }
            if !self.paths.contains(path) {
                insert(&mut self.paths, shortened(path));
            }
            let count = if text("gdr").is_some() { &mut self.with_gdr } else { &mut self.without_gdr };
            *count = count.saturating_add(1);
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
        self.nodes = self.nodes.max(number("nodes").unwrap_or_default());
        self.is_mnnvl |= text("mnnvl") == Some("1");
        self.is_complete |= text("complete").is_some();
        self.has_socket |= text("socket").is_some();
        if let Some(id) = text("comm").and_then(|id| u64::from_str_radix(id, 16).ok()) {
            insert(&mut self.communicators, id);
        }
        let facts = [
            (&mut self.devices, "devices"),
            (&mut self.provider, "provider"),
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
            self.size = size;
            self.ranks.clear();
        }
        if size == self.size {
            insert(&mut self.ranks, rank);
        }
    }

    /// Adds a cause.
    pub(super) fn add_cause(&mut self, cause: usize, line: &str) {
        if self.causes.len() < MOST && !self.causes.iter().any(|(known, _)| *known == cause) {
            self.causes.push((cause, shortened(line)));
        }
    }

    /// Returns whether the process says anything about a communicator.
    pub(super) fn is_rank(&self) -> bool {
        self.size > 0 || self.has_socket || !self.networks.is_empty() || !self.paths.is_empty() || self.nvlink
    }
}

fn insert<T: Ord>(set: &mut BTreeSet<T>, item: T) {
    if set.len() < MOST {
        set.insert(item);
    }
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim().to_owned()
}
