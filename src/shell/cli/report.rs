//! The report on each pod template, as text or as JSON.

use serde_json::{Value, json};

use crate::core::engine::Outcome;
use crate::core::manifest::Template;

/// The location of a pod template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location<'a> {
    pub(super) file: &'a str,
    /// The number of the document, from 1.
    pub(super) document: usize,
    /// The kind and name of the document, such as `Job/train`.
    pub(super) object: &'a str,
}

/// The lines of the report as text.
pub(super) fn text(location: Location<'_>, template: &Template) -> Vec<String> {
    let Location { file, document, object } = location;
    let mutation = &template.mutation;
    let mut head = format!("{file}: document {document}: {object}");
    if !template.pointer.is_empty() {
        head.push_str(&format!(" {}", template.pointer));
    }
    let (outcome, details) = match &mutation.outcome {
        Outcome::Mutated(mutated) => (format!("mutated by {}", mutated.stamp), template.added.clone()),
        Outcome::Skipped { reason, .. } => {
            (format!("skipped: {reason} ({})", reason.code()), template.added.clone())
        }
        Outcome::Unchanged { reason, .. } => (format!("unchanged: {reason} ({})", reason.code()), Vec::new()),
        Outcome::Refused { reason } => (format!("refused: {reason} ({})", reason.code()), Vec::new()),
    };
    let mut lines = vec![format!("{head}: {outcome}")];
    lines.extend(details.iter().map(|detail| format!("  + {detail}")));
    lines
        .extend(mutation.warnings.iter().map(|warning| format!("  warning: {warning} ({})", warning.code())));
    lines
}

/// The report as one JSON object.
pub(super) fn json(location: Location<'_>, template: &Template) -> String {
    let mutation = &template.mutation;
    let (outcome, reason) = match &mutation.outcome {
        Outcome::Mutated(_) => ("mutated", None),
        Outcome::Skipped { reason, .. } => ("skipped", Some(reason)),
        Outcome::Unchanged { reason, .. } => ("unchanged", Some(reason)),
        Outcome::Refused { reason } => ("refused", Some(reason)),
    };
    let warnings: Vec<Value> = mutation
        .warnings
        .iter()
        .map(|warning| json!({"code": warning.code(), "path": warning.path, "message": warning.to_string()}))
        .collect();
    json!({
        "file": location.file,
        "document": location.document,
        "path": template.pointer,
        "outcome": outcome,
        "policy": mutation.policy,
        "reason": reason.map(crate::core::engine::Reason::code),
        "message": reason.map(ToString::to_string),
        "added": template.added,
        "warnings": warnings,
    })
    .to_string()
}
