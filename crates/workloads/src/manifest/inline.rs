//! Manifests within a string of another one: an Argo Workflow creates the object in `resource.manifest`.

use serde_json::Value;

use crate::advice::{Finding, Findings};
use fabric_policy::group_of;
use fabric_yaml::pointer::{field_path, visit_values};

use super::injected::InjectedDocument;
use super::read::{DocumentError, EditedDocument, RawDocument};

/// The code of an unreadable manifest within a string.
const UNREADABLE: &str = "unreadable_manifest";

/// The manifests within the strings of a document, each with its JSON Pointer.
fn find(document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if group_of(document["apiVersion"].as_str().unwrap_or_default()) == "argoproj.io" {
        visit_values(&document["spec"], &mut "/spec".to_owned(), &mut |pointer, value| {
            if let Some(text) = value.as_str().filter(|_| pointer.ends_with("/resource/manifest")) {
                found.push((pointer.to_owned(), text.to_owned()));
            }
        });
    }
    found
}

/// Injects the pod templates of the manifests within strings, each with `inject`. Returns whether a string changed.
pub(super) fn inject(
    root: &mut Value,
    injected: &mut InjectedDocument,
    inject: impl Fn(&RawDocument) -> Result<(Option<EditedDocument>, InjectedDocument), DocumentError>,
) -> bool {
    for (pointer, text) in find(root) {
        let path = field_path(root, &pointer);
        let (edited, inner) = match inject(&RawDocument::new(text.into_bytes())) {
            Ok(read) => read,
            Err(error) => {
                let message = format!(
                    "the manifest in `{path}` cannot be read: {error}; it stays as it is, and the webhook injects its pods"
                );
                injected.notes.push(Finding::note(UNREADABLE, pointer, message));
                continue;
            }
        };
        if let Some(edited) = edited {
            let text = String::from_utf8_lossy(&edited.bytes).into_owned();
            if let Some(place) = root.pointer_mut(&pointer) {
                *place = text.clone().into();
            }
            injected.texts.push((pointer.clone(), text));
            injected.lost.extend(edited.lost.into_iter().map(|comment| (pointer.clone(), comment)));
        }
        add_templates(injected, inner, &pointer, &path);
    }
    !injected.texts.is_empty()
}

/// Adds the templates of the string at a path, with its pointer and `#` before their pointers.
fn add_templates(injected: &mut InjectedDocument, inner: InjectedDocument, pointer: &str, path: &str) {
    let within = |message: &mut String| *message = format!("in the manifest of `{path}`, {message}");
    let outer = |inner: &str| format!("{pointer}#{inner}");
    for mut template in inner.templates {
        template.pointer = outer(&template.pointer);
        template.in_text = true;
        let Findings { near_misses, advice } = &mut template.findings;
        for finding in near_misses.iter_mut().chain(advice) {
            finding.pointer = outer(&finding.pointer);
            within(&mut finding.message);
        }
        injected.templates.push(template);
    }
    let notes = inner.notes.into_iter();
    injected.notes.extend(notes.map(|note| Finding { pointer: outer(&note.pointer), ..note }));
}
