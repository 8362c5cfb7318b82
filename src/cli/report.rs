//! The report on each pod template, as text or as JSON.

use std::fmt;

use serde_json::{Value, json};

use fabric_engine::{Outcome, Reason};
use fabric_workloads::advice::Finding;
use fabric_workloads::manifest::Template;

use super::output::Format;

/// The location of a pod template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location<'a> {
    pub(super) file: &'a str,
    /// The number of the document, from 1.
    pub(super) document: usize,
    /// The kind and name of the document, such as `Job/train`.
    pub(super) object: &'a str,
}

impl Location<'_> {
    /// The place of a part of the document, for people.
    pub(super) fn of(self, pointer: &str) -> String {
        let Self { file, document, object } = self;
        let space = if pointer.is_empty() { "" } else { " " };
        format!("{file}: document {document}: {object}{space}{pointer}")
    }
}

/// The report on a pod template.
pub(super) fn template(format: Format, location: Location<'_>, template: &Template) -> Vec<String> {
    match format {
        Format::Text => text(location, template),
        Format::Json => vec![json(location, template)],
    }
}

fn text(location: Location<'_>, template: &Template) -> Vec<String> {
    let mutation = &template.mutation;
    let head = location.of(&template.pointer);
    let outcome = match &mutation.outcome {
        Outcome::Mutated(mutated) => format!("mutated by {}", mutated.stamp),
        Outcome::Skipped { reason, .. } => format!("skipped: {reason} ({})", reason.code()),
        Outcome::Unchanged { reason, .. } => {
            format!("unchanged: {} ({})", sentence(reason, template), reason.code())
        }
        Outcome::Refused { reason } => format!("refused: {reason} ({})", reason.code()),
    };
    let mut lines = vec![format!("{head}: {outcome}")];
    lines.extend(template.added.iter().map(|detail| format!("  + {detail}")));
    lines
        .extend(mutation.warnings.iter().map(|warning| format!("  warning: {warning} ({})", warning.code())));
    let near_misses = template.findings.near_misses.iter();
    lines.extend(near_misses.map(|miss| format!("  near miss: {} ({})", miss.message, miss.code)));
    lines
}

/// The reason, with the annotation that would have the pod injected.
fn sentence(reason: &Reason, template: &Template) -> String {
    match &template.findings.advice {
        Some(advice) => format!("{reason}; {}", advice.message),
        None => reason.to_string(),
    }
}

/// The report on a workload, or a part of it, without a pod template.
pub(super) fn note(format: Format, location: Location<'_>, note: &Finding) -> String {
    let Finding { pointer, code, message, .. } = note;
    if format == Format::Text {
        return format!("{}: unchanged: {message} ({code})", location.of(pointer));
    }
    // With the keys of the report on a template.
    json!({
        "file": location.file,
        "document": location.document,
        "path": pointer,
        "outcome": "unchanged",
        "policy": null,
        "reason": code,
        "message": message,
        "added": [],
        "warnings": [],
        "near_misses": [],
    })
    .to_string()
}

/// An error, with the file and the document that have it.
#[derive(Debug)]
pub(super) struct Failure<'a> {
    pub(super) code: &'static str,
    pub(super) file: Option<&'a str>,
    pub(super) document: Option<usize>,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl<'a> Failure<'a> {
    pub(super) fn new(code: &'static str, message: String) -> Self {
        Self { code, file: None, document: None, message, hint: None }
    }

    /// The same about a document.
    pub(super) fn at(self, file: &'a str, document: usize) -> Self {
        Self { file: Some(file), document: Some(document), ..self }
    }

    /// A warning about the output, which is complete.
    pub(super) fn warning(&self, format: Format) -> String {
        match format {
            Format::Text => format!("{self} ({})", self.code),
            Format::Json => self.json("warning"),
        }
    }

    /// The same as one JSON object.
    pub(super) fn json(&self, outcome: &str) -> String {
        let Self { code, file, document, message, hint } = self;
        json!({
            "outcome": outcome,
            "file": file,
            "document": document,
            "code": code,
            "message": hint.map_or_else(|| message.clone(), |hint| format!("{message}\nhint: {hint}")),
        })
        .to_string()
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = self.file {
            f.write_str(file)?;
            match self.document {
                Some(document) => write!(f, ": document {document}: ")?,
                None => f.write_str(" ")?,
            }
        }
        f.write_str(&self.message)
    }
}

fn json(location: Location<'_>, template: &Template) -> String {
    let mutation = &template.mutation;
    let reason = mutation.outcome.reason();
    let warnings: Vec<Value> = mutation
        .warnings
        .iter()
        .map(|warning| json!({"code": warning.code(), "path": warning.path, "message": warning.to_string()}))
        .collect();
    let near_misses = template.findings.near_misses.iter();
    let near_misses: Vec<Value> = near_misses.map(near_miss).collect();
    json!({
        "file": location.file,
        "document": location.document,
        "path": template.pointer,
        "outcome": mutation.outcome.name(),
        "policy": mutation.policy,
        "reason": reason.map(Reason::code),
        "message": reason.map(|reason| sentence(reason, template)),
        "added": template.added,
        "warnings": warnings,
        "near_misses": near_misses,
    })
    .to_string()
}

pub(super) fn near_miss(miss: &Finding) -> Value {
    json!({"code": miss.code, "path": miss.pointer, "message": miss.message})
}
