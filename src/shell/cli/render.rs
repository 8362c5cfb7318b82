//! The formats of the output.

use serde_json::{Value, json};

use crate::core::admission::{OnError, Response, respond};
use crate::core::manifest::{Document, InjectedDocument, RawDocument, Syntax};
use crate::core::yaml;

use super::report::Location;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Every document, in YAML if it changes; a changed YAML document keeps its comments and its layout
    Yaml,
    /// Every document as a JSON value, one after another
    Json,
    /// For each document that changes, its position and its JSON Patch (RFC 6902) as an object, one a line
    Patch,
    /// A unified diff for each file that changes, which `patch -p1` applies
    Diff,
    /// The AdmissionReview response that the webhook would give for each pod, one a line
    Review,
}

/// The end of the output so far, which decides how the next document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Before {
    /// True if there is no output yet.
    pub(super) nothing: bool,
    /// True if the last document is JSON.
    pub(super) json: bool,
    /// True if the last line is complete.
    pub(super) line_ended: bool,
}

/// A document in the format of the output.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) content: Vec<u8>,
    /// True if the content is JSON.
    pub(super) json: bool,
    /// True if the content needs no `---` before it: it begins with one, or is empty.
    pub(super) marked: bool,
}

impl Rendered {
    /// The text between the output so far and this document.
    pub(super) fn separator(&self, format: Option<Format>, before: Before) -> &'static [u8] {
        // JSON values need no marker between them, except in YAML output.
        let follows =
            (self.json && before.json && format != Some(Format::Yaml)) || format == Some(Format::Json);
        match (before.nothing || self.content.is_empty() || follows, before.line_ended, self.marked) {
            (true, _, _) | (false, true, true) => b"",
            (false, false, true) => b"\n",
            (false, true, false) => b"---\n",
            (false, false, false) => b"\n---\n",
        }
    }
}

/// A document in YAML or JSON, or without a format in that of the input.
pub(super) fn document(
    format: Option<Format>,
    raw: &RawDocument,
    document: &Document,
    injected: &InjectedDocument,
) -> Rendered {
    let from_json = document.syntax == Syntax::Json;
    let to_json = format == Some(Format::Json) || (format.is_none() && from_json);
    let content = match (&injected.value, to_json) {
        (Some(value), _) if to_json == from_json => document.edited(raw, value),
        (Some(value), true) => pretty(value, raw),
        (Some(value), false) => yaml::write(value).into_bytes(),
        (None, true) if !from_json => {
            document.value.as_ref().map(|value| pretty(value, raw)).unwrap_or_default()
        }
        // kubectl reads these escapes in JSON, but not in YAML.
        (None, false) if from_json && format == Some(Format::Yaml) && has_escapes(&raw.bytes) => {
            document.value.as_ref().map(|value| yaml::write(value).into_bytes()).unwrap_or_default()
        }
        (None, _) => raw.bytes.clone(),
    };
    // After a marker, empty content would be a document.
    let nothing = injected.value.is_none() && document.value.is_none();
    let marked = nothing || starts_with_marker(&content);
    Rendered { json: to_json || (from_json && injected.value.is_none()), marked, content }
}

fn has_escapes(json: &[u8]) -> bool {
    json.windows(2).any(|pair| pair == b"\\/" || pair == b"\\u")
}

/// Returns whether the first line that is no comment or directive is a `---`.
fn starts_with_marker(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !matches!(line.first(), None | Some(b'#' | b'%'))).is_some_and(|line| {
        line.strip_prefix(b"---").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    })
}

/// JSON on one line if the input has one line, else indented.
fn pretty(value: &Value, raw: &RawDocument) -> Vec<u8> {
    let one_line = !raw.bytes.trim_ascii().contains(&b'\n');
    let text = if one_line { serde_json::to_vec(value) } else { serde_json::to_vec_pretty(value) };
    let mut text = text.unwrap_or_default();
    text.push(b'\n');
    text
}

/// The version of the objects that `-o patch` writes.
const PATCH_VERSION: u32 = 1;

/// The position and the JSON Patch of a changed document, on one line.
pub(super) fn patch(location: Location<'_>, injected: &InjectedDocument) -> Vec<u8> {
    let Location { file, document, object } = location;
    let patch = injected.patch();
    let patch = json!({
        "version": PATCH_VERSION, "file": file, "document": document, "object": object, "patch": patch
    });
    format!("{patch}\n").into_bytes()
}

/// The responses of the webhook for the pods of a document, one on each line.
pub(super) fn review(document: &Value, injected: &InjectedDocument) -> Vec<u8> {
    let uid = document["request"]["uid"].as_str().unwrap_or_default();
    let mut responses: Vec<Response> = injected
        .templates
        .iter()
        .map(|template| respond(uid, &template.mutation, OnError::default()))
        .collect();
    // A review without a pod also has a response.
    if responses.is_empty() && document["kind"] == "AdmissionReview" {
        responses.push(Response::allow(uid));
    }
    let mut lines = Vec::new();
    for response in responses {
        lines.extend(response.to_json());
        lines.push(b'\n');
    }
    lines
}
