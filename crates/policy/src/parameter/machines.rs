//! `machines`: values of parameters and variables by the labels of the nodes that a pod selects, one row for each
//! machine.

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node};

use super::layer::Layer;
use super::table::{Cell, DEFAULT, Row, not_empty, row_keys, twice};
use crate::keys::refuse_key;
use crate::matcher::selection;
use crate::parameter::{Parameter, Variable};
use crate::source::{
    Checked, Diagnostic, Problems, SourceFile, UNKNOWN_NAME, all, at_line, closest, did_you_mean,
    extension_at, reader,
};

/// Adds the rows to the parameters and variables that their columns name.
pub(crate) fn read(
    node: &Node,
    files: &[SourceFile],
    parameters: &mut [Parameter],
    variables: &mut [Variable],
) -> Checked<()> {
    let mut columns = Columns { files, parameters, variables };
    // Each file of a policy can have the label.
    let Content::Map(labels) = &node.content else { return reader::entries(node, "`machines`").map(drop) };
    labels.iter().try_for_each(|entry| refuse_key(entry, "machines"))?;
    reader::check_count(labels.len(), reader::MOST, "`machines`", node.span)?;
    let mut known: Vec<(Option<usize>, &str)> = Vec::new();
    all::<_, Problems, ()>(labels.iter().map(|entry| {
        reader::string_key(entry)?;
        let label = label_of(entry)?;
        let key = (extension_at(files, entry.span), label);
        if known.contains(&key) {
            return Err(twice(entry.span, format!("the label `{label}` is declared twice")).into());
        }
        known.push(key);
        let rows = reader::rows(&entry.value, &format!("the machines of `{label}`"))?;
        not_empty(rows, entry.span, &format!("the label `{label}` has no machine"))?;
        all::<_, Problems, ()>(rows.iter().map(|row| columns.add_row(label, row)))
    }))
}

/// The label of nodes that a key names.
fn label_of(entry: &Entry<Node>) -> Result<&str, Diagnostic> {
    if entry.key == DEFAULT {
        let hint = "the fallback is the `default` of the parameter, or the value in `variables`";
        return Err(Diagnostic::new(entry.span, "`default` is not a label of nodes").hint(hint));
    }
    selection::label(entry)
}

struct Columns<'c> {
    files: &'c [SourceFile],
    parameters: &'c mut [Parameter],
    variables: &'c mut [Variable],
}

impl Columns<'_> {
    fn add_row(&mut self, label: &str, row: &Entry<Node>) -> Checked<()> {
        let keys = row_keys(row)?;
        let what = format!("the machine `{}`", row.key);
        let hint = |key: &str| {
            if self.names().any(|name| name == key) {
                format!("write a label of nodes before the machine, as in `LABEL: {{{label}: {{{key}: …}}}}`")
            } else {
                format!("write the name of a parameter or variable, as in `{key}: {{NAME: …}}`")
            }
        };
        reader::map(&row.value, &what).map_err(|error| error.hint(hint(&row.key)))?;
        let cells = reader::entries(&row.value, &what)?;
        not_empty(cells, row.span, &format!("{what} has no value"))?;
        all::<_, Problems, ()>(cells.iter().map(|entry| {
            let files = self.files;
            let extension = extension_at(files, entry.span);
            let column = self.column(entry)?;
            if matches!(entry.value.content, Content::Scalar { value: Scalar::Null, .. }) {
                let message = format!("`{}` is `null` in a row", entry.key);
                let hint = "leave it out: the rows of other labels and the fallback decide then";
                return Err(Diagnostic::new(entry.value.span, message).hint(hint).into());
            }
            let bound = column.bound;
            let is_of_extension = extension < extension_at(files, bound);
            let cell = Cell::read(column, &entry.value).map_err(|problems| {
                let moved = |problem: Diagnostic| {
                    let message = format!("{}, in a row of the base", problem.message);
                    Diagnostic::new(bound, message).hint("let the bound allow what the rows of the base have")
                };
                if is_of_extension { problems.map(moved) } else { problems }
            })?;
            let table = match extension.map(|file| Layer::insert(column, file)) {
                Some(Layer { value: Some((_, span)), .. }) => {
                    let message =
                        format!("`{}` has one value for every pod in this file, and so no rows", entry.key);
                    let hint =
                        format!("remove the row, or the value at line {}", at_line(files, span.line).1);
                    return Err(Diagnostic::new(entry.span, message).hint(hint).into());
                }
                Some(layer) => &mut layer.table,
                None => &mut column.table,
            };
            for key in &keys {
                table.add(label, Row { key: key.clone(), cell: cell.clone(), span: entry.span })?;
            }
            Ok(())
        }))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let parameters = self.parameters.iter().map(|known| known.name.as_str());
        parameters.chain(self.variables.iter().map(|known| known.name.as_str()))
    }

    /// The parameter of a column, or the placeholder for a variable.
    fn column(&mut self, entry: &Entry<Node>) -> Result<&mut Parameter, Diagnostic> {
        let name = entry.key.as_str();
        if let Some(at) = self.variables.iter().position(|known| known.name == name) {
            let of_variable = || Box::new(Parameter { name: name.to_owned(), ..Parameter::default() });
            return Ok(self.variables[at].column.get_or_insert_with(of_variable));
        }
        if let Some(at) = self.parameters.iter().position(|known| known.name == name) {
            return Ok(&mut self.parameters[at]);
        }
        let message = format!("there is no parameter or variable `{name}` for this column");
        let declare = || format!("declare it: `variables: {{{name}: …}}` with the value for other nodes");
        let hint = closest(name, self.names()).map_or_else(declare, did_you_mean);
        Err(Diagnostic::error(UNKNOWN_NAME, entry.span, message).hint(hint))
    }
}
