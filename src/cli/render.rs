//! The formats of the output.

use serde_json::{Value, json};

use crate::stream::{is_marker, without_mark};
use fabric_engine::admission::{OnError, Response, respond};
use fabric_workloads::manifest::{Document, DocumentError, InjectedDocument, RawDocument, Syntax};
use fabric_yaml::{self as yaml, Comment};

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
    pub(super) last: LastDocument,
    /// True if the last line is complete.
    pub(super) line_ended: bool,
}

/// The form of the last document of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastDocument {
    Json,
    Yaml,
    /// YAML with a `...` line at its end.
    EndedYaml,
}

impl Before {
    pub(super) const NOTHING: Self = Self { nothing: true, last: LastDocument::Yaml, line_ended: true };
}

/// A document in the format of the output.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) content: Vec<u8>,
    /// True if the content is JSON.
    pub(super) json: bool,
    /// True if the content needs no `---` before it: it begins with one, or is empty.
    pub(super) marked: bool,
    /// The comments that an edit has lost.
    pub(super) lost: Vec<Comment>,
}

impl Rendered {
    /// A document that is not empty.
    pub(super) fn new(content: Vec<u8>, json: bool, lost: Vec<Comment>) -> Self {
        Self { marked: starts_with_marker(&content), content, json, lost }
    }

    /// The text between the output so far and this document.
    pub(super) fn separator(&self, format: Option<Format>, before: Before) -> &'static [u8] {
        // JSON values need no marker between them, except in YAML output.
        let follows = (self.json && before.last == LastDocument::Json && format != Some(Format::Yaml))
            || format == Some(Format::Json);
        if before.nothing || self.content.is_empty() || follows {
            return b"";
        }
        // Directives belong to the document after them only if the one before has an end.
        let marker: &[u8; 5] =
            match (self.marked, before.last != LastDocument::EndedYaml && self.has_directives()) {
                (false, _) => b"\n---\n",
                (true, true) => b"\n...\n",
                (true, false) => return if before.line_ended { b"" } else { b"\n" },
            };
        if before.line_ended { &marker[1..] } else { marker }
    }

    /// The content after other output, where a byte order mark would not be the first character.
    pub(super) fn later(&self, raw: &RawDocument) -> &[u8] {
        if raw.line == 1 { without_mark(&self.content) } else { &self.content }
    }

    /// The end of the output after this document.
    pub(super) fn before(&self, before: Before) -> Before {
        let Some(last) = self.content.last() else { return before };
        let mut lines = self.content.rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut last_line = || lines.find(|line| !matches!(line.first(), None | Some(b'#')));
        let document = match self.json {
            true => LastDocument::Json,
            false if last_line().is_some_and(|line| line.starts_with(b"...")) => LastDocument::EndedYaml,
            false => LastDocument::Yaml,
        };
        Before { nothing: false, last: document, line_ended: *last == b'\n' }
    }

    fn has_directives(&self) -> bool {
        let mut lines = without_mark(&self.content).split(|byte| *byte == b'\n');
        let mut first = || lines.find(|line| !matches!(line.trim_ascii().first(), None | Some(b'#')));
        !self.json && first().is_some_and(|line| line.starts_with(b"%"))
    }
}

/// A document in YAML or JSON, or without a format in that of the input.
pub(super) fn document(
    format: Option<Format>,
    raw: &RawDocument,
    document: &Document,
    injected: &InjectedDocument,
) -> Result<Rendered, DocumentError> {
    let from_json = document.syntax == Syntax::Json;
    let to_json = format == Some(Format::Json) || (format.is_none() && from_json);
    let is_edited = injected.value.is_some() && to_json == from_json;
    let is_converted = match &injected.value {
        Some(_) => !is_edited,
        None if from_json => format == Some(Format::Yaml) && has_escapes(&raw.bytes),
        None => to_json,
    };
    let (mut content, mut lost) = (Vec::new(), Vec::new());
    match injected.value.as_ref().or(document.value.as_ref()) {
        Some(value) if is_edited => {
            let edited = document.edited(raw, value)?;
            (content, lost) = (edited.bytes, edited.lost);
        }
        Some(value) if is_converted => {
            document.require_exact_numbers(raw, value)?;
            content = if to_json { pretty(value, raw) } else { yaml::write(value).into_bytes() };
        }
        None if is_converted => {}
        _ => content.extend_from_slice(&raw.bytes),
    }
    if format == Some(Format::Json) && !is_converted {
        // RFC 8259 forbids a byte order mark.
        content.drain(..document.mark);
    }
    // After a marker, empty content would be a document.
    let nothing = injected.value.is_none() && document.value.is_none();
    let marked = nothing || starts_with_marker(&content);
    Ok(Rendered { json: to_json || (from_json && injected.value.is_none()), marked, content, lost })
}

/// Returns whether JSON has escapes that kubectl does not read in YAML.
fn has_escapes(json: &[u8]) -> bool {
    json.windows(2).any(|pair| pair == b"\\/" || pair == b"\\u")
}

/// Returns whether the first line other than comments and directives is a `---`.
fn starts_with_marker(content: &[u8]) -> bool {
    let mut lines = without_mark(content).split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut first = || lines.find(|line| !matches!(line.first(), None | Some(b'#' | b'%')));
    first().is_some_and(|line| is_marker(line, *b"---"))
}

/// JSON on one line if the input has one line, else indented.
fn pretty(value: &Value, raw: &RawDocument) -> Vec<u8> {
    let has_lines = raw.bytes.trim_ascii().contains(&b'\n');
    if has_lines { format!("{value:#}\n") } else { format!("{value}\n") }.into_bytes()
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
