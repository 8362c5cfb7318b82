//! Judges jobs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::counters::Traffic;
use super::groups::groups;
use super::log::{Levels, Log};
use super::process::{Position, Process};
use super::ranks::{names_tcp, of_process};
use super::reasons::{CONSEQUENCE, Evidence, JobFacts, Reason, reason_of, reasons, uneven, unknown};
use super::signatures::{Cause, Signatures};
use super::verdict::Verdict;

/// The diagnosis of the jobs in logs.
#[derive(Debug)]
pub struct Diagnosis {
    pub verdict: Verdict,
    /// Those that are not on the fabric first.
    pub jobs: Vec<Job>,
    /// The rows of nccl-tests: bytes, and GB/s.
    pub bandwidth: Vec<(u64, f64)>,
    /// The machine, and the bandwidth between machines of that type in GB/s, if it is known.
    pub expected: Option<(String, f64)>,
    /// True if there are more processes than are kept.
    pub is_partial: bool,
}

/// The diagnosis of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub verdict: Verdict,
    /// True if the pods began another job after this one had ended.
    #[serde(rename = "restarted")]
    pub was_restarted: bool,
    #[serde(rename = "cause")]
    pub reason: Option<Reason>,
    /// The cause of its slowness.
    pub notes: Vec<Reason>,
    /// The most ranks and nodes of a communicator; 0 if no line says it.
    pub size: u32,
    pub nodes: u32,
    /// The policies that injected the pods, with their digests.
    pub policies: BTreeSet<String>,
    pub versions: BTreeSet<String>,
    pub networks: BTreeSet<String>,
    pub providers: BTreeSet<String>,
    pub adapters: BTreeSet<String>,
    /// The traffic of its pods' adapters, if that proves the fabric and the log does not.
    pub traffic: Option<Traffic>,
    /// Whether all connections use GPUDirect RDMA, and whether any does; `None` if no line says it.
    pub gpu_direct: Option<bool>,
    #[serde(skip)]
    pub has_gpu_direct: bool,
    /// True if `NVLink` connects its nodes.
    #[serde(rename = "mnnvl")]
    pub is_mnnvl: bool,
    #[serde(rename = "bootstrap")]
    pub interfaces: BTreeSet<String>,
    #[serde(rename = "topology")]
    pub topologies: BTreeSet<String>,
    pub machines: BTreeSet<String>,
    #[serde(rename = "processes")]
    pub ranks: Vec<Rank>,
    #[serde(skip)]
    first: Position,
    #[serde(skip)]
    last: Position,
}

/// The diagnosis of a process of a job.
#[derive(Debug, Serialize)]
pub struct Rank {
    pub source: String,
    pub host: String,
    pub pid: u32,
    pub ranks: BTreeSet<u32>,
    pub verdict: Verdict,
    pub networks: BTreeSet<String>,
    /// The line that proves it.
    pub evidence: Option<String>,
}

impl Diagnosis {
    /// Judges the lines that are read so far.
    pub fn read(log: &mut Log<'_>) -> Self {
        log.end();
        let signatures = log.signatures;
        log.connect_tested();
        let levels = log.levels;
        let mut jobs: Vec<Job> =
            groups(&log.processes).iter().map(|processes| Job::new(processes, levels, signatures)).collect();
        for at in 0..jobs.len() {
            let has_ended = jobs[at].verdict == Verdict::Crash;
            jobs[at].was_restarted = has_ended && jobs.iter().any(|other| other.restarts(&jobs[at]));
        }
        jobs.sort_by_key(|job| (job.was_restarted, std::cmp::Reverse(job.verdict)));
        let verdict = jobs.first().map_or(Verdict::Unknown, |job| job.verdict);
        // Processes that were left out may use TCP.
        let verdict = if log.has_more && verdict < Verdict::Unknown { Verdict::Unknown } else { verdict };
        let mut machines = jobs.iter().flat_map(|job| &job.machines);
        let expected = machines.find_map(|machine| Some((machine.clone(), signatures.expected(machine)?)));
        Self { verdict, jobs, bandwidth: log.rows.clone(), expected, is_partial: log.has_more }
    }

    /// Returns whether all ranks of each job are in the log.
    pub fn is_whole(&self) -> bool {
        self.jobs.iter().all(|job| job.size > 0 && job.seen() == job.size as usize)
    }
}

impl Job {
    fn new(processes: &[&Process], levels: Levels, signatures: &Signatures) -> Self {
        let all = |of: &dyn Fn(&Process) -> Option<&String>| -> BTreeSet<String> {
            processes.iter().filter_map(|process| of(process).cloned()).collect()
        };
        let size = processes.iter().map(|process| process.size).max().unwrap_or_default();
        // A process may check its GPU alone before it joins the others.
        let is_alone = |process: &Process| process.size == 1 && size > 1 && process.paths.is_empty();
        let of_size = |process: &&&Process| process.size == size;
        // An MPI library on UCX next to NCCL carries little, and NCCL on one node next to UCX nothing between nodes.
        let has_nccl = processes.iter().any(|process| process.spans_nodes_by_nccl());
        let has_ucx = !has_nccl && processes.iter().any(|process| process.is_by_ucx());
        let is_rank =
            |process: &Process| if has_ucx { process.is_by_ucx() } else { process.is_rank_of_nccl() };
        let ranks: Vec<Rank> = processes
            .iter()
            .filter(|process| is_rank(process) && !is_alone(process))
            .map(|process| Rank {
                source: process.source.clone(),
                host: process.host.clone(),
                pid: process.pid,
                ranks: process.ranks.clone(),
                verdict: of_process(process, signatures).0,
                networks: process.names().cloned().collect(),
                evidence: process.evidence.clone(),
            })
            .collect();
        let with: u64 = processes.iter().map(|process| process.with_gdr).sum();
        let without: u64 = processes.iter().map(|process| process.without_gdr).sum();
        // Also where its connections say that it is on.
        let is_off = processes.iter().any(|process| process.has(signatures.cause_of("no_gdr")));
        let listed = processes.iter().map(|process| process.listed.len()).max().unwrap_or_default();
        let nodes = processes
            .iter()
            .filter(of_size)
            .map(|process| process.nodes)
            .max()
            .filter(|nodes| *nodes > 0 && !has_ucx);
        let mut job = Self {
            verdict: Verdict::Unknown,
            reason: None,
            notes: Vec::new(),
            size: if has_ucx { 0 } else { size },
            nodes: nodes.unwrap_or_else(|| u32::try_from(listed).unwrap_or_default()),
            policies: all(&|process| process.policy.as_ref()),
            versions: all(&|process| process.version.as_ref()),
            networks: ranks.iter().flat_map(|rank| rank.networks.iter().cloned()).collect(),
            adapters: processes.iter().flat_map(|process| process.devices.iter().cloned()).collect(),
            providers: processes.iter().flat_map(|process| process.providers.iter().cloned()).collect(),
            interfaces: all(&|process| process.interface.as_ref()),
            topologies: all(&|process| process.topology.as_ref()),
            machines: all(&|process| process.machine.as_ref()),
            gpu_direct: (with + without > 0 || is_off).then_some(without == 0 && !is_off),
            has_gpu_direct: with > 0,
            is_mnnvl: processes.iter().any(|process| process.is_mnnvl || process.nvlink),
            ranks,
            traffic: None,
            was_restarted: false,
            first: processes.iter().map(|process| process.first).min().unwrap_or_default(),
            last: processes.iter().map(|process| process.last).max().unwrap_or_default(),
        };
        let why = job.judge(processes, levels, signatures);
        if job.verdict == Verdict::Unknown
            && !processes.iter().any(|process| names_tcp(process, signatures))
            && let Some(traffic) = moved(processes)
        {
            (job.verdict, job.traffic) = (Verdict::Fabric, Some(traffic));
        }
        let is_open = job.verdict == Verdict::Unknown;
        job.reason = job.cause(processes, signatures).or(why.filter(|_| is_open));
        // If the verdict is unknown, a cause that may come into effect.
        let may_be = job.verdict == Verdict::Unknown;
        let slow = |cause: &Cause| {
            (cause.slows() || may_be && cause.explains(Verdict::Crash))
                && job.reason.as_ref().is_none_or(|reason| reason.code != cause.code)
        };
        let is_on_tcp = |process: &Process| of_process(process, signatures).0 == Verdict::Tcp;
        let others: Vec<&Process> = processes.iter().filter(|process| !is_on_tcp(process)).copied().collect();
        job.notes = reasons(&others, &JobFacts::new(processes), signatures, slow);
        job.notes.extend(uneven(&others, signatures));
        job
    }

    /// Sets the verdict. If that is `unknown`, returns why.
    fn judge(&mut self, processes: &[&Process], levels: Levels, signatures: &Signatures) -> Option<Reason> {
        // Errors at the end of a connection also occur when all ranks have finished their work.
        let is_connected =
            !self.ranks.is_empty() && self.ranks.iter().all(|rank| rank.verdict != Verdict::Unknown);
        let facts = JobFacts::new(processes);
        let is_fatal = |process: &&Process| {
            let has_returned = process.returned.is_some_and(|at| {
                process.finished.is_none_or(|end| end > at) && ended(processes, process, at)
            });
            has_returned
                || process.causes.iter().any(|named| {
                    let cause = signatures.cause(named.cause);
                    let is_of_end = cause.at_end && is_connected;
                    let is_fatal = cause.fatal && !is_of_end && facts.allow(named, process, signatures);
                    is_fatal && named.last.is_some_and(|at| ended(processes, process, at))
                })
        };
        // Its data leaves the node, whatever NCCL does.
        let moves_by_nixl = |process: &&Process| process.has(signatures.cause_of("nixl_log_level"));
        let count = |verdict| self.ranks.iter().filter(|rank| rank.verdict == verdict).count();
        let (fabric, tcp, mixed) = (count(Verdict::Fabric), count(Verdict::Tcp), count(Verdict::Mixed));
        let without = self.ranks.len() - fabric - tcp - mixed;
        let unknown = |code: &str| unknown(code, None, signatures);
        if processes.iter().any(is_fatal) {
            self.verdict = Verdict::Crash;
        } else if self.ranks.is_empty() {
            let has_begun = |process: &&Process| {
                process.interface.is_some() || process.has_info && process.version.is_some()
            };
            return unknown(if processes.iter().any(has_begun) {
                "before_network"
            } else if levels.has_info || processes.iter().any(|process| process.has_info) {
                "no_network"
            } else if levels.has_warning || processes.iter().any(|process| !process.host.is_empty()) {
                "no_info"
            } else {
                "no_lines"
            });
        } else if self.is_on_one_node(processes) && !processes.iter().any(moves_by_nixl) {
            self.verdict = Verdict::SingleNode;
        } else if fabric > 0 && tcp + mixed == 0 && self.has_silent_ranks(processes) {
            return unknown("some_ranks");
        } else if mixed > 0 || tcp > 0 && fabric > 0 {
            self.verdict = Verdict::Mixed;
        } else if !self.spans_nodes(processes) {
            return unknown("no_nodes");
        } else if tcp > 0 && Self::may_use_nvlink(processes) {
            return unknown("not_connected");
        } else if tcp > 0 {
            self.verdict = Verdict::Tcp;
        } else if without == 0 {
            self.verdict = Verdict::Fabric;
        } else {
            let mut remedy = processes.iter().filter(|process| process.is_rank());
            let remedy = remedy.find_map(|process| of_process(process, signatures).1);
            let is_chosen = |process: &&Process| process.is_rank() && !process.networks.is_empty();
            let is_nameless =
                |process: &&Process| process.host.is_empty() && process.names().next().is_some();
            let code = match remedy {
                None if fabric > 0 => "some_ranks",
                None if processes.iter().any(is_nameless) => "no_process",
                None if processes.iter().any(is_chosen) => "not_connected",
                _ => "no_network",
            };
            return self::unknown(code, remedy, signatures);
        }
        None
    }

    /// Returns whether a line says that all ranks are on one node, or all of them are in the log of one host. The nodes
    /// of one `NVLink` domain count as one, and connections of such a communicator within a node read as those between
    /// nodes (`src/transport/p2p.cc`), so that the hosts decide there.
    fn is_on_one_node(&self, processes: &[&Process]) -> bool {
        let has_paths =
            processes.iter().any(|process| !process.paths.is_empty() || !process.transports.is_empty());
        let inner: BTreeSet<u32> =
            processes.iter().flat_map(|process| process.inner.iter().copied()).collect();
        let is_ring = inner.len() == self.size as usize;
        let is_whole = self.size > 0 && (self.seen() == self.size as usize || is_ring) && self.hosts() == 1;
        let is_one = if self.is_mnnvl || self.nodes == 0 { is_whole } else { self.nodes == 1 };
        !has_paths && is_one
    }

    /// Returns whether a rank is in one `NVLink` domain with the others, and none has a connection by the network.
    fn may_use_nvlink(processes: &[&Process]) -> bool {
        let is_within = |process: &&Process| process.is_mnnvl && process.nodes <= 1;
        processes.iter().any(is_within) && processes.iter().all(|process| process.paths.is_empty())
    }

    fn spans_nodes(&self, processes: &[&Process]) -> bool {
        // A rank that names its provider and nothing else.
        let is_of_provider = |process: &Process| !process.providers.is_empty() && process.size == 0;
        let connects = |process: &&Process| {
            !process.paths.is_empty()
                || !process.transports.is_empty()
                || process.has_socket && is_of_provider(process)
        };
        self.nodes > 1 || self.hosts() > 1 || processes.iter().any(connects)
    }

    /// The ranks that are in the log.
    pub(super) fn seen(&self) -> usize {
        self.ranks.iter().flat_map(|rank| &rank.ranks).collect::<BTreeSet<_>>().len()
    }

    fn hosts(&self) -> usize {
        let host =
            |rank: &'_ Rank| if rank.host.is_empty() { rank.source.clone() } else { rank.host.clone() };
        self.ranks.iter().map(host).collect::<BTreeSet<_>>().len()
    }

    /// Returns whether a process of NCCL has no communicator yet, while ranks are missing.
    fn has_silent_ranks(&self, processes: &[&Process]) -> bool {
        let is_silent = |process: &&Process| !process.host.is_empty() && !process.is_rank();
        self.seen() < self.size as usize && processes.iter().any(is_silent)
    }

    /// Returns whether this job began after another one had ended, in the same pods.
    fn restarts(&self, other: &Self) -> bool {
        let mut sources = other.ranks.iter().map(|rank| &rank.source);
        self.first > other.last && sources.any(|source| self.ranks.iter().any(|rank| rank.source == *source))
    }

    /// The first cause of the tables that explains the verdict.
    fn cause(&self, processes: &[&Process], signatures: &Signatures) -> Option<Reason> {
        let verdict = self.verdict;
        let is_on_tcp = |process: &&&Process| {
            !process.is_rank() || matches!(of_process(process, signatures).0, Verdict::Tcp | Verdict::Mixed)
        };
        let of_verdict: Vec<&Process> = match verdict {
            Verdict::Tcp | Verdict::Mixed => processes.iter().filter(is_on_tcp).copied().collect(),
            _ => processes.to_vec(),
        };
        let mut found =
            reasons(&of_verdict, &JobFacts::new(processes), signatures, |cause| cause.explains(verdict));
        if verdict == Verdict::Crash {
            // A cause that keeps ranks from connecting does not explain a later failure.
            let is_connected = processes.iter().any(|process| !process.paths.is_empty());
            found.retain(|reason| !(is_connected && reason.is_before));
            // The causes that ended it, those that may have led to that, and the consequences.
            found.sort_by_key(|reason| reason.weight);
        }
        let has_cause = found.first().is_some_and(|reason| reason.weight < CONSEQUENCE);
        let warned = || processes.iter().find_map(|process| Some((process, process.warning.clone()?)));
        // What ends after NCCL's error says less than its warning; any other consequence has a line of its own.
        let general = signatures.cause_of("nccl_error");
        let is_general = |reason: &Reason| signatures.cause_of(&reason.code) >= general;
        if verdict == Verdict::Crash
            && !has_cause
            && found.first().is_none_or(is_general)
            && let Some((process, warning)) = warned()
            && let Some(reason) = reason_of("nccl_error", signatures)
        {
            let evidence = Some(Evidence { source: process.source.clone(), line: warning });
            found.insert(0, Reason { evidence, ..reason });
        }
        found.into_iter().next()
    }
}

/// The traffic of the adapters of all pods with devices, if each of them moves enough.
fn moved(processes: &[&Process]) -> Option<Traffic> {
    let mut all = None::<Traffic>;
    for process in processes.iter().filter(|process| process.has_devices) {
        let Traffic { adapters, rate } = process.traffic.clone()?;
        let all = all.get_or_insert_default();
        all.adapters.extend(adapters);
        all.rate = all.rate.saturating_add(rate);
    }
    all
}

/// Returns whether no rank continued after a line: its own process, or a later one in its place. For a line that no
/// rank wrote, any rank of the pod or file counts.
fn ended(processes: &[&Process], process: &Process, last: Position) -> bool {
    let goes_on = |other: &&Process| {
        let is_next = other.source == process.source && other.host == process.host && other.first > last;
        let is_of_file =
            other.source == process.source || other.got_on.is_some_and(|at| at.file == last.file);
        let is_near =
            if process.host.is_empty() { is_of_file } else { std::ptr::eq(*other, process) || is_next };
        is_near && other.got_on.is_some_and(|at| at > last)
    };
    !processes.iter().any(goes_on)
}
