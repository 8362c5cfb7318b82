//! The labels of nodes that a policy reads, and the values of them that a pod selects.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::nodes::NodeKind;
use crate::schema::Format;
use fabric_yaml::{Entry, Node};

use crate::expression::{Path, Step};
use crate::source::Diagnostic;

pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The label that [`INSTANCE_TYPE`] replaced, and that selects the same nodes.
const OLD_INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";

/// The label, or the one that replaced it.
pub fn current(label: &str) -> &str {
    if label == OLD_INSTANCE_TYPE { INSTANCE_TYPE } else { label }
}

/// The keys with which a pod can select nodes that have this label.
pub fn spellings(label: &str) -> impl Iterator<Item = &str> {
    let label = current(label);
    [label].into_iter().chain((label == INSTANCE_TYPE).then_some(OLD_INSTANCE_TYPE))
}

/// Reads the key of an entry as a label of nodes.
pub(crate) fn label(entry: &Entry<Node>) -> Result<&str, Diagnostic> {
    Format::QualifiedName.check(&entry.key).map_err(|problem| {
        Diagnostic::new(entry.span, problem).hint("write a label of nodes, such as `pool`")
    })?;
    Ok(current(&entry.key))
}

/// The labels of nodes that a policy reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelsRead {
    These(BTreeSet<String>),
    /// An expression computes the key of a label, or reads `node` as a whole.
    All,
}

impl LabelsRead {
    pub(crate) fn none() -> Self {
        Self::These(BTreeSet::new())
    }

    pub(crate) fn add(&mut self, label: &str) {
        if let Self::These(labels) = self {
            labels.insert(label.to_owned());
        }
    }

    /// Adds the labels that an expression reads of `node`.
    pub(crate) fn extend<'p>(&mut self, paths: impl IntoIterator<Item = &'p Path>) {
        for path in paths {
            match path.first() {
                Some(Step::Field(label)) => self.add(label),
                _ => *self = Self::All,
            }
        }
    }

    pub(crate) fn contains(&self, label: &str) -> bool {
        match self {
            Self::These(labels) => labels.contains(label),
            Self::All => true,
        }
    }
}

/// A label, and the values of it that a pod selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SelectedLabel {
    pub label: String,
    /// In lower case; empty if the pod selects none.
    pub values: Vec<String>,
}

impl SelectedLabel {
    /// A label with one value.
    pub fn one(label: &str, value: &str) -> Self {
        Self { label: label.to_owned(), values: vec![value.to_owned()] }
    }
}

impl fmt::Display for SelectedLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.values.as_slice() {
            [] => write!(f, "no `{}`", self.label),
            values => write!(f, "`{}: {}`", self.label, values.join(" | ")),
        }
    }
}

/// The limit on combinations of label values.
const MAX_COMBINATIONS: usize = 256;

/// The part of a pod's selection of nodes that a policy reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// The labels for which the pod selects a value, or for which all nodes that it can be scheduled to have a value;
    /// sorted. Shared with each of the combinations.
    pub labels: Vec<Arc<SelectedLabel>>,
    /// The nodes that the pod can be scheduled to; empty if they are not known, or if there are none.
    pub kinds: Vec<NodeKind>,
    /// The GPUs of the pod, if a table reads them.
    pub gpus: Option<i64>,
}

impl Selection {
    pub fn values(&self, label: &str) -> &[String] {
        self.labels.iter().find(|known| known.label == label).map_or(&[], |known| &known.values)
    }

    /// The nodes between which the pod does not choose, each as a selection of its own: the kinds that it fits, else
    /// each combination of the values that it selects. If there are too many combinations, it selects none of them.
    pub fn each(&self) -> Vec<Self> {
        if self.kinds.len() > 1 {
            return self.kinds.iter().map(|kind| self.of_kind(kind)).collect();
        }
        let (one, several): (Vec<_>, Vec<_>) =
            self.labels.iter().cloned().partition(|selected| selected.values.len() < 2);
        let mut each = vec![Self { labels: one, kinds: self.kinds.clone(), gpus: self.gpus }];
        if Self::combinations(&self.labels).is_none() {
            return each;
        }
        for selected in several {
            let SelectedLabel { label, values } = &*selected;
            let of_value = |value: &String| Arc::new(SelectedLabel::one(label, value));
            let values: Vec<_> = values.iter().map(of_value).collect();
            let with = |selection: &Self, value: &Arc<SelectedLabel>| {
                let mut selection = selection.clone();
                selection.labels.push(Arc::clone(value));
                selection
            };
            each = each.iter().flat_map(|one| values.iter().map(|value| with(one, value))).collect();
        }
        each
    }

    /// The number of combinations of the values of labels; `None` for more than `MAX_COMBINATIONS`.
    pub fn combinations(labels: &[Arc<SelectedLabel>]) -> Option<usize> {
        let mut counts = labels.iter().map(|selected| selected.values.len().max(1));
        let all = counts.try_fold(1, |all: usize, count| all.checked_mul(count));
        all.filter(|all| *all <= MAX_COMBINATIONS)
    }

    fn of_kind(&self, kind: &NodeKind) -> Self {
        let label = |(label, value): (&String, &String)| Arc::new(SelectedLabel::one(label, value));
        Self { labels: kind.labels.iter().map(label).collect(), kinds: vec![kind.clone()], gpus: self.gpus }
    }

    /// The value of `node` in expressions: the labels for which the pod selects one value.
    pub(crate) fn node(&self) -> Value {
        let of = |known: &Arc<SelectedLabel>| match known.values.as_slice() {
            [one] => Some((known.label.clone(), Value::from(one.as_str()))),
            _ => None,
        };
        self.labels.iter().filter_map(of).collect::<Map<_, _>>().into()
    }
}
