//! The checker of workloads: the outcome for the pods of each template, and the changes to make.
//!
//! `lint` and the webhook for workloads use it. `mutate` reports the same near misses.

mod across;
mod network_policies;

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use serde_json::value::RawValue;

use fabric_engine::admission::{Answer, BadReview, Mode, WorkloadReview};
use fabric_engine::policy_set::PolicySet;
use fabric_engine::{FINDINGS, Outcome, Reason, Warning, WarningKind};
use fabric_policy::PodContext;
use fabric_policy::work::{Ended, Work};
use fabric_workloads::advice::NO_POD_TEMPLATE;
use fabric_workloads::manifest::{self, Document, DocumentError, RawDocument, Template, Wanted};
use fabric_yaml::pointer::{field_path, unescape};
use fabric_yaml::{Content, Node, duplicate_key, read_node_with_duplicates};

pub use fabric_workloads::advice::{Finding, Level};

pub use across::Across;

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
        // After a fault, an operator may let pods run.
        Outcome::Refused { reason } => {
            let what = if reason.is_fault() { "not injected" } else { "refused" };
            add(Level::Error, reason.code(), format!("{what}: {reason}"));
        }
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
        } else if matches!(warning.kind, WarningKind::ClaimByName { .. } | WarningKind::KeptFabric { .. }) {
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

/// A document with the line of each field.
#[derive(Debug)]
pub struct Lines {
    root: Option<Node>,
    /// The lines of the stream before the text.
    before: usize,
}

impl Lines {
    /// The lines of a document that was read.
    pub fn new(piece: &RawDocument, document: &Document) -> Self {
        let text = std::str::from_utf8(&piece.bytes).unwrap_or_default();
        let (mark, text) = text.split_at(document.mark);
        let before = piece.line - 1 + mark.matches('\n').count();
        Self { root: read_node_with_duplicates(text).ok().flatten(), before }
    }

    /// The first key that appears twice in a map.
    pub fn repeated_key(&self) -> Option<(usize, String)> {
        let error = duplicate_key(self.root.as_ref()?)?;
        Some((self.before + error.span.line, format!("{}, and the last one counts", error.message)))
    }

    /// The line of the stream that has the field at a JSON Pointer, or else the nearest field around it.
    pub fn line(&self, pointer: &str) -> usize {
        let mut node = self.root.as_ref();
        let mut line = node.map_or(1, |root| root.span.line);
        // The content of a string is on the line of the string.
        let pointer = pointer.split('#').next().unwrap_or_default();
        for token in pointer.split('/').skip(1) {
            let token = unescape(token);
            let next = match node.map(|node| &node.content) {
                Some(Content::Map(entries)) => entries
                    .iter()
                    .rfind(|entry| *entry.key == *token)
                    .map(|entry| (entry.span.line, &entry.value)),
                Some(Content::List(items)) => {
                    token.parse().ok().and_then(|at: usize| items.get(at)).map(|item| (item.span.line, item))
                }
                _ => None,
            };
            let Some((next_line, value)) = next else { break };
            (line, node) = (next_line, Some(value));
        }
        self.before + line.max(1)
    }
}

/// The limit on findings in an answer. `lint` shows all.
const MOST: usize = 6;

/// Answers a review of a workload. `context` holds the caller's facts about its pods.
pub fn answer(
    policies: &PolicySet,
    mode: Mode,
    body: &[u8],
    context: &PodContext,
) -> Result<Answer, BadReview> {
    context.count_reading();
    let mut review = WorkloadReview::<&RawValue>::read(body)?;
    let workload = review.take_object().map(|object| context.read(object.get())).transpose()?;
    let workload = workload.unwrap_or_default();
    // A panic on one workload must not close a connection that serves other requests.
    let found = catch_unwind(AssertUnwindSafe(|| findings(policies, workload, review.namespace(), context)));
    let Ok(found) = found else { return Ok(review.unadvised("panic", mode)) };
    if let Some(ended) = context.work.as_ref().and_then(Work::ended) {
        let reason = if ended == Ended::Stopped { "overload" } else { "cost" };
        return Ok(review.unadvised(reason, mode));
    }
    let codes = found.iter().map(|finding| finding.code.clone()).collect();
    Ok(review.answer(None, warnings(&found, mode), codes, mode))
}

/// The findings for the person who applies the workload. Notes are none: with `--warnings-as-errors`, each warning fails
/// kubectl.
fn findings(
    policies: &PolicySet,
    workload: Value,
    namespace: Option<&str>,
    context: &PodContext,
) -> Vec<Finding> {
    let work = context.work.as_ref();
    let (nodes, objects) = (context.nodes.as_ref(), context.objects.as_ref());
    let wanted = Wanted { namespace, nodes, objects, work, checks: work, ..Wanted::default() };
    let found =
        lint(policies, &mut Document::new(workload), &RawDocument::new(Vec::new()), wanted, |_, _| ());
    let mut found = found.unwrap_or_default();
    // The runtime of a `TrainJob` is not in the review.
    found.retain(|finding| finding.runtime.is_none() && finding.level > Level::Note);
    found
}

fn warnings(found: &[Finding], mode: Mode) -> Vec<String> {
    let audit = if mode == Mode::Audit { "audit mode, no pod is changed: " } else { "" };
    let shown = found.iter().take(MOST).map(|finding| format!("{audit}{}", finding.message));
    let left = found.len().saturating_sub(MOST);
    let rest = (left > 0).then(|| format!("and {left} more, which `fabric-injector lint` shows"));
    shown.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a pointer in a document that begins on line 11 of its stream.
    fn line(text: &str, pointer: &str) -> usize {
        let piece = RawDocument { line: 11, ..RawDocument::new(text.as_bytes().to_vec()) };
        let document = Document::read(&piece).unwrap();
        Lines::new(&piece, &document).line(pointer)
    }

    #[test]
    fn a_field_has_the_line_of_its_key() {
        let text = "---\n# a comment\nspec:\n  list:\n  - name: a\n    x/y: 1\n  - {name: b}\n";
        assert_eq!(line(text, ""), 13);
        assert_eq!(line(text, "/spec/list"), 14);
        assert_eq!(line(text, "/spec/list/0/x~1y"), 16);
        assert_eq!(line(text, "/spec/list/1/name"), 17);
    }

    #[test]
    fn what_is_not_there_has_the_line_of_what_is_around_it() {
        let text = "spec:\n  list:\n  - name: a\n";
        for (pointer, wanted) in [("/spec/list/7", 12), ("/spec/list/0/name/x", 13), ("/status", 11)] {
            assert_eq!(line(text, pointer), wanted, "{pointer}");
        }
        assert_eq!(line("spec:\n  text: |\n    a: b\n", "/spec/text#/a"), 12);
        assert_eq!(line("{\n \"spec\": {\n  \"a\": 1}}", "/spec/a"), 13);
        assert_eq!(line("\u{feff}---\n\u{feff}a: 1\n", "/a"), 12);
    }
}
