//! The tables of the meaning of log lines.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::Captures;
use serde_json::Value;

use fabric_yaml as yaml;
use fabric_yaml::pointer::{at_pointer, expanded, field_path};

use super::process::Process;
pub(super) use super::tables::{Cause, NetworkKind};
use super::tables::{Fact, Pattern, Tables, Unknown};

static BUILT_IN: LazyLock<Result<Signatures, SignaturesError>> = LazyLock::new(|| {
    Signatures::read(concat!(
        include_str!("../../../signatures/network.yaml"),
        include_str!("../../../signatures/causes.yaml"),
        include_str!("../../../signatures/contradictions.yaml"),
        include_str!("../../../signatures/pods.yaml"),
        include_str!("../../../signatures/machines.yaml"),
    ))
});

/// Why tables cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignaturesError(String);

/// The tables, ready to search lines.
#[derive(Debug)]
pub struct Signatures {
    /// A line must have at least one of these texts.
    texts: AhoCorasick,
    /// The entry of each text: its place among the lines with the causes after them.
    of_text: Vec<usize>,
    tables: Tables,
}

/// The meaning of a line.
pub(super) enum LineMeaning<'l> {
    /// The place of a cause in the tables, and that of what contradicts or confirms causes.
    Cause(usize),
    Fact(usize),
    Facts(Captures<'l>),
}

impl Signatures {
    /// The tables of this program.
    pub fn built_in() -> Result<&'static Self, SignaturesError> {
        BUILT_IN.as_ref().map_err(Clone::clone)
    }

    /// Reads tables.
    fn read(text: &str) -> Result<Self, SignaturesError> {
        let read = yaml::read_value(text).map_err(|error| SignaturesError(format!("{error:?}")))?;
        let root = read.root.unwrap_or(Value::Null);
        let tables: Tables =
            serde_json::from_value(root).map_err(|error| SignaturesError(error.to_string()))?;
        let (mut contains, mut of_text) = (Vec::new(), Vec::new());
        let of_lines = tables.lines.iter().map(|line| Some(&line.contains));
        let of_facts = tables.facts.iter().map(|fact| Some(&fact.contains));
        for (at, texts) in of_lines.chain(tables.causes.iter().map(Cause::texts)).chain(of_facts).enumerate()
        {
            let Some(texts) = texts else { continue };
            if texts.iter().any(String::is_empty) || texts.is_empty() {
                return Err(SignaturesError("`contains` must have a text".to_owned()));
            }
            of_text.extend(texts.iter().map(|_| at));
            contains.extend(texts);
        }
        // By default, only a hundred texts or fewer become the fastest form.
        let texts = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .build(contains)
            .map_err(|error| SignaturesError(error.to_string()))?;
        Ok(Self { texts, of_text, tables })
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
        let Tables { lines, causes, facts, .. } = &self.tables;
        let matches = |pattern: &Pattern| pattern.is_match(line);
        let is_said = |pattern: &Option<Pattern>, unless: &Option<Pattern>| {
            !unless.as_ref().is_some_and(matches) && pattern.as_ref().is_none_or(matches)
        };
        let said = |at: usize| {
            if let Some(of_line) = lines.get(at) {
                let is_other = of_line.unless.as_ref().is_some_and(matches);
                return of_line
                    .pattern
                    .0
                    .captures(line.as_bytes())
                    .filter(|_| !is_other)
                    .map(LineMeaning::Facts);
            }
            let at = at - lines.len();
            let Some(fact) = at.checked_sub(causes.len()) else {
                let Cause { pattern, unless, .. } = &causes[at];
                return is_said(pattern, unless).then_some(LineMeaning::Cause(at));
            };
            let Fact { pattern, unless, .. } = &facts[fact];
            is_said(pattern, unless).then_some(LineMeaning::Fact(fact))
        };
        found.into_iter().filter_map(said).collect()
    }

    /// The kind of a network, and how to find it if that is unknown.
    pub(super) fn network(&self, name: &str, process: &Process) -> (NetworkKind, Option<&str>) {
        let has_gdr = process.with_gdr > 0;
        let is = |pattern: &Option<Pattern>, texts: &BTreeSet<String>| {
            pattern.as_ref().is_none_or(|one| texts.iter().any(|text| one.is_match(text)))
        };
        let found = self.tables.networks.iter().find(|known| {
            known.name.is_match(name)
                && is(&known.provider, &process.providers)
                && is(&known.devices, &process.devices)
                && known.gdr.is_none_or(|gdr| gdr == has_gdr)
        });
        found.map_or((NetworkKind::Unknown, None), |known| (known.is, known.remedy.as_deref()))
    }

    /// The causes in a pod, each with the field that shows it.
    pub(super) fn of_pod(&self, pod: &Value) -> Vec<(usize, String)> {
        let of_cause = |(at, cause): (usize, &Cause)| {
            let is_absent = |path: &String| at_pointer(pod, path).is_none();
            let places = cause.at.iter().flat_map(|path| expanded(pod, path));
            let mut fields = places.filter_map(|place| {
                let value = at_pointer(pod, &place)?;
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let matches = cause.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text));
                matches.then(|| format!("{}: {text}", field_path(pod, &place)))
            });
            let field = fields.next().filter(|_| cause.without.as_ref().is_none_or(is_absent))?;
            Some((at, field))
        };
        self.tables.causes.iter().enumerate().filter_map(of_cause).collect()
    }

    /// The policy that injected a pod, with its digest.
    pub(super) fn policy<'p>(&self, pod: &'p Value) -> Option<&'p str> {
        at_pointer(pod, &self.tables.policy)?.as_str()
    }

    /// The type of the machine that a pod selects.
    pub(super) fn machine<'p>(&self, pod: &'p Value) -> Option<&'p str> {
        at_pointer(pod, &self.tables.machine)?.as_str()
    }

    /// The bandwidth between machines of a type, in GB/s.
    pub(super) fn expected(&self, machine: &str) -> Option<f64> {
        self.tables.machines.iter().find(|known| known.name == machine).map(|known| known.busbw)
    }

    /// The labels of pods that have the name of their job.
    pub fn job_labels(&self) -> &[String] {
        &self.tables.job_labels
    }

    /// The place of a cause in the tables.
    pub(super) fn cause_of(&self, code: &str) -> Option<usize> {
        self.tables.causes.iter().position(|cause| cause.code == code)
    }

    /// The place of a fact in the tables, and the fact.
    pub(super) fn fact(&self, name: &str) -> Option<(usize, &Fact)> {
        self.tables.facts.iter().enumerate().find(|(_, fact)| fact.name == name)
    }

    pub(super) fn cause(&self, at: usize) -> &Cause {
        &self.tables.causes[at]
    }

    pub(super) fn unknown(&self, code: &str) -> Option<&Unknown> {
        self.tables.unknown.iter().find(|unknown| unknown.code == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read() {
        Signatures::built_in().unwrap();
        let error = Signatures::read("lines: [{contains: [a], pattern: '(', versions: a, source: b}]");
        assert!(error.unwrap_err().to_string().contains("unclosed group"));
        let error = Signatures::read("lines: [{contains: [], pattern: a, versions: a, source: b}]");
        assert_eq!(error.unwrap_err().to_string(), "`contains` must have a text");
    }
}
