//! The report: what became of each pod template, for people or for programs.

use serde_json::{Value, json};

use crate::core::engine::Outcome;
use crate::core::manifest::Template;

/// Where a template stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    /// Number of the document, from 1.
    pub(super) document: usize,
    /// `Job/train`, or what is known of it.
    pub(super) object: &'a str,
}

/// Lines for a person.
pub(super) fn human(place: Place<'_>, template: &Template) -> Vec<String> {
    let Place { file, document, object } = place;
    let mutation = &template.mutation;
    let mut head = format!("{file}: document {document}: {object}");
    if !template.pointer.is_empty() {
        head.push_str(&format!(" {}", template.pointer));
    }
    let (outcome, details) = match &mutation.outcome {
        Outcome::Mutated(mutated) => (format!("mutated by {}", mutated.stamp), template.added.clone()),
        Outcome::Unchanged { reason, .. } => (format!("unchanged: {reason} ({})", reason.code()), Vec::new()),
        Outcome::Refused { reason } => (format!("refused: {reason} ({})", reason.code()), Vec::new()),
    };
    let mut lines = vec![format!("{head}: {outcome}")];
    lines.extend(details.iter().map(|detail| format!("  + {detail}")));
    lines
        .extend(mutation.warnings.iter().map(|warning| format!("  warning: {warning} ({})", warning.code())));
    lines
}

/// One JSON object for a program.
pub(super) fn machine(place: Place<'_>, template: &Template) -> String {
    let mutation = &template.mutation;
    let (outcome, reason) = match &mutation.outcome {
        Outcome::Mutated(_) => ("mutated", None),
        Outcome::Unchanged { reason, .. } => ("unchanged", Some(reason)),
        Outcome::Refused { reason } => ("refused", Some(reason)),
    };
    let warnings: Vec<Value> = mutation
        .warnings
        .iter()
        .map(|warning| json!({"code": warning.code(), "path": warning.path, "message": warning.to_string()}))
        .collect();
    json!({
        "file": place.file,
        "document": place.document,
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
