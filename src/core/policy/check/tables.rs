//! Tables and defaults of parameters as the file of the policy has them.

use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::{ALWAYS_FALSE, Diagnostic, TEMPLATE_BRACES, UNKNOWN_LABEL};
use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node};

use super::Finding;
use super::names::{WELL_KNOWN, is_slip};
use super::places::Places;

pub(super) fn findings(definition: &Definition) -> Vec<Finding> {
    let places = Places::of(definition);
    let Some(Node { content: Content::Map(parameters), .. }) = places.of_spec("parameters") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut add = |diagnostic| found.push(Finding::placed(diagnostic, definition));
    for Entry { key, value: parameter, .. } in parameters {
        let Content::Map(fields) = &parameter.content else { continue };
        let value = |name: &str| fields.iter().find(|field| field.key == name).map(|field| &field.value);
        let is_template = value("type").and_then(text) == Some("template");
        if let Some(default) = value("default").filter(|_| !is_template)
            && let Some(written) = text(default).filter(|written| written.contains("${"))
        {
            let message = format!("the default `{written}` of `{key}` is text, and no expression");
            let hint = "give the parameter the type `template`, or write the expression where it is used";
            add(Diagnostic::warning(TEMPLATE_BRACES, default.span, message).hint(hint));
        }
        let Some(Node { content: Content::Map(labels), .. }) = value("byNode") else { continue };
        for Entry { key: label, span, value: table, .. } in labels {
            if let Some(known) = WELL_KNOWN.iter().find(|known| is_slip(label, known)) {
                let message =
                    format!("no node has the label `{label}`, which is almost one that Kubernetes defines");
                add(Diagnostic::warning(UNKNOWN_LABEL, *span, message)
                    .hint(format!("did you mean `{known}`?")));
            }
            let Content::Map(rows) = &table.content else { continue };
            let is_value = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', '*'].contains(&c);
            for Entry { key: row, span, .. } in rows.iter().filter(|row| !row.key.chars().all(is_value)) {
                let message =
                    format!("no node has the value `{row}` of `{label}`: it cannot be the value of a label");
                let hint = "write the value as `kubectl get nodes -L LABEL` shows it";
                add(Diagnostic::warning(ALWAYS_FALSE, *span, message).hint(hint));
            }
        }
    }
    found
}

fn text(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Scalar { value: Scalar::String(text), .. } => Some(text),
        _ => None,
    }
}
