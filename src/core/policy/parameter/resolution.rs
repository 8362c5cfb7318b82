//! The value of a parameter for a pod, its source, and remarks about it.

use std::borrow::Cow;

use serde_json::Value;

use super::from_nodes::Offered;
use super::overrides::Override;
use super::table::{LabelTable, Lookup, Table};
use crate::core::policy::matcher::Selection;
use crate::core::policy::parameter::Parameter;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoteKind {
    /// The parameter has tables, and neither they nor the operator gave the value.
    Assumed { labels: Vec<String>, reads_gpus: bool },
    /// The pod selects values of the label that the tables map to different values, and nothing else gave one.
    Disagree { label: String },
    /// The nodes that the pod can be scheduled to give different values, and nothing else gave one.
    NodesDisagree,
    /// The operator's value differs from that of the table.
    Contradicts { label: String, table: Value },
}

/// The value of a parameter for a pod.
#[derive(Debug)]
pub(crate) struct Resolution<'p> {
    pub(crate) value: Cow<'p, Value>,
    pub(crate) origin: Origin,
    pub(crate) notes: Vec<NoteKind>,
}

/// The source of the value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// One value of the operator for every pod.
    Override,
    /// The operator's table of this label.
    OverrideTable(String),
    /// What the nodes offer that the pod can be scheduled to.
    Nodes,
    /// The policy's table of this label.
    PolicyTable(String),
    /// The default of the operator's table.
    OverrideDefault,
    /// The default of the policy.
    PolicyDefault,
}

/// The value of a parameter: the operator's scalar, else that of the operator's table, of the nodes, of the policy's
/// table, the operator's default, or the policy's default.
pub(crate) fn resolve<'p>(
    parameter: &'p Parameter,
    own: Option<&'p Override>,
    selection: &Selection,
) -> Resolution<'p> {
    let settled = |tables: &[&'p LabelTable]| {
        tables.iter().find_map(|table| match table.lookup(selection) {
            Lookup::Value(value) => Some((table.label.clone(), value)),
            Lookup::Disagree | Lookup::Unknown => None,
        })
    };
    let policy: Vec<&LabelTable> = parameter.table.labels().collect();
    let (own, default) = match own {
        Some(Override::Value(value)) => {
            let other = settled(&policy).filter(|(_, table)| *table != value);
            let note = other.map(|(label, table)| NoteKind::Contradicts { label, table: table.clone() });
            let value = Cow::Borrowed(value);
            return Resolution { value, origin: Origin::Override, notes: note.into_iter().collect() };
        }
        Some(Override::Table(own)) => (Some(&own.table), own.default.as_ref()),
        None => (None, None),
    };
    let own: Vec<&LabelTable> = own.into_iter().flat_map(Table::labels).collect();
    let resolved = |value, origin| Resolution { value, origin, notes: Vec::new() };
    if let Some((label, value)) = settled(&own) {
        return resolved(Cow::Borrowed(value), Origin::OverrideTable(label));
    }
    let from_nodes = parameter.from_nodes.as_ref();
    let offered = from_nodes.map_or(Offered::Nothing, |from_nodes| from_nodes.value(&selection.kinds));
    // A value that the bounds exclude counts as none: a plugin that offers a thousand slots of one adapter gives no ratio.
    if let Offered::Value(value) = &offered
        && let Ok(value) = parameter.check(value)
    {
        return resolved(Cow::Owned(value), Origin::Nodes);
    }
    if let Some((label, value)) = settled(&policy) {
        return resolved(Cow::Borrowed(value), Origin::PolicyTable(label));
    }
    let tables: Vec<&LabelTable> = own.into_iter().chain(policy).collect();
    let mut labels: Vec<String> = Vec::new();
    let mut notes = Vec::new();
    if offered == Offered::Disagree {
        notes.push(NoteKind::NodesDisagree);
    }
    for table in &tables {
        let disagree = NoteKind::Disagree { label: table.label.clone() };
        if matches!(table.lookup(selection), Lookup::Disagree) && !notes.contains(&disagree) {
            notes.push(disagree);
        }
        if !labels.contains(&table.label) {
            labels.push(table.label.clone());
        }
    }
    if default.is_none() && !labels.is_empty() && offered != Offered::Disagree {
        let reads_gpus = tables.iter().any(|table| table.reads_gpus());
        notes.push(NoteKind::Assumed { labels, reads_gpus });
    }
    let origin = if default.is_some() { Origin::OverrideDefault } else { Origin::PolicyDefault };
    Resolution { value: Cow::Borrowed(default.unwrap_or(&parameter.default)), origin, notes }
}
