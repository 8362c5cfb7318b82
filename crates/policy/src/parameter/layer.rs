//! The values of extensions for the parameters and variables of a policy: a value, and rows of machines.

use serde_json::Value;

use super::table::Table;
use crate::parameter::Parameter;
use crate::source::SourceFile;
use fabric_yaml::Span;

/// The values of one extension for a parameter of its base. They take precedence over the values of the nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    /// The position of the file among those of the policy. A base precedes its extensions.
    file: usize,
    /// A value for every pod, with its place.
    pub(crate) value: Option<(Value, Span)>,
    pub(crate) table: Table,
}

/// The files of a policy, with consecutive line numbers.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// For each file, its last line, whether it extends a policy, and whether it is one.
    files: Vec<(usize, bool, bool)>,
}

impl Files {
    pub(crate) fn new<'f>(files: impl Iterator<Item = (&'f SourceFile, bool, bool)>) -> Self {
        let mut last = 0;
        let file = |(file, is_extension, is_policy): (&SourceFile, bool, bool)| {
            last += file.lines();
            (last, is_extension, is_policy)
        };
        Self { files: files.map(file).collect() }
    }

    /// The position of the extension that has a place; `None` for other files.
    pub(crate) fn extension_at(&self, span: Span) -> Option<usize> {
        let at = self.files.partition_point(|(last, ..)| *last < span.line);
        self.files.get(at).filter(|(_, is_extension, _)| *is_extension).map(|_| at)
    }

    /// The precedence of a place: a policy precedes the parts that it takes, and an extension precedes its base.
    pub(crate) fn rank(&self, span: Span) -> usize {
        let at = self.files.partition_point(|(last, ..)| *last < span.line);
        self.files.get(at).filter(|(.., is_policy)| *is_policy).map_or(0, |_| at + 1)
    }

    /// The line of a place in its own file.
    pub(crate) fn line(&self, span: Span) -> usize {
        let at = self.files.partition_point(|(last, ..)| *last < span.line);
        span.line - at.checked_sub(1).map_or(0, |before| self.files[before].0)
    }
}

impl Layer {
    /// Returns whether it is of a file that the one at this position extends.
    pub(crate) fn is_of_base(&self, file: usize) -> bool {
        self.file < file
    }

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
