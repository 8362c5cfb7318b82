//! The checker of workloads: the outcome for the pods of each template, and the changes to make.
//!
//! `lint` and the webhook for workloads use it. `mutate` reports the same near misses.

mod across;
mod lines;
mod review;

use std::cmp::Reverse;

use serde_json::Value;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{FINDINGS, Outcome, Reason, Warning, WarningKind};
use fabric_workloads::advice::NO_POD_TEMPLATE;
use fabric_workloads::manifest::{self, Document, DocumentError, RawDocument, Template, Wanted};
use fabric_yaml::pointer::field_path;

pub use across::Across;
pub use fabric_workloads::advice::{Finding, Level};
pub use lines::Lines;
pub use review::answer;

/// The code of the finding that a policy injects the pods of a template.
const INJECTED: &str = "injected";
/// The code of the finding that a template of `envsubst`, Helm or the like has no value yet.
const PLACEHOLDER: &str = "placeholder";

/// The codes of the findings that require action, except those that policies declare.
pub fn codes<'c>() -> impl Iterator<Item = &'c str> {
    let reasons = [Reason::LEFT_ALONE, Reason::SKIPPED, Reason::REFUSED, Reason::FAULTS];
    let own = [Warning::CODES, FINDINGS, across::CODES, &[NO_POD_TEMPLATE]];
    reasons.into_iter().chain(own).flatten().copied()
}

/// The findings of a document, the most important ones first. `gather` gets its value and its templates.
pub fn lint(
    policies: &PolicySet,
    document: &mut Document,
    piece: &RawDocument,
    wanted: Wanted<'_>,
    gather: impl FnOnce(&Value, &[Template]),
) -> Result<Vec<Finding>, DocumentError> {
    let wanted = Wanted { summary: true, findings: true, ..wanted };
    let injected = manifest::inject(policies, document, piece, wanted)?;
    let root = injected.value.as_ref().or(document.value.as_ref()).unwrap_or(&Value::Null);
    // Faults of the workload come first, since others may follow from them. Their messages have the field.
    gather(root, &injected.templates);
    let findings = || injected.templates.iter().map(|template| &template.findings);
    let notes = findings().filter_map(|of| of.advice.clone()).filter(|note| !note.code.is_empty());
    let mut found: Vec<Finding> = findings().flat_map(|of| &of.near_misses).cloned().chain(notes).collect();
    for template in &injected.templates {
        of_template(root, template, &mut found);
    }
    found.extend(injected.notes);
    found.sort_by_key(|finding| Reverse(finding.level));
    Ok(found)
}

fn of_template(root: &Value, template: &Template, found: &mut Vec<Finding>) {
    let place = place(root, &template.pointer);
    let mut add = |level, code: &str, message: String| {
        let message = if place.is_empty() { message } else { format!("`{place}`: {message}") };
        found.push(Finding::new(level, code, template.pointer.as_str(), message));
    };
    let mutation = &template.mutation;
    match &mutation.outcome {
        Outcome::Mutated(_) => {
            let policy = mutation.policy.as_deref().unwrap_or_default();
            let colon = if template.added.is_empty() { "" } else { ": " };
            let added = template.added.join("; ");
            add(Level::Note, INJECTED, format!("{policy} injects these pods{colon}{added}"));
        }
        Outcome::Refused { reason } => add(Level::Error, reason.code(), format!("refused: {reason}")),
        Outcome::Unchanged { reason: Reason::MalformedPod { path, seen, .. }, .. }
            if is_placeholder(seen) =>
        {
            let message = format!(
                "`{path}` is the placeholder `{seen}`: what the pods get is known when it has a value"
            );
            add(Level::Note, PLACEHOLDER, message);
        }
        Outcome::Unchanged { reason: reason @ Reason::MalformedPod { .. }, .. } => {
            add(Level::Error, reason.code(), reason.to_string());
        }
        Outcome::Unchanged { reason: Reason::NothingToAdd, .. } => {}
        Outcome::Unchanged { reason, .. } | Outcome::Skipped { reason, .. } => {
            let asks = mutation.policy.is_some() || matches!(mutation.outcome, Outcome::Skipped { .. });
            // A launcher needs no GPUs. Where another pod lacks them, that is a near miss.
            let is_launcher = matches!(reason, Reason::NoGpuContainer { unknown_claim: None, .. });
            if asks && template.findings.near_misses.is_empty() {
                let level = if is_launcher { Level::Note } else { Level::Warning };
                add(level, reason.code(), format!("left alone: {reason}"));
            }
        }
    }
    for warning in &mutation.warnings {
        if warning.asks_for_action() {
            add(Level::Warning, warning.code(), warning.to_string());
        } else if matches!(warning.kind, WarningKind::ClaimByName { .. }) {
            add(Level::Note, warning.code(), warning.to_string());
        }
    }
}

/// Returns whether a value is one that another program fills in.
fn is_placeholder(value: &str) -> bool {
    let value = value.trim_start_matches('"');
    ["${", "{{", "<%"].iter().any(|mark| value.contains(mark)) || value.starts_with(['$', '<'])
}

/// The field path of a template; for one in a manifest within a text, those of both, with `#` between them.
fn place(root: &Value, pointer: &str) -> String {
    match pointer.split_once('#') {
        None => field_path(root, pointer),
        Some((text, inner)) => format!("{}#{}", field_path(root, text), field_path(&Value::Null, inner)),
    }
}
