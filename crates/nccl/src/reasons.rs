//! The causes of a verdict, with their lines: those that nothing in the job contradicts.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::process::{Named, Position, Process};
use super::signatures::{Cause, Signatures};
use super::verdict::Verdict;

/// A cause, with the line that names it.
#[derive(Debug, Serialize)]
pub struct Reason {
    pub code: String,
    pub message: String,
    pub remedy: String,
    pub evidence: Option<Evidence>,
    /// The processes that have such a line.
    #[serde(rename = "processes")]
    pub count: usize,
    #[serde(skip)]
    pub(super) weight: u8,
    /// True for a cause that keeps ranks from connecting over the fabric, or at all, without ending them.
    #[serde(skip)]
    pub(super) is_before: bool,
}

/// A line, and its source.
#[derive(Debug, Serialize)]
pub struct Evidence {
    pub source: String,
    pub line: String,
}

impl Reason {
    /// A reason that no line shows.
    pub(super) fn new(code: &str, message: &str, remedy: &str) -> Self {
        let [code, message, remedy] = [code, message, remedy].map(str::to_owned);
        Self { code, message, remedy, evidence: None, count: 0, weight: 0, is_before: false }
    }
}

/// The weight of a cause that is only a consequence.
pub(super) const CONSEQUENCE: u8 = 2;

/// The cause of a code, without evidence.
pub(super) fn reason_of(code: &str, signatures: &Signatures) -> Option<Reason> {
    let Cause { code, message, remedy, .. } = signatures.cause(signatures.cause_of(code)?);
    Some(Reason { count: 1, ..Reason::new(code, message, remedy) })
}

/// The facts of a job, each with the last line that has it.
#[derive(Debug, Default)]
pub(super) struct JobFacts<'j> {
    everywhere: BTreeMap<usize, Position>,
    of_source: HashMap<&'j str, BTreeMap<usize, Position>>,
    /// Those of lines without a process, which belong to each process of their source.
    without_process: HashMap<&'j str, BTreeMap<usize, Position>>,
}

impl<'j> JobFacts<'j> {
    pub(super) fn new(job: &[&'j Process]) -> Self {
        let mut facts = Self::default();
        for process in job {
            for (fact, at) in &process.facts {
                let add = |all: &mut BTreeMap<usize, Position>| {
                    let last = all.entry(*fact).or_insert(*at);
                    *last = (*at).max(*last);
                };
                add(&mut facts.everywhere);
                add(facts.of_source.entry(&process.source).or_default());
                if process.host.is_empty() {
                    add(facts.without_process.entry(&process.source).or_default());
                }
            }
        }
        facts
    }

    /// Returns whether a cause holds that a process names: the job has what it needs, and nothing that contradicts it.
    pub(super) fn allow(&self, named: &Named, process: &Process, signatures: &Signatures) -> bool {
        let cause = signatures.cause(named.cause);
        let of_source = if process.host.is_empty() { &self.of_source } else { &self.without_process };
        let says = |name: &String| {
            let Some((at, fact)) = signatures.fact(name) else { return false };
            let near = [Some(&process.facts), of_source.get(process.source.as_str())];
            let places = if fact.everywhere { [Some(&self.everywhere), None] } else { near };
            // The state of a pod has no place among the lines.
            let counts = |last: &Position| !fact.later || *last > named.at || named.at == Position::END;
            places.into_iter().flatten().any(|facts| facts.get(&at).is_some_and(counts))
        };
        cause.needs.iter().all(says) && !cause.contradicted_by.iter().any(says)
    }
}

/// The causes of processes of a job that hold, in the order of the tables.
pub(super) fn reasons(
    processes: &[&Process],
    job: &JobFacts<'_>,
    signatures: &Signatures,
    is_wanted: impl Fn(&Cause) -> bool,
) -> Vec<Reason> {
    let mut found: BTreeMap<usize, (&Process, &String, usize)> = BTreeMap::new();
    for process in processes {
        for named in process.causes.iter().filter(|named| job.allow(named, process, signatures)) {
            found.entry(named.cause).or_insert((process, &named.line, 0)).2 += 1;
        }
    }
    let reason = |(at, (process, line, count)): (usize, (&Process, &String, usize))| {
        let Cause { code, message, remedy, fatal, follows, .. } = signatures.cause(at);
        let explains = |verdict| !fatal && signatures.cause(at).explains(verdict);
        let is_before = explains(Verdict::Tcp) || explains(Verdict::Unknown);
        let weight = if *follows { CONSEQUENCE } else { u8::from(!fatal && !explains(Verdict::Unknown)) };
        let evidence = Some(Evidence { source: process.source.clone(), line: line.clone() });
        Reason { evidence, count, weight, is_before, ..Reason::new(code, message, remedy) }
    };
    found.into_iter().filter(|(at, _)| is_wanted(signatures.cause(*at))).map(reason).collect()
}

/// Names a process that has fewer adapters than another one, for releases before 2.30.3, which do not.
pub(super) fn uneven(processes: &[&Process], signatures: &Signatures) -> Option<Reason> {
    let count = |devices: &str| devices.matches('[').count();
    let lists = processes.iter().filter_map(|process| Some((*process, process.devices.first()?)));
    let (process, fewest) = lists.clone().min_by_key(|(_, devices)| count(devices))?;
    let (_, most) = lists.max_by_key(|(_, devices)| count(devices))?;
    if count(fewest) == count(most) {
        return None;
    }
    let reason = reason_of("other_device_counts", signatures)?;
    let has_named = |process: &&Process| process.has(signatures.cause_of(&reason.code));
    let evidence = Some(Evidence { source: process.source.clone(), line: fewest.clone() });
    (!processes.iter().any(has_named)).then_some(Reason { evidence, ..reason })
}

/// Why the log is inconclusive, and the remedy, if that is different.
pub(super) fn unknown(code: &str, remedy: Option<&str>, signatures: &Signatures) -> Option<Reason> {
    let unknown = signatures.unknown(code)?;
    Some(Reason::new(&unknown.code, &unknown.message, remedy.unwrap_or(&unknown.remedy)))
}
