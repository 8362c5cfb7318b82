//! One document of a stream: reading it, serving its pods, and writing it again if that changed it.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::core::engine::{Mutation, Outcome, Reason};
use crate::core::policy_set::{PolicySet, mutate};
use crate::core::yaml;

use super::templates::{self, Found};

/// The bytes of one document with the marker line and comments around it: all raw documents of a stream, put
/// together again, are the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawDocument {
    /// The bytes, the `---` line in front of them included.
    pub bytes: Vec<u8>,
    /// The line of the stream on which the document begins, from 1.
    pub line: usize,
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// A document that was read.
#[derive(Debug)]
pub struct Document {
    /// How it is written.
    pub syntax: Syntax,
    /// Its value; `None` if there is nothing but blanks and comments.
    pub value: Option<Value>,
    /// Marker line and comments in front of the first line with content, in bytes.
    head: usize,
    duplicate_key: Option<yaml::Error>,
}

/// A document that cannot be used, and the line of the stream where that shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct DocumentError {
    /// What is wrong.
    pub message: String,
    /// The line in the stream.
    pub line: usize,
    /// The column in that line.
    pub column: usize,
}

/// What became of one pod template.
#[derive(Debug)]
pub struct Template {
    /// JSON Pointer from the document's root.
    pub pointer: String,
    /// What became of it.
    pub mutation: Mutation,
    /// What was added, one line for each container and one for the pod; if it was [`Wanted`].
    pub added: Vec<String>,
}

/// What is wanted of served pods besides the document with them in it. Each costs time, so each is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A copy of the pod in each mutation, so that its patch can be had.
    pub patches: bool,
    /// What was added, in words.
    pub summary: bool,
}

/// A document whose pods were served.
#[derive(Debug, Default)]
pub struct Served {
    /// What became of each template.
    pub templates: Vec<Template>,
    /// The document as it is now, if any template changed.
    pub value: Option<Value>,
}

impl Served {
    /// What changed, paths from the document's root. Needs [`Wanted::patches`].
    pub fn patch(&self) -> Patch {
        let of_template = |template: &Template| {
            let operations = match &template.mutation.outcome {
                Outcome::Mutated(mutated) => mutated.patch().0,
                _ => Vec::new(),
            };
            let pointer = template.pointer.clone();
            operations.into_iter().filter_map(move |operation| moved(operation, &pointer))
        };
        Patch(self.templates.iter().flat_map(of_template).collect())
    }

    /// Whether a pod of the document must not be created.
    pub fn refused(&self) -> bool {
        self.templates.iter().any(|template| matches!(template.mutation.outcome, Outcome::Refused { .. }))
    }
}

impl Document {
    /// Reads a piece of a stream.
    pub fn read(piece: &RawDocument) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(&piece.bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&piece.bytes[..error.valid_up_to()]);
            let span = yaml::span_at(&before, before.len());
            DocumentError {
                message: "is not UTF-8 text".to_owned(),
                line: piece.line + span.line - 1,
                column: span.column,
            }
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with('{')
            && let Ok(value) = serde_json::from_str(text)
        {
            return Ok(Self { syntax: Syntax::Json, value: Some(value), head: 0, duplicate_key: None });
        }
        let manifest = yaml::read_value(text).map_err(|error| at_line(error, piece.line))?;
        let duplicate_key = manifest.duplicate_key;
        let value = manifest.root.filter(|root| !root.is_null());
        Ok(Self { syntax: Syntax::Yaml, value, head: head(&piece.bytes), duplicate_key })
    }

    /// The marker line and the comments with which the document begins, kept when it is written anew.
    pub fn head<'p>(&self, piece: &'p RawDocument) -> &'p [u8] {
        &piece.bytes[..self.head]
    }
}

fn at_line(error: yaml::Error, first: usize) -> DocumentError {
    DocumentError { message: error.message, line: first + error.span.line - 1, column: error.span.column }
}

/// Length of the leading lines that hold nothing but a marker, directives, blanks or a comment.
fn head(bytes: &[u8]) -> usize {
    let mut length = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii();
        let marker = trimmed == b"---" || trimmed.starts_with(b"--- #") || trimmed.starts_with(b"%");
        if !(trimmed.is_empty() || trimmed.starts_with(b"#") || marker) {
            break;
        }
        length += line.len();
    }
    length
}

/// Serves every pod template of a document.
///
/// An error means that the document cannot be written anew without losing something of it.
pub fn serve(
    policies: &PolicySet,
    document: &mut Document,
    piece: &RawDocument,
    wanted: Wanted,
) -> Result<Served, DocumentError> {
    let mut served = Served::default();
    let mut changed = false;
    let Some(mut root) = document.value.take() else { return Ok(served) };
    for Found { pointer, request } in templates::find(&root) {
        let Some(place) = root.pointer_mut(&pointer) else { continue };
        let mut mutation = mutate(policies, place.take(), &request);
        let mut added = Vec::new();
        match &mut mutation.outcome {
            Outcome::Mutated(mutated) => {
                if wanted.summary {
                    added = mutated.operations().summary();
                }
                changed = true;
                *place = if wanted.patches { mutated.pod.clone() } else { mutated.pod.take() };
            }
            Outcome::Unchanged { pod, .. } => *place = pod.take(),
            Outcome::Refused { .. } => {}
        }
        served.templates.push(Template { pointer, mutation, added });
    }
    if !changed {
        document.value = Some(root);
        return Ok(served);
    }
    if document.syntax == Syntax::Json {
        document.duplicate_key = duplicate_key_of_json(piece);
    }
    if let Some(duplicate) = document.duplicate_key.take() {
        let error = at_line(duplicate, piece.line);
        return Err(DocumentError {
            message: format!("{}, and one of the two values would be lost", error.message),
            ..error
        });
    }
    served.value = Some(root);
    Ok(served)
}

/// JSON is read by a parser that takes the last of two equal keys without a word; that of YAML tells.
fn duplicate_key_of_json(piece: &RawDocument) -> Option<yaml::Error> {
    let text = std::str::from_utf8(&piece.bytes).ok()?;
    yaml::read_value(text).ok()?.duplicate_key
}

/// An operation with the path of its template in front.
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
        other => other,
    })
}

/// Whether a reason means that the manifest itself is wrong.
pub(crate) fn is_bad_input(mutation: &Mutation) -> bool {
    matches!(mutation.outcome, Outcome::Unchanged { reason: Reason::MalformedPod { .. }, .. })
}
