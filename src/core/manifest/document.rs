//! Injects the pod templates of a document.

use json_patch::{Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use crate::core::engine::{Mutation, Outcome, Reason};
use crate::core::policy::PodContext;
use crate::core::policy_set::{PolicySet, mutate};
use crate::core::workload::{self, CheckedPod, Findings, NO_POD_TEMPLATE};
use crate::core::yaml;

use super::inline;
use super::read::{Document, DocumentError, RawDocument, Syntax, located};
use super::templates::{self, Found};

/// The result of the injection of one pod template.
#[derive(Debug)]
pub struct Template {
    /// The JSON Pointer from the document's root to the template.
    pub pointer: String,
    /// The mutation of the template.
    pub mutation: Mutation,
    /// A summary of the added fields, one line for each container and one for the pod. Empty unless
    /// [`Wanted::summary`] is set.
    pub added: Vec<String>,
    /// The requests for the fabric that have no effect. Empty unless [`Wanted::findings`] is set.
    pub findings: Findings,
    /// True if the template has no annotation of a trigger, and was injected as if it had.
    pub assumed: bool,
    /// True if the template has the stamp that a policy in use gives it.
    pub stamped: bool,
    /// True if the template is in a manifest within a text, whose pointer is before the `#`.
    pub(super) in_text: bool,
}

/// A fact about a document, or about a part of it, that has no pod templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// JSON Pointer from the document's root.
    pub pointer: String,
    pub code: &'static str,
    pub message: String,
}

/// The optional parts of a result. Each costs time, so the caller asks for those that it uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Keep a copy of the pod in each mutation, for its patch.
    pub patches: bool,
    /// Write a summary of the added fields.
    pub summary: bool,
    /// Look for requests for the fabric that have no effect.
    pub findings: bool,
    pub annotation: TriggerAnnotation,
}

/// The treatment of templates without the annotation of a trigger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TriggerAnnotation {
    /// No policy with such an annotation matches them.
    #[default]
    Required,
    /// They are injected as if they had it.
    Assumed,
}

/// The result of the injection of all pod templates of a document.
#[derive(Debug, Default)]
pub struct InjectedDocument {
    /// The results, in the order of the document.
    pub templates: Vec<Template>,
    /// The changed document; `None` if no template changed.
    pub value: Option<Value>,
    /// The reasons why a workload, or a manifest within it, has no templates.
    pub notes: Vec<Note>,
    /// The changed texts that have manifests, each with its JSON Pointer.
    pub(super) texts: Vec<(String, String)>,
    /// The comments that these texts no longer have, each with the JSON Pointer of its text and its line there.
    pub lost: Vec<(String, yaml::Comment)>,
}

impl InjectedDocument {
    /// The patches of all templates, with paths from the document's root. Needs [`Wanted::patches`].
    pub fn patch(&self) -> Patch {
        let of_template = |template: &Template| {
            let changed = template.mutation.outcome.changed();
            let operations = changed.map(|changed| changed.patch().0).unwrap_or_default();
            let pointer = template.pointer.clone();
            operations.into_iter().filter_map(move |operation| moved(operation, &pointer))
        };
        let of_text = |(pointer, text): &(String, String)| {
            let path = pointer.parse().ok()?;
            Some(PatchOperation::Replace(ReplaceOperation { path, value: text.clone().into() }))
        };
        let templates = self.templates.iter().filter(|template| !template.in_text);
        Patch(templates.flat_map(of_template).chain(self.texts.iter().filter_map(of_text)).collect())
    }

    /// Returns true if a policy refuses a pod of the document.
    pub fn refused(&self) -> bool {
        self.templates.iter().any(|template| matches!(template.mutation.outcome, Outcome::Refused { .. }))
    }
}

/// Injects every pod template of a document.
///
/// Returns an error if a map of a changed document has a key twice, since writing it would lose one of the values, and
/// if a document with such a map would change with the other value.
pub fn inject(
    policies: &PolicySet,
    document: &mut Document,
    piece: &RawDocument,
    wanted: Wanted,
) -> Result<InjectedDocument, DocumentError> {
    let mut injected = InjectedDocument::default();
    let mut changed = false;
    let Some(mut root) = document.value.take() else { return Ok(injected) };
    let mut contexts: Vec<PodContext> = Vec::new();
    for Found { pointer, mut request } in templates::find(&root) {
        let Some(place) = root.pointer_mut(&pointer) else { continue };
        let assumed = wanted.annotation == TriggerAnnotation::Assumed
            && assume_annotated(policies, place, &mut request);
        let stamped = policies.has_stamped(place);
        let mut mutation = mutate(policies, place.take(), &request);
        let mut added = Vec::new();
        match &mut mutation.outcome {
            Outcome::Mutated(mutated) | Outcome::Skipped { marked: mutated, .. } => {
                if wanted.summary {
                    added = mutated.operations().summary();
                }
                changed |= mutated.operation_count() > 0;
                *place = if wanted.patches { mutated.pod.clone() } else { mutated.pod.take() };
            }
            Outcome::Unchanged { pod, .. } => *place = pod.take(),
            Outcome::Refused { .. } => {}
        }
        injected.templates.push(Template {
            pointer,
            mutation,
            added,
            findings: Findings::default(),
            assumed,
            stamped,
            in_text: false,
        });
        contexts.push(request);
    }
    if wanted.findings {
        add_findings(policies, &root, &contexts, &mut injected);
    }
    changed |= inline::inject(policies, &mut root, wanted, &mut injected);
    let repeats = document.syntax == Syntax::Json || document.duplicate_key.is_some();
    if !(changed || repeats && first_reading_changes(policies, document, piece)) {
        document.value = Some(root);
        return Ok(injected);
    }
    if document.syntax == Syntax::Json {
        // As YAML, because the JSON parser accepts a repeated key without an error.
        let manifest = yaml::read_value(document.split(piece).1);
        document.duplicate_key = manifest.ok().and_then(|manifest| manifest.duplicate_key);
    }
    if let Some(duplicate) = document.duplicate_key.take() {
        let error = located(duplicate, piece, document.split(piece).0);
        return Err(DocumentError {
            message: format!("{}, and one of the two values would be lost", error.message),
            ..error
        });
    }
    injected.value = Some(root);
    Ok(injected)
}

/// Lets a template without the annotation of a trigger match as if it had that. Returns false for another template.
fn assume_annotated(policies: &PolicySet, template: &Value, context: &mut PodContext) -> bool {
    let annotations = &template["metadata"]["annotations"];
    let triggers = policies.triggers();
    let is_annotated = triggers.iter().any(|(key, _)| !annotations[key.as_str()].is_null());
    if !is_annotated {
        context.annotations = triggers.into_iter().cloned().collect();
    }
    !is_annotated
}

/// Checks the document for requests for the fabric that have no effect.
fn add_findings(
    policies: &PolicySet,
    root: &Value,
    contexts: &[PodContext],
    injected: &mut InjectedDocument,
) {
    if injected.templates.is_empty() {
        let note = |message| Note { pointer: String::new(), code: NO_POD_TEMPLATE, message };
        injected.notes.extend(workload::podless(policies, root).map(note));
        return;
    }
    let templates = injected.templates.iter().zip(contexts);
    let pods: Vec<CheckedPod<'_>> = templates
        .map(|(template, context)| {
            let Template { pointer, mutation, .. } = template;
            CheckedPod { pointer, context, mutation }
        })
        .collect();
    let findings = workload::check(policies, root, &pods);
    for (template, findings) in injected.templates.iter_mut().zip(findings) {
        template.findings = findings;
    }
}

/// Returns true if a pod is injected or refused if each repeated key has its first value.
fn first_reading_changes(policies: &PolicySet, document: &Document, piece: &RawDocument) -> bool {
    let text = document.split(piece).1;
    let Some(mut root) = yaml::first_reading(text, document.syntax == Syntax::Json) else { return false };
    templates::find(&root).into_iter().any(|Found { pointer, request }| {
        let Some(place) = root.pointer_mut(&pointer) else { return false };
        match mutate(policies, place.take(), &request).outcome {
            Outcome::Mutated(mutated) | Outcome::Skipped { marked: mutated, .. } => {
                mutated.operation_count() > 0
            }
            Outcome::Unchanged { .. } => false,
            Outcome::Refused { .. } => true,
        }
    })
}

/// The operation with the pointer of its template before its path.
fn moved(operation: PatchOperation, pointer: &str) -> Option<PatchOperation> {
    let path = |path: &dyn ToString| format!("{pointer}{}", path.to_string()).parse().ok();
    Some(match operation {
        PatchOperation::Add(mut add) => {
            add.path = path(&add.path)?;
            PatchOperation::Add(add)
        }
        PatchOperation::Replace(mut replace) => {
            replace.path = path(&replace.path)?;
            PatchOperation::Replace(replace)
        }
        PatchOperation::Remove(mut remove) => {
            remove.path = path(&remove.path)?;
            PatchOperation::Remove(remove)
        }
        other => other,
    })
}

/// Returns true if the manifest itself is wrong.
pub(crate) fn is_bad_input(mutation: &Mutation) -> bool {
    matches!(mutation.outcome, Outcome::Unchanged { reason: Reason::MalformedPod { .. }, .. })
}
