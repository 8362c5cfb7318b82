//! Reads lines into the facts of each process, in bounded memory.

use std::collections::HashMap;

use serde_json::Value;

use super::counters::Traffic;
use super::origin::{Origin, records, unwrapped};
use super::pods::{Variables, container_with_devices, variables};
use super::process::{Position, Process, name, text};
use super::signatures::{LineMeaning, Signatures};

/// The longest line, in bytes. NCCL's have 1,024 at most.
const LONGEST_LINE: usize = 32 << 10;
/// The limit on processes; a job of 10,000 GPUs has as many.
pub(super) const MOST_PROCESSES: usize = 20_000;
/// The limit on rows of nccl-tests.
const MOST_ROWS: usize = 1_000;

/// The source, the host and the process.
type Key = (String, String, u32);

/// The logs of a job, or of several, as far as they are read.
#[derive(Debug)]
pub struct Log<'k> {
    pub(super) signatures: &'k Signatures,
    source: String,
    position: Position,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    /// True while the rest of a line is left out that is too long.
    skips: bool,
    places: HashMap<Key, usize>,
    pub(super) processes: Vec<Process>,
    /// The values that pods give to variables, by their names.
    variables: HashMap<String, Variables>,
    /// True if there are more processes than are kept.
    pub(super) has_more: bool,
    /// The rows of nccl-tests: bytes, and GB/s.
    pub(super) rows: Vec<(u64, f64)>,
    pub(super) levels: Levels,
}

/// The levels of the lines of NCCL, also of those that say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Levels {
    pub(super) has_info: bool,
    pub(super) has_warning: bool,
}

impl<'k> Log<'k> {
    /// A log without lines.
    pub fn new(signatures: &'k Signatures) -> Self {
        Self {
            signatures,
            source: String::new(),
            position: Position::default(),
            rest: Vec::new(),
            skips: false,
            places: HashMap::new(),
            processes: Vec::new(),
            variables: HashMap::new(),
            has_more: false,
            rows: Vec::new(),
            levels: Levels::default(),
        }
    }

    /// Begins another file or pod.
    pub fn begin(&mut self, source: &str) {
        self.end();
        source.clone_into(&mut self.source);
        self.position.file += 1;
    }

    /// Adds the status of a pod, whose log has its name as source.
    pub fn add_pod(&mut self, pod: &Value) {
        let Some(name) = pod["metadata"]["name"].as_str() else { return };
        let signatures = self.signatures;
        self.variables.insert(name.to_owned(), variables(pod));
        let Some(process) = self.pod(name) else { return };
        for (cause, field) in signatures.of_pod(pod) {
            process.add_cause(cause, &field, Position::END, false);
        }
        process.has_devices = container_with_devices(pod).is_some();
        process.policy = signatures.policy(pod).map(str::to_owned);
        process.machine = signatures.machine(pod).map(str::to_owned);
    }

    /// Adds a cause that is not in the log of a pod, with its evidence. A code that is in no table is ignored.
    pub fn add_cause(&mut self, pod: &str, code: &str, evidence: &str) {
        if let (Some(cause), Some(process)) = (self.signatures.cause_of(code), self.pod(pod)) {
            process.add_cause(cause, evidence, Position::END, false);
        }
    }

    /// Adds the output of the [script](super::COUNTERS) in a pod. Returns whether it proves anything.
    pub fn add_counters(&mut self, pod: &str, printed: &str) -> bool {
        let traffic = Traffic::read(printed);
        let proves = traffic.is_some();
        if let Some(process) = self.pod(pod) {
            process.traffic = traffic;
        }
        proves
    }

    /// The facts in the log of a pod that belong to no process.
    fn pod(&mut self, name: &str) -> Option<&mut Process> {
        let origin = Origin { pod: Some(name), process: None, is_info: false, is_nccl: false };
        let place = self.process(&origin)?;
        Some(&mut self.processes[place])
    }

    /// Reads the next bytes, which may begin and end within a line.
    pub fn read(&mut self, bytes: &[u8]) {
        let Some(first) = memchr::memchr2(b'\n', b'\r', bytes) else {
            self.keep(bytes);
            return;
        };
        let last = memchr::memrchr2(b'\n', b'\r', bytes).unwrap_or(first);
        self.keep(&bytes[..first]);
        let line = std::mem::take(&mut self.rest);
        self.skips = false;
        self.lines(&line);
        self.lines(&bytes[first..last]);
        self.keep(&bytes[last + 1..]);
    }

    /// Reads the last line, which has no end.
    pub fn end(&mut self) {
        let line = std::mem::take(&mut self.rest);
        self.skips = false;
        self.lines(&line);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !self.skips {
            let room = LONGEST_LINE.saturating_sub(self.rest.len());
            self.rest.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.skips = bytes.len() > room;
        }
    }

    /// Reads whole lines: those that have a text of the tables.
    fn lines(&mut self, text: &[u8]) {
        let Levels { has_info, has_warning } = &mut self.levels;
        *has_info = *has_info || memchr::memmem::find(text, b" NCCL INFO ").is_some();
        *has_warning = *has_warning || memchr::memmem::find(text, b" NCCL WARN ").is_some();
        let (signatures, mut done) = (self.signatures, 0);
        for at in signatures.candidates(text) {
            if at < done {
                continue;
            }
            let begin = memchr::memrchr2(b'\n', b'\r', &text[..at]).map_or(0, |end| end + 1).max(done);
            let end = memchr::memchr2(b'\n', b'\r', &text[at..]).map_or(text.len(), |end| at + end);
            let line = &text[begin..end.min(begin + LONGEST_LINE)];
            self.line(&String::from_utf8_lossy(line));
            done = end;
        }
    }

    /// Marks the ranks as connected whose source has rows of nccl-tests after their communicator was ready.
    pub(super) fn connect_tested(&mut self) {
        let is_row = |process: &&Process| process.host.is_empty() && process.is_connected;
        let rows: HashMap<String, Option<Position>> =
            self.processes.iter().filter(is_row).map(|one| (one.source.clone(), one.got_on)).collect();
        for process in self.processes.iter_mut().filter(|process| process.completed.is_some()) {
            process.is_connected |= rows.get(&process.source).is_some_and(|row| *row > process.completed);
        }
    }

    fn line(&mut self, raw: &str) {
        let text = unwrapped(raw.trim_end());
        for line in records(&text) {
            self.record(line);
        }
    }

    fn record(&mut self, line: &str) {
        let said = self.signatures.meanings(line);
        if said.is_empty() {
            return;
        }
        let origin = Origin::parse(line);
        self.position.line += 1;
        let at = self.position;
        let Some(place) = self.process(&origin) else { return };
        let variables = self.variables.get(origin.pod.unwrap_or(&self.source));
        let process = &mut self.processes[place];
        process.has_info |= origin.is_info;
        process.last = at;
        let line = origin.own(line);
        for said in said {
            let groups = match said {
                LineMeaning::Cause(cause) => {
                    process.add_cause(cause, line, at, origin.is_info);
                    continue;
                }
                // A line of NCCL that a script quotes says nothing.
                LineMeaning::Fact(fact) => {
                    if origin.is_nccl || !line.contains("NCCL ") {
                        process.facts.insert(fact, at);
                    }
                    continue;
                }
                LineMeaning::Facts(groups) => groups,
            };
            let group = |name: &str| text(&groups, name);
            let row = (group("size").map(str::parse), group("busbw").map(str::parse));
            if let (Some(Ok(size)), Some(Ok(busbw))) = row
                && self.rows.len() < MOST_ROWS
            {
                self.rows.push((size, busbw));
            }
            if group("busbw").or(group("row")).is_some() {
                (process.is_connected, process.got_on) = (true, Some(at));
            } else if !origin.is_nccl {
                // Lines of another program do not concern the network.
                process.add_version(&groups);
            } else {
                let of_pod = variables.zip(group("variable")).and_then(|(all, name)| all.get(name));
                if of_pod
                    .zip(group("value"))
                    .is_some_and(|(values, value)| !values.contains(&Some(value.to_owned())))
                    && let Some(cause) = self.signatures.cause_of("variable_changed")
                {
                    process.add_cause(cause, line, at, true);
                }
                process.add(line, &groups);
                process.add_end(line, &groups, at);
            }
        }
    }

    /// The place of the process of a line. `None` for one that is too many.
    fn process(&mut self, origin: &Origin<'_>) -> Option<usize> {
        let (host, pid) = origin.process.unwrap_or_default();
        let key = (name(origin.pod.unwrap_or(&self.source)), name(host), pid);
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.processes.len() == MOST_PROCESSES {
            self.has_more = true;
            return None;
        }
        let place = self.processes.len();
        self.processes.push(Process {
            source: key.0.clone(),
            host: key.1.clone(),
            pid,
            first: self.position,
            ..Process::default()
        });
        self.places.insert(key, place);
        Some(place)
    }
}
