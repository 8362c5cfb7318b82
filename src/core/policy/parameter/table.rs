//! Tables: values of a parameter or a variable by the labels of the nodes that a pod selects.

use serde_json::{Map, Value};

use crate::core::yaml::{Content, Entry, Node};

use crate::core::policy::matcher::Pattern;
use crate::core::policy::matcher::node::{self, Selection};
use crate::core::policy::source::{Checked, DUPLICATE_NAME, Diagnostic, Problems, all, reader};

/// The key of a values file's table that replaces the default of the parameter.
pub(crate) const DEFAULT: &str = "default";

/// Reads and checks a value of the parameter.
type ReadValue<'r> = &'r dyn Fn(&Node) -> Checked<Value>;

/// The values of a parameter by labels, the label of the highest precedence first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table(Vec<LabelTable>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelTable {
    pub(crate) label: String,
    /// By the values of the label and patterns of them, in lower case.
    entries: Vec<(Pattern, Cell)>,
}

/// The value of a parameter for one value of a label.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Value(Value),
    /// By the GPUs of the pod.
    ByGpus(Vec<(i64, Value)>),
}

impl Table {
    /// Reads a table by label.
    pub(crate) fn read<'n>(
        read_value: ReadValue<'_>,
        entries: impl IntoIterator<Item = &'n Entry<Node>>,
    ) -> Checked<Self> {
        let mut known: Vec<&str> = Vec::new();
        all(entries.into_iter().map(|entry| {
            let label = node::label(entry)?;
            if known.contains(&label) {
                return Err(twice(entry, &format!("the label `{label}` is declared twice")));
            }
            known.push(label);
            LabelTable::read(read_value, label, &entry.value)
        }))
        .map(Self)
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &LabelTable> {
        self.0.iter()
    }

    /// The entries that give the values for a selection, as [`LabelTable::read`] normalizes them.
    pub(crate) fn deciding(&self, label: &str, selection: &Selection) -> Vec<String> {
        let tables = self.0.iter().filter(|table| table.label == label);
        let entry = |table: &LabelTable, value: &String| table.entry(value).map(|(key, _)| key.to_string());
        let of_table = |table| selection.values(label).iter().filter_map(move |value| entry(table, value));
        tables.flat_map(of_table).collect()
    }

    /// The values of all entries.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().flat_map(|table| &table.entries).flat_map(|(_, cell)| match cell {
            Cell::Value(value) => vec![value],
            Cell::ByGpus(cells) => cells.iter().map(|(_, value)| value).collect(),
        })
    }

    pub(crate) fn to_json(&self) -> Map<String, Value> {
        self.0.iter().map(|table| (table.label.clone(), table.to_json())).collect()
    }
}

impl LabelTable {
    fn read(read_value: ReadValue<'_>, label: &str, node: &Node) -> Checked<Self> {
        let what = format!("the table of `{label}`");
        if !matches!(node.content, Content::Map(_)) {
            let hint = format!("write a table for each label, as in `LABEL: {{{label}: …}}`");
            return Err(reader::expected(node, &format!("{what} to be a map")).hint(hint).into());
        }
        let mut known: Vec<Pattern> = Vec::new();
        let entries = all(reader::entries(node, &what)?.iter().map(|entry| {
            let key = read_key(entry)?;
            if known.contains(&key) {
                let message = format!("the value `{}` is declared twice, letter case aside", entry.key);
                return Err(twice(entry, &message));
            }
            known.push(key.clone());
            let cell = match (&entry.value.content, read_value(&entry.value)) {
                // The value of a variable can be a map.
                (Content::Map(by_gpus), Ok(value))
                    if by_gpus.first().is_none_or(|one| count(one).is_none()) =>
                {
                    Cell::Value(value)
                }
                (Content::Map(by_gpus), _) => Cell::ByGpus(read_by_gpus(read_value, by_gpus)?),
                (_, value) => Cell::Value(value?),
            };
            Ok((key, cell))
        }))?;
        Ok(Self { label: label.to_owned(), entries })
    }

    /// The value for nodes of one kind; `None` if the table does not know them.
    pub(crate) fn lookup(&self, selection: &Selection) -> Option<&Value> {
        self.get(selection.values(&self.label).first()?, selection.gpus)
    }

    fn get(&self, value: &str, gpus: Option<i64>) -> Option<&Value> {
        match self.entry(value)? {
            (_, Cell::Value(value)) => Some(value),
            (_, Cell::ByGpus(cells)) => {
                cells.iter().find(|(count, _)| Some(*count) == gpus).map(|(_, value)| value)
            }
        }
    }

    fn entry(&self, value: &str) -> Option<&(Pattern, Cell)> {
        let matching = self.entries.iter().filter(|(known, _)| known.matches(value));
        matching.max_by_key(|(known, _)| known.precedence())
    }

    /// Returns whether an entry depends on the GPUs of the pod.
    pub(crate) fn reads_gpus(&self) -> bool {
        self.entries.iter().any(|(_, cell)| matches!(cell, Cell::ByGpus(_)))
    }

    /// The keys of the entries, each with the GPU counts if it depends on them.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Pattern, Vec<Option<i64>>)> {
        self.entries.iter().map(|(key, cell)| {
            let counts = match cell {
                Cell::Value(_) => vec![None],
                Cell::ByGpus(cells) => cells.iter().map(|(count, _)| Some(*count)).collect(),
            };
            (key, counts)
        })
    }

    fn to_json(&self) -> Value {
        let cell = |cell: &Cell| match cell {
            Cell::Value(value) => value.clone(),
            Cell::ByGpus(cells) => {
                let cells = cells.iter().map(|(count, value)| (count.to_string(), value.clone()));
                cells.collect::<Map<_, _>>().into()
            }
        };
        self.entries.iter().map(|(key, known)| (key.to_string(), cell(known))).collect::<Map<_, _>>().into()
    }
}

fn read_key(entry: &Entry<Node>) -> Result<Pattern, Diagnostic> {
    let hint = "write a value of the label, or one with a `*` for any text";
    if entry.key == "*" {
        return Err(Diagnostic::new(entry.span, "`*` is every value of the label")
            .hint(format!("{hint}; the value for all others is the `default`")));
    }
    let pattern = Pattern::new(&entry.key.to_lowercase());
    if pattern.stars() > 1 {
        let message = format!("`{}` has more than one `*`", entry.key);
        return Err(Diagnostic::new(entry.span, message).hint(hint));
    }
    Ok(pattern)
}

/// A key that is a number of GPUs.
fn count(entry: &Entry<Node>) -> Option<i64> {
    let count = entry.key.parse::<i64>().ok().filter(|count| *count >= 0 && count.to_string() == entry.key);
    // YAML 1.1 and YAML 1.2 read `010` as different numbers.
    count.filter(|_| !entry.converted || entry.span.length == entry.key.len())
}

/// Reads values by the GPUs of the pod.
fn read_by_gpus(read_value: ReadValue<'_>, entries: &[Entry<Node>]) -> Checked<Vec<(i64, Value)>> {
    all(entries.iter().map(|entry| {
        let Some(count) = count(entry) else {
            let message = format!("`{}` is not a number of GPUs", entry.key);
            return Err(Diagnostic::new(entry.span, message)
                .hint("write a value, or a map from GPUs of the pod to values")
                .into());
        };
        read_value(&entry.value).map(|value| (count, value))
    }))
}

fn twice(entry: &Entry<Node>, message: &str) -> Problems {
    Diagnostic::new(entry.span, message).code(DUPLICATE_NAME).hint("keep one of them").into()
}
