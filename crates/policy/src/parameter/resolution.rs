//! The value of a parameter for a pod, its source, and remarks about it.

use std::borrow::Cow;

use serde_json::Value;

use super::overrides::Override;
use super::table::Table;
use crate::from_nodes::FromNodes;
use crate::matcher::Selection;
use crate::parameter::{Parameter, ParameterType};
use fabric_yaml::Span;

#[derive(Debug, Clone, PartialEq)]
pub enum NoteKind {
    /// The parameter has tables, and neither they nor the operator gave the value.
    Assumed { labels: Vec<String>, reads_gpus: bool },
    /// The nodes that the pod can be scheduled to have different numbers. This is the lowest above zero.
    Least,
    /// The nodes offer fewer devices than the table states for them.
    LessThanTable { label: String, table: Value },
    /// The nodes offer more devices than the table states for them, which has the value.
    MoreThanTable { label: String, offered: Value },
    /// The operator's value differs from that of the table.
    Contradicts { label: String, table: Value },
}

/// The value of a parameter for a pod.
#[derive(Debug)]
pub struct Resolution<'p> {
    pub value: Cow<'p, Value>,
    pub origin: Origin,
    pub(crate) notes: Vec<NoteKind>,
}

/// The source of the value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One value of the operator for every pod.
    Override,
    /// The operator's table of this label: the row at this place.
    OverrideTable(String, Span),
    /// One value of an extension for every pod, at this place.
    Extension(Span),
    /// The resources of the nodes that the pod can be scheduled to.
    Nodes,
    /// The networks of these resources.
    Networks,
    /// The machines of the policy or of an extension by this label: the row at this place.
    Machines(String, Span),
    /// The default of the operator's table.
    OverrideDefault,
    /// The default of the policy.
    PolicyDefault,
}

impl Parameter {
    /// The value for nodes of these kinds. If numbers differ, it is the lowest above zero; if other values
    /// differ, it is that of the first kind.
    pub fn resolve<'p>(&'p self, own: Option<&'p Override>, each: &[Selection]) -> Resolution<'p> {
        let all: Vec<Resolution<'p>> = each.iter().map(|one| self.of_one(own, one)).collect();
        let number = |resolution: &Resolution<'_>| resolution.value.as_f64().unwrap_or_default();
        if self.has_least() && all.iter().any(|one| number(one).total_cmp(&number(&all[0])).is_ne()) {
            // Kinds without a known value do not lower the others.
            let is_default =
                |origin: &Origin| matches!(origin, Origin::OverrideDefault | Origin::PolicyDefault);
            let known = all.into_iter().filter(|one| !is_default(&one.origin));
            let least = known.min_by(|one, other| {
                let key = |resolution| (number(resolution) <= 0.0, number(resolution));
                let ((none, one), (other_none, other)) = (key(one), key(other));
                none.cmp(&other_none).then(one.total_cmp(&other))
            });
            if let Some(mut least) = least {
                least.notes.insert(0, NoteKind::Least);
                return least;
            }
            return self.of_one(own, &Selection::default());
        }
        let mut all = all.into_iter();
        let mut first = all.next().unwrap_or_else(|| self.of_one(own, &Selection::default()));
        for note in all.flat_map(|other| other.notes) {
            if !first.notes.contains(&note) {
                first.notes.push(note);
            }
        }
        first
    }

    /// Returns whether the lowest of several values is valid for all of the nodes: fewer devices than a node offers do
    /// no harm. A value that no operator can set, such as the number of chips, is a fact about the nodes.
    pub(crate) fn has_least(&self) -> bool {
        matches!(self.kind, ParameterType::Number | ParameterType::Integer)
    }
    /// The value for nodes of one kind. `docs/policy-values.md` has the order of the sources.
    pub(crate) fn of_one<'p>(&'p self, own: Option<&'p Override>, selection: &Selection) -> Resolution<'p> {
        let machines = || self.table.find(selection);
        // An operator's value can contradict the rows of the file that decides, but not a value that an extension sets.
        let decides = || {
            let layers = self.layers.iter().map(|layer| (layer.value.is_some(), layer.table.find(selection)));
            let mut decided =
                layers.chain([(false, machines())]).filter(|(is_set, row)| *is_set || row.is_some());
            decided.next().and_then(|(is_set, row)| row.filter(|_| !is_set))
        };
        let (own, default) = match own {
            Some(Override::Value(value)) => {
                let other = decides().filter(|(_, table, _)| *table != value);
                let note =
                    other.map(|(label, table, _)| NoteKind::Contradicts { label, table: table.clone() });
                let value = Cow::Borrowed(value);
                return Resolution { value, origin: Origin::Override, notes: note.into_iter().collect() };
            }
            Some(Override::Table { table, default }) => (Some(table), default.as_ref()),
            None => (None, None),
        };
        let resolved = |value, origin| Resolution { value: Cow::Borrowed(value), origin, notes: Vec::new() };
        if let Some((label, value, span)) = own.and_then(|table| table.find(selection)) {
            return resolved(value, Origin::OverrideTable(label, span));
        }
        for layer in &self.layers {
            if let Some((value, span)) = &layer.value {
                return resolved(value, Origin::Extension(*span));
            }
            if let Some((label, value, span)) = layer.table.find(selection) {
                return resolved(value, Origin::Machines(label, span));
            }
        }
        let kind = selection.kinds.first();
        let offered = self.from_nodes.as_ref().and_then(|from_nodes| from_nodes.of_kind(kind?));
        // A value outside the bounds counts as absent: a plugin that offers a thousand slots of one adapter gives no ratio.
        if let Some(value) = offered.and_then(|offered| self.check(&offered).ok()) {
            let known = machines().filter(|(_, table, _)| self.has_least() && table.as_f64() > Some(0.0));
            let of_networks = self.from_nodes.as_ref().is_some_and(FromNodes::gives_networks);
            let origin = if of_networks { Origin::Networks } else { Origin::Nodes };
            let of_nodes = |value, notes| Resolution { value: Cow::Owned(value), origin, notes };
            return match known {
                Some((label, table, _)) if value.as_f64() < table.as_f64() => {
                    let table = table.clone();
                    of_nodes(value, vec![NoteKind::LessThanTable { label, table }])
                }
                // Device plugins have counted devices that are no adapters (aws/sagemaker-hyperpod-cli issue 282).
                Some((label, table, span)) if value.as_f64() > table.as_f64() => Resolution {
                    notes: vec![NoteKind::MoreThanTable { label: label.clone(), offered: value }],
                    ..resolved(table, Origin::Machines(label, span))
                },
                _ => of_nodes(value, Vec::new()),
            };
        }
        if let Some((label, value, span)) = machines() {
            return resolved(value, Origin::Machines(label, span));
        }
        if let Some(default) = default {
            return resolved(default, Origin::OverrideDefault);
        }
        let mut labels: Vec<String> = Vec::new();
        let mut reads_gpus = false;
        for table in own.into_iter().chain(self.tables()).flat_map(Table::labels) {
            reads_gpus |= table.reads_gpus();
            if !labels.contains(&table.label) {
                labels.push(table.label.clone());
            }
        }
        let is_assumed = !labels.is_empty();
        let notes = is_assumed.then_some(NoteKind::Assumed { labels, reads_gpus }).into_iter().collect();
        Resolution { notes, ..resolved(&self.default, Origin::PolicyDefault) }
    }
}
