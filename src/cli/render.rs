//! The forms in which a document can be put out.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::admission;
use crate::manifest::stream::Piece;
use crate::manifest::{Document, Served, Syntax};
use crate::yaml;

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

/// A document in one of the forms that keep documents: YAML, JSON, or (`None`) the form that it came in.
pub(super) fn document(format: Option<Format>, piece: &Piece, document: &Document, served: &Served, first: bool) -> Vec<u8> {
    let changed = served.value.as_ref();
    let as_json = match format {
        Some(Format::Json) => true,
        Some(_) => false,
        None => document.syntax == Syntax::Json,
    };
    match (changed, as_json) {
        (None, true) if document.syntax == Syntax::Yaml => {
            document.value.as_ref().map(|value| pretty(value, piece)).unwrap_or_default()
        }
        (None, _) => unchanged(format, piece, document, first),
        (Some(value), true) => pretty(value, piece),
        (Some(value), false) => {
            let mut out = document.head(piece).to_vec();
            if out.is_empty() && !first {
                out.extend(b"---\n");
            }
            out.extend(yaml::write(value).into_bytes());
            out
        }
    }
}

/// The bytes as they came; only two JSON values in a row need a marker between them to be YAML.
fn unchanged(format: Option<Format>, piece: &Piece, document: &Document, first: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if format == Some(Format::Yaml) && document.syntax == Syntax::Json && !first {
        out.extend(b"---\n");
    }
    out.extend(&piece.bytes);
    out
}

/// JSON on one line if it came so, else indented.
fn pretty(value: &Value, piece: &Piece) -> Vec<u8> {
    let one_line = !piece.bytes.trim_ascii().contains(&b'\n');
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
    let mut lines = Vec::new();
    for template in &served.templates {
        let response = admission::respond(uid, &template.mutation);
        lines.extend(admission::review(&response).to_string().into_bytes());
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
