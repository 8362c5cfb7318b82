//! The entries of the tables of the meaning of log lines.

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::verdict::Verdict;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tables {
    pub(super) lines: Vec<Line>,
    pub(super) networks: Vec<Network>,
    pub(super) causes: Vec<Cause>,
    pub(super) facts: Vec<Fact>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) policy: String,
    pub(super) machine: String,
    pub(super) job_labels: Vec<String>,
    pub(super) machines: Vec<Machine>,
}

/// A regular expression of a table. Its classes have the letters of ASCII: those of all alphabets take three times as long to
/// compile, and no log is read before.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub(super) Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, regex::Error> {
        RegexBuilder::new(&text).unicode(false).build().map(Self)
    }
}

impl Pattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// The bandwidth between machines of a type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    #[serde(rename = "machine")]
    pub(super) name: String,
    pub(super) busbw: f64,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) source: String,
}

/// A line about the network of a rank.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) contains: Vec<String>,
    pub(super) pattern: Pattern,
    pub(super) unless: Option<Pattern>,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) versions: String,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) source: String,
}

/// The kind of a network, by its name and other facts about the process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    #[serde(rename = "network")]
    pub(super) name: Pattern,
    pub(super) provider: Option<Pattern>,
    pub(super) devices: Option<Pattern>,
    pub(super) gdr: Option<bool>,
    pub(super) is: NetworkKind,
    pub(super) remedy: Option<String>,
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
    pub(super) contains: Vec<String>,
    /// Paths of a pod.
    #[serde(default)]
    pub(super) at: Vec<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) unless: Option<Pattern>,
    /// A path that the pod does not have.
    pub(super) without: Option<String>,
    pub(super) explains: Vec<Effect>,
    #[serde(default)]
    pub(super) fatal: bool,
    #[serde(default)]
    pub(super) follows: bool,
    #[serde(default)]
    pub(super) at_end: bool,
    #[serde(default)]
    pub(super) leaves_tcp: bool,
    /// The facts of which none may be there, and those that must be.
    #[serde(default)]
    pub(super) contradicted_by: Vec<String>,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(rename = "cause")]
    pub(super) message: String,
    pub(super) remedy: String,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) versions: Option<String>,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) source: String,
}

/// What contradicts causes, or confirms them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fact {
    #[serde(rename = "fact")]
    pub(super) name: String,
    pub(super) contains: Vec<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) unless: Option<Pattern>,
    /// True if it counts for all processes of the job, and true if only after the line of the cause.
    #[serde(default)]
    pub(super) everywhere: bool,
    #[serde(default)]
    pub(super) later: bool,
    #[expect(dead_code, reason = "for readers of the table")]
    pub(super) source: String,
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

impl Cause {
    /// The texts of which a line must have one; none for a cause in pods, and for one that has only a code, because
    /// other parts of the cluster show it.
    pub(super) fn texts(&self) -> Option<&Vec<String>> {
        let is_of_lines = !self.contains.is_empty() || self.pattern.is_some();
        (is_of_lines && self.at.is_empty()).then_some(&self.contains)
    }

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
