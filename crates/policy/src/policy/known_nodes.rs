//! The nodes that the tables of a policy know, and the part of a selection on which a policy depends.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::definition::Definition;
use crate::matcher::{LabelsRead, Pattern, SelectedLabel, Selection};
use crate::nodes::NodeKind;
use crate::parameter::{Gpus, LabelTable, Override, Table};

/// The labels that a policy reads, and the values of them that its tables know.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    /// The labels that tables and expressions read.
    pub(crate) labels: LabelsRead,
    labels_of_expressions: LabelsRead,
    /// Those whose values expressions read, and not only whether a pod selects them.
    values_read: LabelsRead,
    keys: BTreeMap<String, Keys>,
    pub(crate) tables_read_gpus: bool,
    /// True if a parameter takes its value from nodes.
    reads_resources: bool,
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

/// A value that represents all values of a label that are in no table. No label has it.
const UNKNOWN: &str = "?";

impl KnownNodes {
    pub(crate) fn find(definition: &Definition, overrides: &BTreeMap<String, Override>) -> Self {
        let mut labels_of_expressions = LabelsRead::none();
        let mut values_read = LabelsRead::none();
        definition.texts(&mut |text| {
            for expression in text.expressions() {
                labels_of_expressions.extend(expression.reads_of_node());
                values_read.extend_by_values(expression.reads_of_node());
            }
        });
        let mut known = Self {
            values_read,
            labels: labels_of_expressions.clone(),
            labels_of_expressions,
            keys: BTreeMap::new(),
            tables_read_gpus: false,
            reads_resources: definition.by_node().any(|one| one.from_nodes.is_some()),
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

    /// Returns whether an expression reads a label of the selection.
    pub(crate) fn expressions_read(&self, selection: &Selection) -> bool {
        selection.labels.iter().any(|selected| self.labels_of_expressions.contains(&selected.label))
    }

    /// The labels of the selection that an expression may read, with their values.
    pub(crate) fn read_of(&self, selection: &Selection) -> Value {
        let is_read = |selected: &&SelectedLabel| self.labels_of_expressions.contains(&selected.label);
        let labels = selection.labels.iter().filter(is_read).cloned().collect();
        Selection { labels, ..Selection::default() }.node()
    }

    /// For each row of a value, the numbers of GPUs on which it depends.
    fn ranges<'k>(&'k self, label: &str, value: &'k str) -> impl Iterator<Item = &'k [Gpus]> {
        self.keys.get(label).into_iter().flat_map(move |keys| keys.rows(value))
    }

    /// Returns whether a table has an entry for a value of a label, which is in lower case.
    pub(super) fn is_known(&self, label: &str, value: &str) -> bool {
        self.ranges(label, value).next().is_some()
    }

    /// The part of a selection on which the resolved policy depends.
    pub(crate) fn key<'s>(&self, selection: &'s Selection) -> Cow<'s, Selection> {
        let of_kinds = selection.kinds.iter().flat_map(|kind| &kind.labels);
        let of_labels = selection
            .labels
            .iter()
            .flat_map(|selected| selected.values.iter().map(|value| (&selected.label, value)));
        let ranges = of_kinds.chain(of_labels).flat_map(|(label, value)| self.ranges(label, value)).flatten();
        let gpus = selection.gpus.and_then(|gpus| class(&ranges.collect::<Vec<_>>(), gpus));
        let is_whole = |selected: &SelectedLabel| {
            self.values_read.contains(&selected.label)
                || selected.values.iter().all(|value| self.is_known(&selected.label, value))
        };
        let kinds = self.kinds(selection);
        let is_own = kinds.len() == selection.kinds.len() && kinds == selection.kinds;
        if is_own && selection.gpus == gpus && selection.labels.iter().all(is_whole) {
            return Cow::Borrowed(selection);
        }
        let labels = selection.labels.iter().filter_map(|selected| {
            if is_whole(selected) { Some(selected.clone()) } else { self.with_unknown(selected) }
        });
        Cow::Owned(Selection { labels: labels.collect(), kinds, gpus })
    }

    /// The facts about nodes that parameters read. The labels of a single kind are part of the selection.
    fn kinds(&self, selection: &Selection) -> Vec<NodeKind> {
        let part = |kind: &NodeKind| {
            let mut kind = if self.reads_resources {
                kind.clone()
            } else {
                NodeKind { labels: kind.labels.clone(), ..NodeKind::default() }
            };
            kind.labels.retain(|label, value| self.is_known(label, value));
            kind
        };
        let mut kinds: Vec<NodeKind> = Vec::new();
        for kind in selection.kinds.iter().map(part) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if let [one] = kinds.as_mut_slice() {
            one.labels.clear();
            kinds.retain(|one| *one != NodeKind::default());
        }
        kinds
    }

    /// The label with one value for all that are in no table; `None` if none of them is in a table, and no expression
    /// reads whether the pod selects the label.
    fn with_unknown(&self, selected: &SelectedLabel) -> Option<SelectedLabel> {
        let mut values: Vec<String> = Vec::new();
        for value in &selected.values {
            let value = if self.is_known(&selected.label, value) { value } else { UNKNOWN };
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        if values == [UNKNOWN] && selected.values.len() > 1 {
            // Expressions read no label with several values.
            values.push(UNKNOWN.repeat(2));
        }
        let is_read = !values.iter().all(|value| value.starts_with(UNKNOWN))
            || self.labels_of_expressions.contains(&selected.label);
        is_read.then(|| SelectedLabel { label: selected.label.clone(), values })
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
