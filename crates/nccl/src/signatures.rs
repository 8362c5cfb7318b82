//! The tables of the meaning of log lines.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;

use fabric_yaml as yaml;
use fabric_yaml::pointer::{at_pointer, expanded, field_path};

use super::process::Process;
use super::verdict::Verdict;

static BUILT_IN: LazyLock<Result<Signatures, SignaturesError>> = LazyLock::new(|| {
    Signatures::read(&[
        include_str!("../../../signatures/network.yaml"),
        include_str!("../../../signatures/causes.yaml"),
        include_str!("../../../signatures/pods.yaml"),
        include_str!("../../../signatures/machines.yaml"),
    ])
});

/// Why tables cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignaturesError(String);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    lines: Vec<Line>,
    #[serde(default)]
    networks: Vec<Network>,
    #[serde(default)]
    causes: Vec<Cause>,
    #[serde(default)]
    unknown: Vec<Unknown>,
    policy: Option<String>,
    machine: Option<String>,
    #[serde(default)]
    job_labels: Vec<String>,
    #[serde(default)]
    machines: Vec<Machine>,
}

/// The bandwidth between machines of a type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    #[serde(rename = "machine")]
    name: String,
    busbw: f64,
    #[expect(dead_code, reason = "for readers of the table")]
    source: String,
}

/// A line about the network of a rank.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    contains: Vec<String>,
    pattern: String,
    #[expect(dead_code, reason = "for readers of the table")]
    versions: String,
    #[expect(dead_code, reason = "for readers of the table")]
    source: String,
}

/// The kind of a network, by its name and other facts about the process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    #[serde(rename = "network")]
    name: String,
    provider: Option<String>,
    devices: Option<String>,
    gdr: Option<bool>,
    is: NetworkKind,
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NetworkKind {
    Fabric,
    Tcp,
    Unknown,
}

/// A line that names a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the table")]
pub(super) struct Cause {
    pub(super) code: String,
    #[serde(default)]
    contains: Vec<String>,
    /// Paths of a pod.
    #[serde(default)]
    at: Vec<String>,
    pattern: Option<String>,
    unless: Option<String>,
    /// A path that the pod does not have.
    without: Option<String>,
    explains: Vec<Effect>,
    #[serde(default)]
    pub(super) fatal: bool,
    #[serde(default)]
    pub(super) follows: bool,
    #[serde(default)]
    pub(super) at_end: bool,
    #[serde(default)]
    pub(super) leaves_tcp: bool,
    #[serde(rename = "cause")]
    pub(super) message: String,
    pub(super) remedy: String,
    #[expect(dead_code, reason = "for readers of the table")]
    versions: Option<String>,
    #[expect(dead_code, reason = "for readers of the table")]
    source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effect {
    Tcp,
    Crash,
    Unknown,
    Slow,
}

/// Why a log is inconclusive, and the remedy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unknown {
    pub(super) code: String,
    #[serde(rename = "cause")]
    pub(super) message: String,
    pub(super) remedy: String,
}

/// The tables, ready to search lines.
#[derive(Debug)]
pub struct Signatures {
    /// A line must have at least one of these texts.
    texts: AhoCorasick,
    /// The signature of each text.
    of_text: Vec<usize>,
    all: Vec<Signature>,
    networks: Vec<(NetworkPatterns, NetworkKind, Option<String>)>,
    causes: Vec<Cause>,
    unknown: Vec<Unknown>,
    /// The causes of pods, each with its pattern.
    of_pods: Vec<(usize, Option<Regex>)>,
    policy: String,
    machine: String,
    job_labels: Vec<String>,
    machines: Vec<Machine>,
}

/// A line of the tables: `cause` is its place among the causes, if it is one.
#[derive(Debug)]
struct Signature {
    pattern: Option<Regex>,
    unless: Option<Regex>,
    cause: Option<usize>,
}

/// The meaning of a line.
pub(super) enum LineMeaning<'l> {
    /// The place of a cause in the tables.
    Cause(usize),
    Facts(Captures<'l>),
}

#[derive(Debug)]
struct NetworkPatterns {
    network: Regex,
    provider: Option<Regex>,
    devices: Option<Regex>,
    gdr: Option<bool>,
}

impl Signatures {
    /// The tables of this program.
    pub fn built_in() -> Result<&'static Self, SignaturesError> {
        BUILT_IN.as_ref().map_err(Clone::clone)
    }

    /// Reads tables. Each list is that of all texts together.
    pub fn read(texts: &[&str]) -> Result<Self, SignaturesError> {
        let mut all = Tables::default();
        for text in texts {
            let read = yaml::read_value(text).map_err(|error| SignaturesError(format!("{error:?}")))?;
            let root = read.root.unwrap_or(Value::Null);
            let tables: Tables =
                serde_json::from_value(root).map_err(|error| SignaturesError(error.to_string()))?;
            all.lines.extend(tables.lines);
            all.networks.extend(tables.networks);
            all.causes.extend(tables.causes);
            all.unknown.extend(tables.unknown);
            all.policy = all.policy.or(tables.policy);
            all.machine = all.machine.or(tables.machine);
            all.job_labels.extend(tables.job_labels);
            all.machines.extend(tables.machines);
        }
        Self::new(all)
    }

    fn new(tables: Tables) -> Result<Self, SignaturesError> {
        let Tables { lines, networks, causes, unknown, policy, machine, job_labels, machines } = tables;
        let mut of_pods = Vec::new();
        let (mut contains, mut of_text, mut signatures) = (Vec::new(), Vec::new(), Vec::new());
        let of_lines = lines.iter().map(|line| (&line.contains, Some(&line.pattern), None));
        let of_causes =
            causes.iter().enumerate().map(|(at, cause)| (&cause.contains, cause.pattern.as_ref(), Some(at)));
        for (texts, pattern, cause) in of_lines.chain(of_causes) {
            if let Some(at) = cause.filter(|at| !causes[*at].at.is_empty()) {
                of_pods.push((at, pattern.map(|pattern| compile(pattern)).transpose()?));
                continue;
            }
            // Findings from other parts of the cluster have only a code.
            if cause.is_some() && texts.is_empty() && pattern.is_none() {
                continue;
            }
            if texts.iter().any(String::is_empty) || texts.is_empty() {
                return Err(SignaturesError("`contains` must have a text".to_owned()));
            }
            of_text.extend(texts.iter().map(|_| signatures.len()));
            contains.extend(texts.iter());
            let unless = cause.and_then(|at| causes[at].unless.as_deref());
            signatures.push(Signature {
                pattern: pattern.map(|pattern| compile(pattern)).transpose()?,
                unless: unless.map(compile).transpose()?,
                cause,
            });
        }
        let network = |of: Network| {
            let optional = |pattern: Option<String>| pattern.map(|pattern| compile(&pattern)).transpose();
            let patterns = NetworkPatterns {
                network: compile(&of.name)?,
                provider: optional(of.provider)?,
                devices: optional(of.devices)?,
                gdr: of.gdr,
            };
            Ok((patterns, of.is, of.remedy))
        };
        let networks = networks.into_iter().map(network).collect::<Result<_, SignaturesError>>()?;
        // By default, only a hundred texts or fewer become the fastest form.
        let texts = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .build(contains)
            .map_err(|error| SignaturesError(error.to_string()))?;
        let (policy, machine) = (policy.unwrap_or_default(), machine.unwrap_or_default());
        Ok(Self {
            texts,
            of_text,
            all: signatures,
            networks,
            causes,
            unknown,
            of_pods,
            policy,
            machine,
            job_labels,
            machines,
        })
    }

    /// The places in a text where a line may have a signature.
    pub(super) fn candidates<'h>(&self, text: &'h [u8]) -> impl Iterator<Item = usize> + use<'_, 'h> {
        self.texts.find_iter(text).map(|found| found.start())
    }

    /// The meanings of a line, in the order of the tables.
    pub(super) fn meanings<'l>(&self, line: &'l str) -> Vec<LineMeaning<'l>> {
        let mut found: Vec<usize> = self
            .texts
            .find_overlapping_iter(line)
            .map(|text| self.of_text[text.pattern().as_usize()])
            .collect();
        found.sort_unstable();
        found.dedup();
        let said = |at: usize| {
            let Signature { pattern, unless, cause } = &self.all[at];
            if unless.as_ref().is_some_and(|unless| unless.is_match(line)) {
                return None;
            }
            match (cause, pattern) {
                (Some(cause), None) => Some(LineMeaning::Cause(*cause)),
                (Some(cause), Some(pattern)) => pattern.is_match(line).then_some(LineMeaning::Cause(*cause)),
                (None, pattern) => pattern.as_ref()?.captures(line).map(LineMeaning::Facts),
            }
        };
        found.into_iter().filter_map(said).collect()
    }

    /// The kind of a network, and how to find it if that is unknown.
    pub(super) fn network(&self, name: &str, process: &Process) -> (NetworkKind, Option<&str>) {
        let has_gdr = process.with_gdr > 0;
        let is = |pattern: &Option<Regex>, texts: &BTreeSet<String>| {
            pattern.as_ref().is_none_or(|one| texts.iter().any(|text| one.is_match(text)))
        };
        let found = self.networks.iter().find(|(patterns, ..)| {
            patterns.network.is_match(name)
                && is(&patterns.provider, &process.providers)
                && is(&patterns.devices, &process.devices)
                && patterns.gdr.is_none_or(|gdr| gdr == has_gdr)
        });
        found.map_or((NetworkKind::Unknown, None), |(_, is, remedy)| (*is, remedy.as_deref()))
    }

    /// The causes in a pod, each with the field that shows it.
    pub(super) fn of_pod(&self, pod: &Value) -> Vec<(usize, String)> {
        let of_cause = |(at, pattern): &(usize, Option<Regex>)| {
            let cause = &self.causes[*at];
            let is_absent = |path: &String| at_pointer(pod, path).is_none();
            let places = cause.at.iter().flat_map(|path| expanded(pod, path));
            let mut fields = places.filter_map(|place| {
                let value = at_pointer(pod, &place)?;
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let matches = pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text));
                matches.then(|| format!("{}: {text}", field_path(pod, &place)))
            });
            let field = fields.next().filter(|_| cause.without.as_ref().is_none_or(is_absent))?;
            Some((*at, field))
        };
        self.of_pods.iter().filter_map(of_cause).collect()
    }

    /// The policy that injected a pod, with its digest.
    pub(super) fn policy<'p>(&self, pod: &'p Value) -> Option<&'p str> {
        at_pointer(pod, &self.policy)?.as_str()
    }

    /// The type of the machine that a pod selects.
    pub(super) fn machine<'p>(&self, pod: &'p Value) -> Option<&'p str> {
        at_pointer(pod, &self.machine)?.as_str()
    }

    /// The bandwidth between machines of a type, in GB/s.
    pub(super) fn expected(&self, machine: &str) -> Option<f64> {
        self.machines.iter().find(|known| known.name == machine).map(|known| known.busbw)
    }

    /// The labels of pods that have the name of their job.
    pub fn job_labels(&self) -> &[String] {
        &self.job_labels
    }

    /// The place of a cause in the tables.
    pub(super) fn cause_of(&self, code: &str) -> Option<usize> {
        self.causes.iter().position(|cause| cause.code == code)
    }

    pub(super) fn cause(&self, at: usize) -> &Cause {
        &self.causes[at]
    }

    pub(super) fn unknown(&self, code: &str) -> Option<&Unknown> {
        self.unknown.iter().find(|unknown| unknown.code == code)
    }
}

impl Cause {
    /// Returns whether this can be the cause of a verdict.
    pub(super) fn explains(&self, verdict: Verdict) -> bool {
        self.explains.iter().any(|effect| match effect {
            Effect::Tcp => matches!(verdict, Verdict::Tcp | Verdict::Mixed),
            Effect::Crash => verdict == Verdict::Crash,
            Effect::Unknown => verdict == Verdict::Unknown,
            Effect::Slow => false,
        })
    }

    /// Returns whether this makes a job slow.
    pub(super) fn slows(&self) -> bool {
        self.explains.contains(&Effect::Slow)
    }
}

fn compile(pattern: &str) -> Result<Regex, SignaturesError> {
    Regex::new(pattern).map_err(|error| SignaturesError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read() {
        Signatures::built_in().unwrap();
        let error = Signatures::read(&["lines: [{contains: [a], pattern: '(', versions: a, source: b}]"]);
        assert!(error.unwrap_err().to_string().contains("unclosed group"));
        let error = Signatures::read(&["lines: [{contains: [], pattern: a, versions: a, source: b}]"]);
        assert_eq!(error.unwrap_err().to_string(), "`contains` must have a text");
    }
}
