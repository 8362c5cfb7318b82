//! The values that an operator sets for parameters.

use std::collections::BTreeMap;

use serde_json::Value;

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node};

use super::table::{DEFAULT, Table};
use crate::parameter::Parameter;
use crate::source::Checked;

/// The value that an operator sets for a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Override {
    /// One value for every pod.
    Value(Value),
    /// Values by label, which precede the table of the policy.
    Table {
        table: Table,
        /// Replaces the default of the policy.
        default: Option<Value>,
    },
}

/// The values that an operator sets, by parameter.
pub type Overrides = BTreeMap<String, Override>;

impl Override {
    /// Reads and checks an entry of a values file, in which an empty value means that the parameter is not set.
    pub fn read(parameter: &Parameter, node: &Node) -> Checked<Option<Self>> {
        let Some(node) = without_null(node) else { return Ok(None) };
        let Content::Map(entries) = &node.content else {
            return parameter.read_value(&node).map(|value| Some(Self::Value(value)));
        };
        let (defaults, tables): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.key == DEFAULT);
        let default = defaults.first().map(|entry| parameter.read_value(&entry.value)).transpose()?;
        let table = Table::read(parameter, tables)?;
        Ok(Some(Self::Table { table, default }))
    }

    /// The value as a values file has it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Table { table, default } => {
                let mut entries = table.to_json();
                entries.extend(default.clone().map(|value| (DEFAULT.to_owned(), value)));
                entries.into()
            }
        }
    }

    pub fn table(&self) -> Option<&Table> {
        if let Self::Table { table, .. } = self { Some(table) } else { None }
    }
}

/// The node without the entries of maps that are `null`; `None` if it is `null` itself.
fn without_null(node: &Node) -> Option<Node> {
    match &node.content {
        Content::Scalar { value: Scalar::Null, .. } => None,
        Content::Map(entries) => {
            let entries = entries.iter().filter_map(|entry| {
                let value = without_null(&entry.value)?;
                Some(Entry { key: entry.key.clone(), value, ..*entry })
            });
            Some(Node { content: Content::Map(entries.collect()), ..*node })
        }
        _ => Some(node.clone()),
    }
}

impl From<Value> for Override {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}
