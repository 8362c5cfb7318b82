//! The value of a parameter for a pod, its source, and remarks about it.

use std::borrow::Cow;

use serde_json::Value;

use super::overrides::Override;
use super::table::{LabelTable, Table};
use crate::core::policy::matcher::Selection;
use crate::core::policy::parameter::{Parameter, ParameterType};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoteKind {
    /// The parameter has tables, and neither they nor the operator gave the value.
    Assumed { labels: Vec<String>, reads_gpus: bool },
    /// The nodes that the pod can be scheduled to have different numbers, of which this is the least above zero.
    Least,
    /// The nodes offer less than the table has for them.
    LessThanTable { label: String, table: Value },
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

/// The value of a parameter for nodes of each of these kinds. Of different numbers, it is the least above zero; of other
/// values, it is that of the first kind.
pub(crate) fn resolve<'p>(
    parameter: &'p Parameter,
    own: Option<&'p Override>,
    each: &[Selection],
) -> Resolution<'p> {
    let all: Vec<Resolution<'p>> = each.iter().map(|one| of_one(parameter, own, one)).collect();
    let number = |resolution: &Resolution<'_>| resolution.value.as_f64().unwrap_or_default();
    if parameter.has_least() && all.iter().any(|one| number(one).total_cmp(&number(&all[0])).is_ne()) {
        // Kinds of which nothing is known lower nobody.
        let known = all.into_iter().filter(|one| !one.origin.is_default());
        let least = known.min_by(|one, other| {
            let key = |resolution| (number(resolution) <= 0.0, number(resolution));
            let ((none, one), (other_none, other)) = (key(one), key(other));
            none.cmp(&other_none).then(one.total_cmp(&other))
        });
        if let Some(mut least) = least {
            least.notes.insert(0, NoteKind::Least);
            return least;
        }
        return of_one(parameter, own, &Selection::default());
    }
    let mut all = all.into_iter();
    let mut first = all.next().unwrap_or_else(|| of_one(parameter, own, &Selection::default()));
    for note in all.flat_map(|other| other.notes) {
        if !first.notes.contains(&note) {
            first.notes.push(note);
        }
    }
    first
}

impl Parameter {
    /// Returns whether the least of several values is right for all nodes that have one of them: fewer devices than a node
    /// offers do no harm. What no operator can set, such as the number of chips, is a fact about the nodes.
    pub(crate) fn has_least(&self) -> bool {
        matches!(self.kind, ParameterType::Number | ParameterType::Integer)
    }
}

impl Origin {
    fn is_default(&self) -> bool {
        matches!(self, Self::OverrideDefault | Self::PolicyDefault)
    }
}

/// The value of a parameter for nodes of one kind: the operator's scalar, else that of the operator's table, of the nodes,
/// of the policy's table, the operator's default, or the policy's default.
pub(crate) fn of_one<'p>(
    parameter: &'p Parameter,
    own: Option<&'p Override>,
    selection: &Selection,
) -> Resolution<'p> {
    let settled = |tables: &[&'p LabelTable]| {
        tables.iter().find_map(|table| Some((table.label.clone(), table.lookup(selection)?)))
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
    let kind = selection.kinds.first();
    let offered = parameter.from_nodes.as_ref().and_then(|from_nodes| from_nodes.of_kind(kind?));
    // A value that the bounds exclude counts as none: a plugin that offers a thousand slots of one adapter gives no ratio.
    if let Some(value) = offered.and_then(|offered| parameter.check(&offered).ok()) {
        let more = settled(&policy)
            .filter(|(_, table)| parameter.has_least() && value.as_f64() < table.as_f64())
            .map(|(label, table)| NoteKind::LessThanTable { label, table: table.clone() });
        let value = Cow::Owned(value);
        return Resolution { value, origin: Origin::Nodes, notes: more.into_iter().collect() };
    }
    if let Some((label, value)) = settled(&policy) {
        return resolved(Cow::Borrowed(value), Origin::PolicyTable(label));
    }
    let tables: Vec<&LabelTable> = own.into_iter().chain(policy).collect();
    let mut labels: Vec<String> = Vec::new();
    for table in &tables {
        if !labels.contains(&table.label) {
            labels.push(table.label.clone());
        }
    }
    let mut notes = Vec::new();
    if default.is_none() && !labels.is_empty() {
        let reads_gpus = tables.iter().any(|table| table.reads_gpus());
        notes.push(NoteKind::Assumed { labels, reads_gpus });
    }
    let origin = if default.is_some() { Origin::OverrideDefault } else { Origin::PolicyDefault };
    Resolution { value: Cow::Borrowed(default.unwrap_or(&parameter.default)), origin, notes }
}
