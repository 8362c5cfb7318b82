//! The report on a diagnosis.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use fabric_yaml::counted;

use super::bandwidth;
use super::counters::Traffic;
use super::jobs::{Diagnosis, Job, Rank};
use super::log::MOST_PROCESSES;
use super::reasons::{Evidence, Reason};
use super::verdict::Verdict;

/// The limit on named ranks.
const MOST_RANKS: usize = 8;

/// The report for people.
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for job in &diagnosis.jobs {
        job.write(&mut text);
    }
    text.push_str(&bandwidth::text(&diagnosis.bandwidth, diagnosis.expected.as_ref()));
    if diagnosis.is_partial {
        let _ = writeln!(text, "note: only the first {MOST_PROCESSES} processes are in this report");
    }
    text
}

impl Job {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "{}: {}", self.verdict, self.sentence());
        let direct = self.gpu_direct.filter(|_| self.verdict != Verdict::Tcp);
        let facts = [
            ("injected by", list(&self.policies)),
            ("version", list(&self.versions)),
            ("network", list(&self.networks)),
            ("provider", list(&self.providers)),
            ("adapters", list(&self.adapters)),
            ("GPUDirect RDMA", direct.map(|all| on(all, self.has_gpu_direct)).unwrap_or_default().to_owned()),
            ("NVLink between nodes", if self.is_mnnvl { "yes" } else { "" }.to_owned()),
            ("counters", self.traffic.as_ref().map(moved).unwrap_or_default()),
            ("bootstrap", list(&self.interfaces)),
            ("topology", list(&self.topologies)),
        ];
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(text, "  {name}: {value}");
        }
        if let Some(reason) = &self.reason {
            reason.write("cause", text);
        }
        let is_noted = !matches!(self.verdict, Verdict::Tcp | Verdict::SingleNode);
        for note in self.notes.iter().filter(|_| is_noted) {
            note.write("note", text);
        }
        let of_other = |rank: &&Rank| rank.verdict > Verdict::Fabric;
        let others: Vec<&Rank> = self.ranks.iter().filter(of_other).collect();
        let is_of_some = matches!(self.verdict, Verdict::Mixed | Verdict::Tcp | Verdict::Unknown);
        if is_of_some && others.len() < self.ranks.len() {
            text.push_str("ranks:\n");
            for rank in others.iter().take(MOST_RANKS) {
                let _ = writeln!(text, "  {}", rank.sentence());
            }
            if others.len() > MOST_RANKS {
                let _ = writeln!(text, "  and {} more, which `-o json` shows", others.len() - MOST_RANKS);
            }
        }
    }

    fn sentence(&self) -> String {
        let said = match self.verdict {
            Verdict::Crash if self.was_restarted => "an earlier attempt failed",
            Verdict::Fabric if self.is_mnnvl => "the data between machines uses NVLink or the fabric",
            Verdict::Fabric => "the data between nodes uses the fabric",
            Verdict::Tcp => "the data between nodes uses TCP",
            Verdict::Mixed => "some ranks use the fabric, and others TCP",
            Verdict::SingleNode => "all ranks are on one node, and use no network",
            Verdict::Crash => "the job failed",
            Verdict::Unknown => "the log does not say which network the job uses",
        };
        if self.size == 0 {
            return said.to_owned();
        }
        let nodes =
            if self.nodes == 0 { String::new() } else { format!(" on {}", counted(self.nodes, "node")) };
        format!("{said}; {} of {}{nodes} in this log", self.seen(), counted(self.size, "rank"))
    }
}

impl Rank {
    fn sentence(&self) -> String {
        let ranks: Vec<String> = self.ranks.iter().take(MOST_RANKS).map(u32::to_string).collect();
        let ranks = if ranks.is_empty() { String::new() } else { format!(", rank {}", ranks.join(", ")) };
        let evidence = self.evidence.as_deref().map(|line| format!(": {line}")).unwrap_or_default();
        format!("{}{ranks}: {}{evidence}", self.source, self.verdict)
    }
}

impl Reason {
    fn write(&self, kind: &str, text: &mut String) {
        let Self { code, message, remedy, evidence, count, .. } = self;
        let of = if *count > 1 { format!(", in {count} processes") } else { String::new() };
        let _ = writeln!(text, "{kind}: {message} ({code}{of})");
        if let Some(Evidence { source, line }) = evidence {
            let _ = writeln!(text, "  {source}: {line}");
        }
        let _ = writeln!(text, "  remedy: {remedy}");
    }
}

impl Diagnosis {
    /// The report for programs.
    pub fn object(&self) -> Value {
        let rows = self.bandwidth.iter().map(|(size, busbw)| json!({"size": size, "busbw": busbw}));
        json!({
            "verdict": self.verdict,
            "cause": self.jobs.first().map(|job| &job.reason),
            "jobs": self.jobs,
            "bandwidth": rows.collect::<Value>(),
            "expected": self.expected.as_ref().map(|(machine, busbw)| json!({"machine": machine, "busbw": busbw})),
            "partial": self.is_partial,
        })
    }
}

fn moved(Traffic { adapters, rate }: &Traffic) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits of it are shown")]
    let gigabytes = *rate as f64 / 1e9;
    format!("{} move {gigabytes:.2} GB/s", list(adapters))
}

fn list(items: &BTreeSet<String>) -> String {
    let mut shown: Vec<&str> = items.iter().take(3).map(String::as_str).collect();
    if items.len() > shown.len() {
        shown.push("…");
    }
    shown.join(", ")
}

fn on(all: bool, some: bool) -> &'static str {
    match (all, some) {
        (true, _) => "on",
        (false, true) => "off on some connections",
        (false, false) => "off",
    }
}
