//! The nodes that the tables of a policy know, and the part of a selection on which a policy depends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::definition::Definition;
use crate::expression::Step;
use crate::matcher::{LabelsRead, Pattern, SelectedLabel, Selection};
use crate::parameter::{Gpus, LabelTable, Override, Table};

/// The labels that a policy reads, and the values of them that its tables know.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    /// The labels that tables and expressions read.
    pub(crate) labels: LabelsRead,
    labels_of_expressions: LabelsRead,
    /// Those among them whose values expressions read, and not only whether a pod selects them.
    values_read: LabelsRead,
    keys: BTreeMap<String, Keys>,
    pub(crate) tables_read_gpus: bool,
    /// The first entry of the first table.
    pub(crate) first: Option<Selection>,
}

/// The rows of a label: for each key, the numbers of GPUs on which a value depends.
#[derive(Debug, Default)]
struct Keys {
    exact: BTreeMap<String, Vec<Gpus>>,
    patterns: Vec<(Pattern, Vec<Gpus>)>,
}

impl Keys {
    fn ranges_of(&mut self, key: &Pattern) -> &mut Vec<Gpus> {
        if key.stars() == 0 {
            return self.exact.entry(key.to_string()).or_default();
        }
        let known = self.patterns.iter().position(|(known, _)| known == key);
        let at = known.unwrap_or_else(|| {
            self.patterns.push((key.clone(), Vec::new()));
            self.patterns.len() - 1
        });
        &mut self.patterns[at].1
    }

    /// The texts of the keys. A pattern represents the values that it matches.
    fn texts(&self) -> impl Iterator<Item = String> {
        self.exact.keys().cloned().chain(self.patterns.iter().map(|(pattern, _)| pattern.to_string()))
    }

    /// For each key that a value has, the numbers of GPUs on which it depends.
    fn rows<'k>(&'k self, value: &'k str) -> impl Iterator<Item = &'k [Gpus]> {
        let patterns = self.patterns.iter().filter(move |(pattern, _)| pattern.matches(value));
        self.exact.get(value).into_iter().chain(patterns.map(|(_, ranges)| ranges)).map(Vec::as_slice)
    }
}

/// The lowest number of GPUs that is in the same ranges as this one; `None` if no range has this one.
fn class(ranges: &[&Gpus], gpus: i64) -> Option<i64> {
    let has = ranges.iter().any(|range| range.contains(&gpus));
    let limits = ranges.iter().flat_map(|range| [*range.start(), range.end().saturating_add(1)]);
    limits.filter(|limit| has && *limit <= gpus).max()
}

impl KnownNodes {
    pub(crate) fn find(definition: &Definition, overrides: &BTreeMap<String, Override>) -> Self {
        let mut labels_of_expressions = LabelsRead::none();
        let mut values_read = LabelsRead::none();
        definition.texts(&mut |text| {
            for expression in text.expressions() {
                let reads = expression.reads_of("node");
                let of_values = reads.iter().copied().filter(|path| path.last() != Some(&Step::Exists));
                values_read.extend(of_values);
                labels_of_expressions.extend(reads);
            }
        });
        let mut known = Self {
            values_read,
            labels: labels_of_expressions.clone(),
            labels_of_expressions,
            keys: BTreeMap::new(),
            tables_read_gpus: false,
            first: None,
        };
        for table in tables(definition, overrides) {
            known.labels.add(&table.label);
            known.tables_read_gpus |= table.reads_gpus();
            let keys = known.keys.entry(table.label.clone()).or_default();
            for (key, ranges) in table.known() {
                let ranges: Vec<Gpus> = ranges.cloned().collect();
                let least = ranges.first().map(|range| *range.start());
                known.first.get_or_insert_with(|| selection(&table.label, &key.to_string(), least));
                keys.ranges_of(key).extend(ranges);
            }
        }
        known
    }

    /// Each value of each label, without GPUs and with a number of GPUs for each value that depends on them. A pattern
    /// represents the values that it matches: no other pattern that matches its text precedes it.
    pub(crate) fn selections(&self) -> impl Iterator<Item = Selection> {
        self.keys.iter().flat_map(move |(label, keys)| {
            keys.texts().flat_map(move |value| {
                let ranges: Vec<&Gpus> = keys.rows(&value).flatten().collect();
                let limits = ranges.iter().flat_map(|range| [*range.start(), range.end().saturating_add(1)]);
                let classes: BTreeSet<i64> = limits.filter_map(|gpus| class(&ranges, gpus)).collect();
                let counts = [None].into_iter().chain(classes.into_iter().map(Some));
                counts.map(|gpus| selection(label, &value, gpus)).collect::<Vec<_>>()
            })
        })
    }

    /// What expressions read of the labels of a selection: for one of which they read only whether it is there, `true`.
    pub(crate) fn read_of(&self, selection: &Selection) -> Value {
        let Value::Object(mut labels) = selection.node() else { return Value::Null };
        labels.retain(|label, _| self.labels_of_expressions.contains(label));
        for (_, value) in labels.iter_mut().filter(|(label, _)| !self.values_read.contains(label)) {
            *value = Value::Bool(true);
        }
        labels.into()
    }

    /// Returns whether a table has an entry for a value of a label, which is in lower case.
    pub(super) fn is_known(&self, label: &str, value: &str) -> bool {
        self.keys.get(label).is_some_and(|keys| keys.rows(value).next().is_some())
    }
}

/// The tables of all parameters and variables, the operator's before the policy's.
fn tables<'p>(
    definition: &'p Definition,
    overrides: &'p BTreeMap<String, Override>,
) -> impl Iterator<Item = &'p LabelTable> {
    definition.by_node().flat_map(|parameter| {
        let own = overrides.get(&parameter.name).and_then(Override::table);
        own.into_iter().chain(parameter.tables()).flat_map(Table::labels)
    })
}

fn selection(label: &str, value: &str, gpus: Option<i64>) -> Selection {
    let selected = SelectedLabel { label: label.to_owned(), values: vec![value.to_owned()] };
    Selection { labels: vec![selected], gpus, ..Selection::default() }
}
