//! The forms in which a document can be put out.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::core::admission::{OnError, Response, respond};
use crate::core::manifest::{Document, RawDocument, Served, Syntax};
use crate::core::yaml;

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Every document, the changed ones in YAML
    Yaml,
    /// Every document as a JSON value, one after another
    Json,
    /// A JSON Patch (RFC 6902) for each document that changes, one a line
    Patch,
    /// A unified diff for each document that changes
    Diff,
    /// The AdmissionReview response that the webhook would give for each pod, one a line
    Review,
}

/// The end of what was put out so far, as far as that decides how the next document may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Before {
    /// Whether nothing was put out yet.
    pub(super) nothing: bool,
    /// Whether the last document was JSON.
    pub(super) json: bool,
    /// Whether the last line is complete.
    pub(super) line_ended: bool,
}

/// What a document is put out as.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) content: Vec<u8>,
    /// Whether the content is JSON.
    pub(super) json: bool,
    /// Whether the content needs no marker line in front: it has one, or there is nothing to mark.
    pub(super) marked: bool,
}

impl Rendered {
    /// What has to stand between what was put out before and this document.
    pub(super) fn separator(&self, format: Option<Format>, before: Before) -> &'static [u8] {
        // JSON values follow one another without a marker, unless the output is to be YAML.
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

/// A document in one of the forms that keep documents: YAML, JSON, or (`None`) the form that it came in.
pub(super) fn document(
    format: Option<Format>,
    raw: &RawDocument,
    document: &Document,
    served: &Served,
) -> Rendered {
    let from_json = document.syntax == Syntax::Json;
    let to_json = format == Some(Format::Json) || (format.is_none() && from_json);
    let content = match (&served.value, to_json) {
        (Some(value), true) => pretty(value, raw),
        (Some(value), false) => {
            let mut out = document.head(raw).to_vec();
            out.extend(yaml::write(value).into_bytes());
            out
        }
        (None, true) if !from_json => {
            document.value.as_ref().map(|value| pretty(value, raw)).unwrap_or_default()
        }
        // Escapes of JSON that kubectl's YAML does not know.
        (None, false) if from_json && format == Some(Format::Yaml) && has_escapes(&raw.bytes) => {
            document.value.as_ref().map(|value| yaml::write(value).into_bytes()).unwrap_or_default()
        }
        (None, _) => raw.bytes.clone(),
    };
    // A marker in front of nothing would make a document of it.
    let nothing = served.value.is_none() && document.value.is_none();
    let marked = nothing || starts_with_marker(&content);
    Rendered { json: to_json || (from_json && served.value.is_none()), marked, content }
}

fn has_escapes(json: &[u8]) -> bool {
    json.windows(2).any(|pair| pair == b"\\/" || pair == b"\\u")
}

/// Whether the first line that is no comment or directive is a `---`.
fn starts_with_marker(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !matches!(line.first(), None | Some(b'#' | b'%'))).is_some_and(|line| {
        line.strip_prefix(b"---").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    })
}

/// JSON on one line if it came so, else indented.
fn pretty(value: &Value, raw: &RawDocument) -> Vec<u8> {
    let one_line = !raw.bytes.trim_ascii().contains(&b'\n');
    let text = if one_line { serde_json::to_vec(value) } else { serde_json::to_vec_pretty(value) };
    let mut text = text.unwrap_or_default();
    text.push(b'\n');
    text
}

/// The JSON Patch of a changed document, on one line.
pub(super) fn patch(served: &Served) -> Vec<u8> {
    let mut line = serde_json::to_vec(&served.patch()).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The responses of the webhook for the pods of a document, one a line.
pub(super) fn review(document: &Value, served: &Served) -> Vec<u8> {
    let uid = document["request"]["uid"].as_str().unwrap_or_default();
    let mut responses: Vec<Response> = served
        .templates
        .iter()
        .map(|template| respond(uid, &template.mutation, OnError::default()))
        .collect();
    // Every review is answered, also one of something that is not served.
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

/// A unified diff of a document before and after, both written in one style so that only what was added
/// differs.
pub(super) fn diff(name: &str, before: &Value, after: &Value, colour: bool) -> Vec<u8> {
    let (before, after) = (yaml::write(before), yaml::write(after));
    let diff = TextDiff::from_lines(&before, &after);
    let style = |tag: ChangeTag| match tag {
        ChangeTag::Insert if colour => Style::new().fg_color(Some(AnsiColor::Green.into())),
        ChangeTag::Delete if colour => Style::new().fg_color(Some(AnsiColor::Red.into())),
        _ => Style::new(),
    };
    let bold = if colour { Style::new().bold() } else { Style::new() };
    let mut out = format!("{bold}--- {name}{bold:#}\n{bold}+++ {name} (mutated){bold:#}\n");
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        out.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            let style = style(change.tag());
            let line = change.value().trim_end_matches('\n');
            out.push_str(&format!("{style}{}{line}{style:#}\n", change.tag()));
        }
    }
    out.into_bytes()
}
