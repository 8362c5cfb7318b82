//! The values of extensions for the parameters and variables of a policy: a value, and rows of machines.

use serde_json::Value;

use super::table::Table;
use crate::parameter::Parameter;
use fabric_yaml::Span;

/// The values of one extension for a parameter of its base. They take precedence over the values of the nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    /// The position of the file among those of the policy. A base precedes its extensions.
    pub(crate) file: usize,
    /// A value for every pod, with its place.
    pub(crate) value: Option<(Value, Span)>,
    pub(crate) table: Table,
}

impl Layer {
    /// The layer of a file, which is inserted in order: an extension comes before its base.
    pub(crate) fn insert(parameter: &mut Parameter, file: usize) -> &mut Self {
        let layers = &mut parameter.layers;
        let position = layers.partition_point(|known| known.file > file);
        if layers.get(position).is_none_or(|known| known.file != file) {
            layers.insert(position, Self { file, ..Self::default() });
        }
        &mut layers[position]
    }
}
