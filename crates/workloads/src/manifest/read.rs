//! One document of a stream: reads it, and edits its text.

use serde::de::IgnoredAny;
use serde_json::Value;

use fabric_yaml as yaml;
use fabric_yaml::json;

/// The bytes of one document, with its `---` line and its comments. All raw documents of a stream, concatenated, are
/// the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawDocument {
    /// The bytes, with the `---` line before them.
    pub bytes: Vec<u8>,
    /// The line of the stream on which the document begins, counted from 1.
    pub line: usize,
    /// For a document after a JSON value, the number of that value's characters on the same line.
    pub after_json: Option<usize>,
}

impl RawDocument {
    /// A document with nothing before it.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, line: 1, after_json: None }
    }
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML, as kubectl reads it.
    Yaml,
    /// JSON, which is also written as JSON.
    Json,
}

/// A document after parsing.
#[derive(Debug)]
pub struct Document {
    /// The syntax in which the document was read and is written.
    pub syntax: Syntax,
    /// The value; `None` for a document of white space and comments.
    pub value: Option<Value>,
    /// True if a map has a key twice, or readers end the last text differently.
    pub(super) repeats: bool,
    /// Its place in YAML.
    pub(super) ambiguity: Option<yaml::Error>,
    /// The length of the part up to the byte order mark, if there is one.
    pub mark: usize,
}

/// The text of a document after its edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedDocument {
    pub bytes: Vec<u8>,
    /// The comments that it lost, with their lines in the stream.
    pub lost: Vec<yaml::Comment>,
}

/// The reason why a document cannot be read or written, with its position in the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct DocumentError {
    /// The reason, without the position.
    pub message: String,
    /// The line in the stream.
    pub line: usize,
    /// The column in that line.
    pub column: usize,
}

impl Document {
    /// A document for a value that has no text and is not written.
    pub fn new(value: Value) -> Self {
        Self { syntax: Syntax::Json, value: Some(value), repeats: false, ambiguity: None, mark: 0 }
    }

    /// Returns true if readers differ about a value. Such a document is not changed.
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// Parses a raw document.
    pub fn read(piece: &RawDocument) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(&piece.bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&piece.bytes[..error.valid_up_to()]);
            let span = yaml::span_at(&before, before.len());
            located(&yaml::Error::new("the document is not UTF-8 text", span), piece, "")
        })?;
        let mark = mark(text);
        let (before, text) = text.split_at(mark);
        let error_at = |error: yaml::Error| located(&error, piece, before);
        if mark > 0 && text.starts_with(BYTE_ORDER_MARK) {
            let message = "found a second byte order mark (U+FEFF), which kubectl reads as a character";
            return Err(error_at(yaml::Error::new(message, yaml::span_at(text, 0))));
        }
        if piece.after_json.is_some() {
            follows_json(text).map_err(error_at)?;
        }
        let json = text.trim_start().starts_with('{').then(|| json::read(text));
        if let Some(Ok((value, repeats))) = json {
            let value = Some(value);
            return Ok(Self { syntax: Syntax::Json, value, repeats, ambiguity: None, mark });
        }
        let manifest = yaml::read_value(text).map_err(error_at)?;
        // JSON with a number that has no value, which YAML reads as a string.
        if let Some(Err(error)) = json
            && serde_json::from_str::<IgnoredAny>(text).is_ok()
        {
            return Err(error_at(json_error(&error)));
        }
        let ambiguity = manifest.ambiguity;
        let value = manifest.root.filter(|root| !root.is_null());
        Ok(Self { syntax: Syntax::Yaml, value, repeats: ambiguity.is_some(), ambiguity, mark })
    }

    /// The text of the document with the smallest edits after which it reads as `after`. Comments and layout are kept.
    ///
    /// If such edits are not possible, the whole document is written again below its leading comments. Returns an error
    /// if that would change a number.
    pub fn edited(&self, piece: &RawDocument, after: &Value) -> Result<EditedDocument, DocumentError> {
        let (before, text) = self.split(piece);
        let json = self.syntax == Syntax::Json;
        let edited = if json {
            yaml::Edited { text: yaml::edit_json(text, after), lost: Vec::new() }
        } else {
            yaml::edit(text, after)
        };
        if yaml::has_float(after)
            && let Some(error) = yaml::changed_number(text, &edited.text, json)
        {
            return Err(located(&error, piece, before));
        }
        let first = piece.line + lines(before) - 1;
        let moved = |comment: yaml::Comment| yaml::Comment { line: first + comment.line, ..comment };
        Ok(EditedDocument {
            bytes: format!("{before}{}", edited.text).into_bytes(),
            lost: edited.lost.into_iter().map(moved).collect(),
        })
    }

    /// Returns an error if the value lacks digits of a number in the text.
    pub fn require_exact_numbers(&self, piece: &RawDocument, value: &Value) -> Result<(), DocumentError> {
        if !yaml::has_float(value) {
            return Ok(());
        }
        let (before, text) = self.split(piece);
        let inexact = yaml::inexact_number(text, self.syntax == Syntax::Json);
        inexact.map_or(Ok(()), |error| Err(located(&error, piece, before)))
    }

    /// The text up to the byte order mark, and the text after it.
    pub(super) fn split<'p>(&self, piece: &'p RawDocument) -> (&'p str, &'p str) {
        std::str::from_utf8(&piece.bytes).unwrap_or_default().split_at(self.mark)
    }
}

/// The length of the part up to the byte order mark, which is at the beginning of a document or directly after its
/// `---` line.
fn mark(text: &str) -> usize {
    let begins = |at: usize| text[at..].starts_with(BYTE_ORDER_MARK).then(|| at + BYTE_ORDER_MARK.len());
    let start = begins(0).unwrap_or(0);
    let marker = text[start..].starts_with("---").then(|| text[start..].find('\n')).flatten();
    let marker = marker.filter(|end| text[start + 3..start + end].trim().is_empty());
    marker.and_then(|end| begins(start + end + 1)).unwrap_or(start)
}

/// Returns an error if the text cannot follow a JSON value: only another value, or a text that begins with a marker,
/// can.
fn follows_json(text: &str) -> Result<(), yaml::Error> {
    let is_blank = |line: &&str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let blank: usize = text.split_inclusive('\n').take_while(is_blank).map(str::len).sum();
    let rest = &text[blank..];
    let at = blank + rest.len() - rest.trim_start().len();
    let marker = ["---", "...", "%"].iter().any(|marker| rest.starts_with(marker));
    if rest.is_empty() || marker || text[at..].starts_with('{') {
        return Ok(());
    }
    let message = "a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow";
    Err(yaml::Error::new(message, yaml::span_at(text, at)))
}

fn json_error(error: &serde_json::Error) -> yaml::Error {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    let span = yaml::Span { line, column: column.max(1), length: 1 };
    yaml::Error::new(format!("not valid JSON: {message}"), span)
}

pub(super) fn lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

/// The error with its place in the stream. `before` is the part of the document before the text that has it.
pub(super) fn located(error: &yaml::Error, piece: &RawDocument, before: &str) -> DocumentError {
    let yaml::Span { line, mut column, .. } = error.span;
    if line == 1 {
        let last = before.rsplit('\n').next().unwrap_or_default();
        column += last.trim_start_matches(BYTE_ORDER_MARK).chars().count();
    }
    let message = error.explained(piece.line - 1 + lines(before));
    let line = lines(before) + line;
    if line == 1 {
        column += piece.after_json.unwrap_or_default();
    }
    DocumentError { message, line: piece.line + line - 1, column }
}
