//! The nodes that the tables of a policy know, and the part of a selection on which a policy depends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::definition::Definition;
use crate::expression::Step;
use crate::matcher::{LabelsRead, SelectedLabel, Selection};
use crate::parameter::{Gpus, LabelTable, Override, Overrides, Table};

/// What a policy reads of nodes.
#[derive(Debug)]
pub struct KnownNodes {
    /// The labels that tables and expressions read.
    pub labels: LabelsRead,
    labels_of_expressions: LabelsRead,
    /// Those among them whose values expressions read, and not only whether a pod selects them.
    values_read: LabelsRead,
    /// True if a table reads the GPUs of the pod.
    pub tables_read_gpus: bool,
    /// The first entry of the first table.
    pub(crate) first: Option<Selection>,
}

/// The lowest number of GPUs that is in the same ranges as this one; `None` if no range has this one.
fn class(ranges: &[&Gpus], gpus: i64) -> Option<i64> {
    let has = ranges.iter().any(|range| range.contains(&gpus));
    let limits = ranges.iter().flat_map(|range| [*range.start(), range.end().saturating_add(1)]);
    limits.filter(|limit| has && *limit <= gpus).max()
}

impl KnownNodes {
    pub(crate) fn find(definition: &Definition, overrides: &Overrides) -> Self {
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
            tables_read_gpus: false,
            first: None,
        };
        for table in tables(definition, overrides) {
            known.labels.add(&table.label);
            known.tables_read_gpus |= table.reads_gpus();
            if let (None, Some((key, mut ranges))) = (&known.first, table.known().next()) {
                let least = ranges.next().map(|range| *range.start());
                known.first = Some(selection(&table.label, &key.to_string(), least));
            }
        }
        known
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
}

/// Each value of each label, without GPUs and with a number of GPUs for each value that depends on them. A pattern
/// represents the values that it matches: no other pattern that matches its text precedes it.
pub(crate) fn selections<'p>(
    definition: &'p Definition,
    overrides: &'p Overrides,
) -> impl Iterator<Item = Selection> + use<'p> {
    let mut by_label: BTreeMap<&str, Vec<&LabelTable>> = BTreeMap::new();
    for table in tables(definition, overrides) {
        by_label.entry(&table.label).or_default().push(table);
    }
    by_label.into_iter().flat_map(|(label, tables)| {
        let mut known = BTreeSet::new();
        let keys = tables.iter().flat_map(|table| table.known()).map(|(key, _)| key.to_string());
        let (patterns, mut values): (Vec<_>, Vec<_>) =
            keys.filter(|key| known.insert(key.clone())).partition(|key| key.contains('*'));
        values.sort_unstable();
        values.into_iter().chain(patterns).flat_map(move |value| {
            let ranges: Vec<&Gpus> =
                tables.iter().flat_map(|table| table.gpus_of(&value)).flatten().collect();
            let limits = ranges.iter().flat_map(|range| [*range.start(), range.end().saturating_add(1)]);
            let classes: BTreeSet<i64> = limits.filter_map(|gpus| class(&ranges, gpus)).collect();
            let counts = [None].into_iter().chain(classes.into_iter().map(Some));
            counts.map(|gpus| selection(label, &value, gpus)).collect::<Vec<_>>()
        })
    })
}

/// The tables of all parameters and variables, the operator's before the policy's.
pub(crate) fn tables<'p>(
    definition: &'p Definition,
    overrides: &'p Overrides,
) -> impl Iterator<Item = &'p LabelTable> {
    definition.by_node().flat_map(|parameter| {
        let own = overrides.get(&parameter.name).and_then(Override::table);
        own.into_iter().chain(parameter.tables()).flat_map(Table::labels)
    })
}

fn selection(label: &str, value: &str, gpus: Option<i64>) -> Selection {
    Selection { labels: vec![Arc::new(SelectedLabel::one(label, value))], gpus, ..Selection::default() }
}
