//! The lines of policy files and values files that have a value.

use serde::Serialize;

use crate::core::policy::Definition;
use crate::core::policy::matcher::current;
use crate::core::values::Values;
use crate::core::yaml::{self, Content, Entry, Node};

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileLine {
    pub file: String,
    pub line: usize,
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The files of a policy: its own, then those of the policies that it extends, the nearest first.
#[derive(Debug)]
pub(super) struct Files<'d> {
    definition: &'d Definition,
    roots: Vec<(&'d str, Node)>,
}

impl<'d> Files<'d> {
    pub(super) fn of(definition: &'d Definition) -> Self {
        let own = [(definition.file.as_str(), definition.text.as_str())];
        let bases = definition.bases.iter().rev().map(|base| (base.file.as_str(), base.text.as_str()));
        let texts = own.into_iter().chain(bases);
        let roots = texts.filter_map(|(file, text)| Some((file, yaml::read_unique(text).ok()?.0?)));
        Self { definition, roots: roots.collect() }
    }

    /// The place of an entry of a list of `spec`, such as the rule of this name.
    pub(super) fn item(&self, list: &str, key: &str, name: &str) -> Option<FileLine> {
        self.find(|root| {
            let Content::List(items) = &field(field(root, "spec")?, list)?.content else { return None };
            let named = |item: &&Node| field(item, key).is_some_and(|value| value.to_value() == name);
            items.iter().find(named).map(|item| item.span.line)
        })
    }

    /// The place of a key of a parameter, such as `default`, or of the parameter itself.
    pub(super) fn parameter(&self, name: &str, key: Option<&str>) -> Option<FileLine> {
        self.find(|root| {
            let parameters = field(field(root, "spec")?, "parameters")?;
            let parameter = entry(parameters, name)?;
            match key {
                Some(key) => entry(&parameter.value, key).map(|entry| entry.span.line),
                None => Some(parameter.span.line),
            }
        })
    }

    /// The place of the first of these entries of a table.
    pub(super) fn table(&self, parameter: &str, label: &str, keys: &[String]) -> Option<FileLine> {
        self.find(|root| {
            let parameters = field(field(root, "spec")?, "parameters")?;
            Self::in_tables(field(field(parameters, parameter)?, "byNode")?, label, keys)
        })
    }

    /// The place of a setting in a values file: of the parameter, of its `default`, or of an entry of its tables.
    pub(super) fn setting(
        &self,
        values_file: &Values,
        parameter: &str,
        within: &Within<'_>,
    ) -> Option<FileLine> {
        let (file, entries) = values_file.entries(&self.definition.provider);
        let setting = entries.iter().find(|entry| entry.key == parameter)?;
        let line = match within {
            Within::Whole => Some(setting.span.line),
            Within::Default => entry(&setting.value, "default").map(|entry| entry.span.line),
            Within::Table(label, keys) => Self::in_tables(&setting.value, label, keys),
        };
        line.map(|line| FileLine { file: file.to_owned(), line })
    }

    fn in_tables(tables: &Node, label: &str, keys: &[String]) -> Option<usize> {
        let Content::Map(tables) = &tables.content else { return None };
        let table = tables.iter().find(|table| current(&table.key) == label)?;
        let Content::Map(entries) = &table.value.content else { return None };
        let known = |entry: &&Entry<Node>| keys.contains(&entry.key.to_lowercase());
        entries.iter().find(known).map(|entry| entry.span.line)
    }

    fn find(&self, line: impl Fn(&Node) -> Option<usize>) -> Option<FileLine> {
        self.roots
            .iter()
            .find_map(|(file, root)| line(root).map(|line| FileLine { file: (*file).to_owned(), line }))
    }
}

/// The part of a setting that gives a value.
pub(super) enum Within<'v> {
    Whole,
    Default,
    /// The table of a label, at one of these entries.
    Table(&'v str, &'v [String]),
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Entry<Node>> {
    let Content::Map(entries) = &node.content else { return None };
    entries.iter().find(|entry| entry.key == key)
}

fn field<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    entry(node, key).map(|entry| &entry.value)
}
