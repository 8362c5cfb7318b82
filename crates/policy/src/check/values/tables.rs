//! Defaults of parameters, and the machines, as the file of the policy has them.

use crate::definition::{Definition, entries};
use crate::parameter::{LabelTable, Table, range_text};
use crate::source::{ALWAYS_FALSE, Diagnostic, GAP_IN_RANGES, TEMPLATE_BRACES, UNKNOWN_LABEL};
use fabric_yaml::{Entry, Text};

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for Entry { key, value: parameter, .. } in entries(definition.spec.get("parameters")) {
        // An extension sets a parameter of its base by a value in place of the map.
        let value = parameter.text().is_some().then_some(parameter);
        if let Some(default) = parameter.get("default").or(value)
            && let Some(Text { text: written, .. }) = default.text().filter(|text| text.text.contains("${"))
        {
            let message = format!("the value `{written}` of `{key}` is plain text, not an expression");
            let hint = "write the expression where the parameter is used";
            found.push(Diagnostic::warning(TEMPLATE_BRACES, default.span, message).hint(hint));
        }
    }
    for column in definition.by_node() {
        for (key, gap, span) in column.tables().flat_map(Table::labels).flat_map(LabelTable::gaps) {
            let message = format!("`{key}` gives `{}` no value for {} GPUs", column.name, range_text(&gap));
            let hint = "extend a range, or leave the numbers to a row of another label or to the default";
            found.push(Diagnostic::warning(GAP_IN_RANGES, span, message).hint(hint));
        }
    }
    for Entry { key: label, value: rows, span, .. } in entries(definition.spec.get("machines")) {
        if definition.matcher.labels.iter().any(|(known, _)| known == label) {
            let message = format!("`{label}` is a label of pods in `match`, and of nodes in `machines`");
            let hint = "choose nodes by a condition: `match: {when: node[?'LABEL'].orValue('') == 'VALUE'}`";
            found.push(Diagnostic::warning(UNKNOWN_LABEL, *span, message).hint(hint));
        }
        let is_value = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', '*'].contains(&c);
        for Entry { key: row, span, .. } in entries(Some(rows)) {
            for value in row.split(',').map(str::trim).filter(|value| !value.chars().all(is_value)) {
                let message = format!(
                    "no node can have the value `{value}` of `{label}`: it is not a valid label value"
                );
                let hint =
                    "write the value as `kubectl get nodes -L LABEL` shows it; a comma separates several";
                found.push(Diagnostic::warning(ALWAYS_FALSE, *span, message).hint(hint));
            }
        }
    }
    found
}
