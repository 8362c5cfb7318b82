//! Defaults of parameters, and the machines, as the file of the policy has them.

use std::collections::BTreeSet;

use crate::definition::{Definition, add_names_of_variables, entries, keys};
use crate::interpolation::names_in;
use crate::parameter::{LabelTable, Table, range_text};
use crate::source::{ALWAYS_FALSE, Diagnostic, GAP_IN_RANGES, NO_DEVICES, TEMPLATE_BRACES, UNKNOWN_LABEL};
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
    for Entry { key: label, value: rows, .. } in entries(definition.spec.get("machines")) {
        if definition.matcher.labels.iter().any(|(known, _)| known == label) {
            let message = format!("`{label}` is a label of pods in `match`, and of nodes in `machines`");
            let hint = "choose nodes by a condition: `match: {when: node[?'LABEL'].orValue('') == 'VALUE'}`";
            let place = definition.place(&keys(["match", "labels", label]));
            found.push(Diagnostic::warning(UNKNOWN_LABEL, place, message).hint(hint));
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
    found.extend(rows_without_devices(definition));
    found
}

/// Rows by which the policy adds no device, and all settings of the fabric, since no check reads the number.
fn rows_without_devices(definition: &Definition) -> Vec<Diagnostic> {
    let [mut amounts, mut asked] = [BTreeSet::new(), BTreeSet::new()];
    for rule in definition.rules.iter().filter(|rule| rule.device.is_some()) {
        rule.texts(&mut |text| amounts.extend(names_in(text)));
    }
    definition.checks.iter().for_each(|check| check.texts(&mut |text| asked.extend(names_in(text))));
    definition.matcher.when.iter().for_each(|text| asked.extend(names_in(text)));
    for names in [&mut amounts, &mut asked] {
        add_names_of_variables(definition.variables.iter(), names);
    }
    let mut found = Vec::new();
    for Entry { key: label, value: rows, .. } in entries(definition.spec.get("machines")) {
        for Entry { key: row, value, .. } in entries(Some(rows)) {
            let zeros = entries(Some(value)).iter().filter(|entry| {
                let is_zero = entry.value.to_value().as_f64() == Some(0.0);
                is_zero && amounts.contains(&entry.key) && !asked.contains(&entry.key)
            });
            found.extend(zeros.map(|Entry { key: name, value, .. }| {
                let message = format!(
                    "with `{row}` of `{label}`, a pod gets the settings of the fabric and no device: `{name}` is 0, which \
                     no check reads"
                );
                let hint =
                    format!("add a check with `when: totalGpus > 0 && {name} == 0.0` and `action: skip`, as `policy new` writes it");
                Diagnostic::warning(NO_DEVICES, value.span, message).hint(hint)
            }));
        }
    }
    found
}
