//! Values of a parameter or a variable by the labels of the nodes that a pod selects.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use fabric_yaml::{Content, Entry, Node, Span};

use crate::matcher::Pattern;
use crate::matcher::selection::{self, Selection};
use crate::parameter::{Parameter, ParameterType};
use crate::source::{Checked, DUPLICATE_NAME, Diagnostic, MISSING_KEY, Problems, all, reader};

/// The limit on the values with a `*` of one label. A pod is compared with each of them.
const MAX_PATTERNS: usize = 2_000;
/// The limit on ranges of numbers of GPUs in one row.
const MAX_RANGES: usize = 64;

/// The key of a values file's table that replaces the default of the parameter.
pub(crate) const DEFAULT: &str = "default";

/// The values by labels, the label of the highest precedence first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table(Vec<LabelTable>);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelTable {
    pub(crate) label: String,
    rows: Vec<Row>,
    /// The rows, by the text of their keys.
    by_key: HashMap<String, usize>,
    /// The rows with a `*`, in the order of their precedence.
    patterns: Vec<usize>,
}

/// The value for one value of the label, or for those that a pattern matches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// In lower case.
    pub(crate) key: Pattern,
    pub(crate) cell: Cell,
    /// The place of the value.
    pub(crate) span: Span,
}

/// A value for every number of GPUs of the pod, or values by that number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    value: Option<Value>,
    by_gpus: Vec<(Gpus, Value)>,
}

/// Numbers of GPUs of a pod.
pub type Gpus = RangeInclusive<i64>;

impl Table {
    /// Reads the table of a values file, by label.
    pub(crate) fn read<'n>(
        parameter: &Parameter,
        entries: impl IntoIterator<Item = &'n Entry<Node>>,
    ) -> Checked<Self> {
        let mut table = Self::default();
        all::<_, Problems, ()>(entries.into_iter().map(|entry| {
            let label = selection::label(entry)?;
            if table.0.iter().any(|known| known.label == label) {
                return Err(twice(entry.span, format!("the label `{label}` is declared twice")).into());
            }
            let what = format!("the table of `{label}`");
            let hint = || format!("write a table for each label, as in `LABEL: {{{label}: …}}`");
            reader::map(&entry.value, &what).map_err(|error| error.hint(hint()))?;
            let rows = reader::rows(&entry.value, &what)?;
            all::<_, Problems, ()>(rows.iter().map(|row| {
                let cell = Cell::read(parameter, &row.value)?;
                for key in row_keys(row)? {
                    table.add(label, Row { key, cell: cell.clone(), span: row.span })?;
                }
                Ok(())
            }))
        }))?;
        Ok(table)
    }

    /// Adds a row. A second one with the same key is an error.
    pub(crate) fn add(&mut self, label: &str, row: Row) -> Result<(), Diagnostic> {
        let at = self.0.iter().position(|known| known.label == label).unwrap_or_else(|| {
            self.0.push(LabelTable { label: label.to_owned(), ..LabelTable::default() });
            self.0.len() - 1
        });
        self.0[at].add(row)
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &LabelTable> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, String, Span)> {
        self.0.iter().flat_map(|table| {
            let rows = table.rows.chunk_by(|one, next| one.span == next.span);
            rows.map(|row| {
                let keys: Vec<String> = row.iter().map(|row| row.key.to_string()).collect();
                (table.label.as_str(), keys.join(", "), row[0].span)
            })
        })
    }

    /// The value for nodes of one kind, with the label that decides and the place of the row.
    pub(crate) fn find(&self, selection: &Selection) -> Option<(String, &Value, Span)> {
        self.0.iter().find_map(|table| {
            let (value, span) = table.find(selection)?;
            Some((table.label.clone(), value, span))
        })
    }

    /// The values of all rows.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        let cells = self.0.iter().flat_map(|table| &table.rows).map(|row| &row.cell);
        cells.flat_map(|cell| cell.value.iter().chain(cell.by_gpus.iter().map(|(_, value)| value)))
    }

    pub fn to_json(&self) -> Map<String, Value> {
        self.0.iter().map(|table| (table.label.clone(), table.to_json())).collect()
    }
}

impl LabelTable {
    fn add(&mut self, row: Row) -> Result<(), Diagnostic> {
        let Row { key, span, .. } = &row;
        let (at, text, span) = (self.rows.len(), key.to_string(), *span);
        // One error is enough for all rows beyond the limit.
        if self.patterns.len() > MAX_PATTERNS {
            return Ok(());
        }
        if self.by_key.insert(text.clone(), at).is_some() {
            return Err(twice(span, format!("the value `{text}` is declared twice, letter case aside")));
        }
        if key.stars() > 0 {
            // No two patterns that match one text have the same precedence.
            let before = |known: &usize| self.rows[*known].key.precedence() > key.precedence();
            self.patterns.insert(self.patterns.partition_point(before), at);
        }
        self.rows.push(row);
        reader::check_count(self.patterns.len(), MAX_PATTERNS, "values with a `*`", span)
            .map_err(|error| error.hint("write values without one, or shorter beginnings"))
    }

    /// The value for nodes of one kind, with the place of the row; `None` if the table does not know them.
    fn find(&self, selection: &Selection) -> Option<(&Value, Span)> {
        let value = selection.values(&self.label).first()?;
        // If a row has no value for the GPUs of the pod, the next one decides.
        self.rows_for(value).find_map(|row| Some((row.cell.value_for(selection.gpus)?, row.span)))
    }

    /// The rows for a value of the label, in the order of their precedence.
    fn rows_for<'t, 'v>(&'t self, value: &'v str) -> impl Iterator<Item = &'t Row> + use<'t, 'v> {
        let matching = self.patterns.iter().filter(move |at| self.rows[**at].key.matches(value));
        self.by_key.get(value).into_iter().chain(matching).map(|at| &self.rows[*at])
    }

    /// For each row for a value of the label, the numbers of GPUs on which it depends.
    pub(crate) fn gpus_of(&self, value: &str) -> impl Iterator<Item = impl Iterator<Item = &Gpus>> {
        self.rows_for(value).map(|row| row.cell.by_gpus.iter().map(|(range, _)| range))
    }

    /// Returns whether a row depends on the GPUs of the pod.
    pub(crate) fn reads_gpus(&self) -> bool {
        self.rows.iter().any(|row| !row.cell.by_gpus.is_empty())
    }

    /// The numbers of GPUs between two ranges of a row, with its key and place. A pod with such a number gets no value
    /// from it. Next to a single number, nobody expects the neighbors.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&Pattern, Gpus, Span)> {
        self.rows.iter().flat_map(|row| {
            let mut ranges: Vec<&Gpus> = row.cell.by_gpus.iter().map(|(range, _)| range).collect();
            ranges.sort_by_key(|range| *range.start());
            let wide = |two: &&[&Gpus]| two.iter().all(|range| range.start() < range.end());
            let gaps = ranges.windows(2).filter(wide).map(|two| two[0].end() + 1..=two[1].start() - 1);
            let gaps: Vec<Gpus> = gaps.collect();
            gaps.into_iter().filter(|gap| !gap.is_empty()).map(|gap| (&row.key, gap, row.span))
        })
    }

    /// The keys of the rows, each with the numbers of GPUs on which it depends.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Pattern, impl Iterator<Item = &Gpus>)> {
        self.rows.iter().map(|row| (&row.key, row.cell.by_gpus.iter().map(|(range, _)| range)))
    }

    fn to_json(&self) -> Value {
        let cell = |cell: &Cell| {
            let by_gpus = cell.by_gpus.iter().map(|(range, value)| (range_text(range), value.clone()));
            cell.value.clone().unwrap_or_else(|| by_gpus.collect::<Map<_, _>>().into())
        };
        self.rows.iter().map(|row| (row.key.to_string(), cell(&row.cell))).collect::<Map<_, _>>().into()
    }
}

impl Cell {
    fn value_for(&self, gpus: Option<i64>) -> Option<&Value> {
        let of_gpus = |gpus| self.by_gpus.iter().find(|(range, _)| range.contains(&gpus));
        self.value.as_ref().or_else(|| of_gpus(gpus?).map(|(_, value)| value))
    }

    pub(crate) fn read(parameter: &Parameter, node: &Node) -> Checked<Self> {
        match &node.content {
            // The value of a variable can be a map.
            Content::Map(entries)
                if parameter.kind != ParameterType::Any
                    || entries.first().is_some_and(|one| range(one).is_some()) =>
            {
                Ok(Self { value: None, by_gpus: read_by_gpus(parameter, entries, node.span)? })
            }
            _ => Ok(Self { value: Some(parameter.read_value(node)?), by_gpus: Vec::new() }),
        }
    }
}

/// The values and patterns of a row, which commas separate, in lower case.
pub(crate) fn row_keys(row: &Entry<Node>) -> Result<Vec<Pattern>, Diagnostic> {
    let hint = "write a value of the label, or one with a `*` for any text; a comma separates several; the value for \
                all others is that of the parameter or variable itself";
    row.key
        .split(',')
        .map(|text| {
            let text = text.trim();
            let problem = match text.matches('*').count() {
                _ if text.is_empty() => "a value of the label is empty".to_owned(),
                _ if text == "*" => "`*` is every value of the label".to_owned(),
                0 | 1 => return Ok(Pattern::new(&text.to_lowercase())),
                _ => format!("`{text}` has more than one `*`"),
            };
            Err(Diagnostic::new(row.span, problem).hint(hint))
        })
        .collect()
}

/// A key that is a number of GPUs, or two of them with a `-` between them.
fn range(entry: &Entry<Node>) -> Option<Gpus> {
    let number =
        |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0 && number.to_string() == text);
    let (first, last) = entry.key.split_once('-').unwrap_or((&entry.key, &entry.key));
    let range = number(first)?..=number(last)?;
    // YAML 1.1 and YAML 1.2 read `010` as different numbers.
    (!range.is_empty() && (!entry.converted || entry.span.length == entry.key.len())).then_some(range)
}

pub(crate) fn range_text(range: &Gpus) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("{}-{}", range.start(), range.end())
    }
}

/// Reads values by the GPUs of the pod.
fn read_by_gpus(parameter: &Parameter, entries: &[Entry<Node>], span: Span) -> Checked<Vec<(Gpus, Value)>> {
    let mut known: Vec<Gpus> = Vec::new();
    not_empty(entries, span, "these numbers of GPUs have no value")?;
    reader::check_count(entries.len(), MAX_RANGES, "numbers of GPUs", span)
        .map_err(|error| error.hint("write ranges, as in `2-8`"))?;
    all(entries.iter().map(|entry| {
        let Some(range) = range(entry) else {
            let message = format!("`{}` is not a number of GPUs", entry.key);
            let hint = "write a value, or a map from the GPUs of the pod to values, such as `{1: 0, 2-8: 4}`";
            return Err(Diagnostic::new(entry.span, message).hint(hint).into());
        };
        if let Some(other) =
            known.iter().find(|other| other.start() <= range.end() && range.start() <= other.end())
        {
            let message = format!("`{}` and `{}` overlap", range_text(other), range_text(&range));
            let shared = *other.start().max(range.start())..=*other.end().min(range.end());
            let hint = format!("let only one of them have {}", range_text(&shared));
            return Err(twice(entry.span, message).hint(hint).into());
        }
        known.push(range.clone());
        parameter.read_value(&entry.value).map(|value| (range, value))
    }))
}

pub(super) fn twice(span: Span, message: String) -> Diagnostic {
    Diagnostic::error(DUPLICATE_NAME, span, message).hint("keep one of them")
}

pub(super) fn not_empty(entries: &[Entry<Node>], span: Span, message: &str) -> Result<(), Diagnostic> {
    if entries.is_empty() {
        let hint = "write its entries, or leave it out";
        return Err(Diagnostic::error(MISSING_KEY, span, message).hint(hint));
    }
    Ok(())
}
