//! Injects the pod templates of a document.

use serde_json::Value;

use crate::advice::{self, CheckedPod, Findings};
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{Mutation, Outcome, Reason};
use fabric_policy::PodContext;
use fabric_policy::work::Work;
use fabric_yaml as yaml;

use super::injected::{InjectedDocument, Template, TriggerAnnotation, Wanted};
use super::inline;
use super::read::{Document, DocumentError, RawDocument, Syntax, located};
use super::templates::{self, Found};

/// The steps to read a byte of a manifest within a string, and to write it again.
const STEPS_TO_READ: usize = 50;
/// The limit on the nesting of manifests. Each level reads all the levels within it again.
const MAX_DEPTH: usize = 8;

/// Injects every pod template of a document.
///
/// Returns an error if readers differ about a value of a changed document, because writing it would lose one of them.
/// Also returns an error if a document with such a map would change with the other value.
pub fn inject(
    policies: &PolicySet,
    document: &mut Document,
    piece: &RawDocument,
    wanted: Wanted<'_>,
) -> Result<InjectedDocument, DocumentError> {
    let of_input = || Work::of_input(piece.bytes.len()).measured_by(wanted.held.unwrap_or(|| 0));
    let work = wanted.work.cloned().unwrap_or_else(of_input);
    let checks = wanted.checks.cloned().unwrap_or_else(|| work.again());
    inject_at(0, policies, document, piece, Wanted { work: Some(&work), checks: Some(&checks), ..wanted })
}

/// Injects a document that is nested in `depth` other manifests.
fn inject_at(
    depth: usize,
    policies: &PolicySet,
    document: &mut Document,
    piece: &RawDocument,
    wanted: Wanted<'_>,
) -> Result<InjectedDocument, DocumentError> {
    let mut injected = InjectedDocument::default();
    let Some(mut root) = document.value.take() else { return Ok(injected) };
    let found = templates::find(&root, wanted.work);
    let mut changed = inject_templates(policies, &mut root, "", found, wanted, &mut injected);
    changed |= inline::inject(&mut root, &mut injected, |text| {
        if depth == MAX_DEPTH {
            let message = format!("it is nested in more than {MAX_DEPTH} other manifests");
            return Err(DocumentError { message, line: 1, column: 1 });
        }
        if !wanted.work.is_none_or(|work| work.goes_on(text.bytes.len().saturating_mul(STEPS_TO_READ))) {
            let message = "the document has too many strings that may be manifests".to_owned();
            return Err(DocumentError { message, line: 1, column: 1 });
        }
        let mut document = Document::read(text)?;
        let inner = inject_at(depth + 1, policies, &mut document, text, wanted)?;
        let edited = inner.value.as_ref().map(|after| document.edited(text, after)).transpose()?;
        Ok((edited, inner))
    });
    if !(changed || document.repeats && first_reading_changes(policies, document, piece, wanted)) {
        document.value = Some(root);
        return Ok(injected);
    }
    if document.syntax == Syntax::Json && document.repeats {
        // As YAML, because the JSON parser accepts a repeated key without an error.
        let manifest = yaml::read_value(document.split(piece).1);
        document.ambiguity = manifest.ok().and_then(|manifest| manifest.ambiguity);
    }
    if let Some(ambiguity) = document.ambiguity.take() {
        let error = located(&ambiguity, piece, document.split(piece).0);
        return Err(DocumentError {
            message: format!("{}, and one of the two values would be lost", error.message),
            ..error
        });
    }
    injected.value = Some(root);
    Ok(injected)
}

/// Injects one item of a `List`, which was read as a `List` of its own. `list` has `null` in place of each item.
pub fn inject_item(
    policies: &PolicySet,
    list: &mut Value,
    index: usize,
    document: &mut Document,
    wanted: Wanted<'_>,
) -> InjectedDocument {
    let mut injected = InjectedDocument::default();
    let Some(mut alone) = document.value.take() else { return injected };
    list["items"][index] = alone["items"][0].take();
    let found = templates::find_in_item(list, index, wanted.work);
    let pointer = format!("/items/{index}");
    let changed = inject_templates(policies, list, &pointer, found, wanted, &mut injected);
    alone["items"][0] = list["items"][index].take();
    if changed {
        injected.value = Some(alone);
    } else {
        document.value = Some(alone);
    }
    injected
}

/// Injects the pod templates that were found in the part of a document at `pointer`. Returns whether one changed.
fn inject_templates(
    policies: &PolicySet,
    root: &mut Value,
    pointer: &str,
    found: Vec<Found>,
    wanted: Wanted<'_>,
    injected: &mut InjectedDocument,
) -> bool {
    let mut changed = false;
    let mut contexts: Vec<PodContext> = Vec::new();
    for Found { pointer, request } in found {
        let Some(place) = root.pointer_mut(&pointer) else { continue };
        let mut request = wanted.complete(request);
        let assumed = wanted.annotation == TriggerAnnotation::Assumed
            && assume_annotated(policies, place, &mut request);
        let stamped = policies.has_stamped(place);
        // Refused pods are still checked.
        let before = (wanted.findings && request.may_copy(place)).then(|| place.clone());
        let mut mutation = mutate(policies, place.take(), &request);
        let mut added = Vec::new();
        match &mut mutation.outcome {
            Outcome::Mutated(mutated) | Outcome::Skipped { marked: mutated, .. } => {
                if wanted.summary {
                    added = mutated.summary();
                }
                changed |= mutated.operation_count() > 0;
                *place = if wanted.patches { mutated.pod.clone() } else { mutated.pod.take() };
            }
            Outcome::Unchanged { pod, .. } => *place = pod.take(),
            Outcome::Refused { .. } => *place = before.unwrap_or_default(),
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
        request.work = wanted.checks.or(wanted.work).cloned();
        contexts.push(request);
    }
    if wanted.findings {
        add_findings(policies, root, pointer, &contexts, injected);
    }
    changed
}

/// Makes a template without the annotation of a trigger match as if it had it. Returns false for other templates.
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
    pointer: &str,
    contexts: &[PodContext],
    injected: &mut InjectedDocument,
) {
    let objects = objects_without_templates(root, pointer, &injected.templates).into_iter();
    injected.notes.extend(objects.filter_map(|pointer| advice::note_without_pods(policies, root, &pointer)));
    let templates = injected.templates.iter().zip(contexts);
    let pods = templates.map(|(Template { pointer, mutation, .. }, context)| CheckedPod {
        pointer,
        context,
        mutation,
    });
    let findings = advice::near_misses(policies, root, &pods.collect::<Vec<_>>());
    for (template, findings) in injected.templates.iter_mut().zip(findings) {
        template.findings = findings;
    }
}

/// JSON Pointers to the objects of a document that have no pod templates.
fn objects_without_templates(root: &Value, pointer: &str, templates: &[Template]) -> Vec<String> {
    let mut within: Vec<&str> = templates.iter().map(|template| template.pointer.as_str()).collect();
    within.sort_unstable();
    let has_none = |object: &String| {
        let inner = format!("{object}/");
        let after = within.partition_point(|template| *template < inner.as_str());
        let is_within = within.get(after).is_some_and(|template| template.starts_with(&inner));
        !is_within && within.binary_search(&object.as_str()).is_err()
    };
    let mut objects = advice::objects(root, pointer);
    objects.retain(has_none);
    objects
}

/// Returns true if a pod is injected or refused if each repeated key has its first value.
fn first_reading_changes(
    policies: &PolicySet,
    document: &Document,
    piece: &RawDocument,
    wanted: Wanted<'_>,
) -> bool {
    let text = document.split(piece).1;
    let Some(mut root) = yaml::first_reading(text, document.syntax == Syntax::Json) else { return false };
    templates::find(&root, wanted.work).into_iter().any(|Found { pointer, request }| {
        let Some(place) = root.pointer_mut(&pointer) else { return false };
        let outcome = mutate(policies, place.take(), &wanted.complete(request)).outcome;
        matches!(outcome, Outcome::Refused { .. })
            || outcome.changed().is_some_and(|changed| changed.operation_count() > 0)
    })
}

/// Returns true if the manifest itself is wrong.
pub fn is_bad_input(mutation: &Mutation) -> bool {
    matches!(mutation.outcome, Outcome::Unchanged { reason: Reason::MalformedPod { .. }, .. })
}
