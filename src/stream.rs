//! Splits a stream of YAML or JSON into documents, with one document in memory at a time.

use std::io::{self, BufRead};

use serde::de::IgnoredAny;

use fabric_workloads::manifest::RawDocument;
use memchr::memchr2;

/// The largest document, in bytes. The API server accepts 3 MiB, but a `List` can hold many objects.
pub const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// The reason why a document cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system returned an error.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A document is larger than [`MAX_DOCUMENT`].
    #[error("a document exceeds the {} MiB limit", MAX_DOCUMENT / 1024 / 1024)]
    TooLarge,
}

/// The documents of a stream.
#[derive(Debug)]
pub struct RawDocuments<R> {
    reader: R,
    /// The beginning of the next document, if it was read together with the one before: from `at` on.
    pending: Vec<u8>,
    at: usize,
    line: usize,
    /// After a JSON value, the number of characters of that on the current line.
    after_json: Option<usize>,
    done: bool,
}

impl<R: BufRead> RawDocuments<R> {
    /// Creates an iterator over the documents of `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, pending: Vec::new(), at: 0, line: 1, after_json: None, done: false }
    }

    fn next_document(&mut self) -> Result<Option<RawDocument>, ReadError> {
        let (line, after_json) = (self.line, self.after_json.take());
        let mut json = Json::default();
        // If a line has several JSON values, this can already hold the whole next value.
        let pending = &self.pending[self.at..];
        let mut end = json.feed(pending).filter(|end| is_json(&pending[..*end]));
        let is_blank = |rest: &[u8]| rest.iter().all(u8::is_ascii_whitespace);
        let length = end.filter(|end| !is_blank(&pending[*end..])).unwrap_or(pending.len());
        let mut bytes = pending[..length].to_vec();
        self.at += length;
        if self.at == self.pending.len() {
            (self.pending, self.at) = (Vec::new(), 0);
        }
        // Comments and directives before the first `---` belong to the document after it.
        let mut only_head = lines(&bytes).all(is_head);
        // The position after a `...` line, if nothing but comments follows it so far.
        let mut marked_end = None;
        while end.is_none() {
            let start = bytes.len();
            let budget = (MAX_DOCUMENT + 1).saturating_sub(start) as u64;
            if budget == 0 {
                self.line += bytes.iter().filter(|byte| **byte == b'\n').count();
                self.skip_document()?;
                return Err(ReadError::TooLarge);
            }
            let read = io::Read::take(&mut self.reader, budget).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                self.done = true;
                break;
            }
            let added = &bytes[start..];
            if start > 0 && !only_head && is_marker(added, *b"---") {
                self.pending = bytes.split_off(start);
                break;
            }
            if is_marker(added, *b"...") {
                marked_end = Some(bytes.len());
            } else if let Some(marked_end) = marked_end
                && without_mark(added).starts_with(b"%")
            {
                self.pending = bytes.split_off(marked_end);
                break;
            } else if !is_head(added) {
                // kubectl reads none that follows without a `---` (apimachinery, `util/yaml/decoder.go`).
                marked_end = None;
            }
            only_head &= is_head(added);
            end = json.feed(added).map(|end| start + end).filter(|end| is_json(&bytes[..*end]));
        }
        if let Some(end) = end {
            // The JSON value ends here; the rest of the line belongs to the next document.
            if !is_blank(&bytes[end..]) {
                self.pending = bytes.split_off(end);
            }
            let last_line = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            let before = if last_line.len() == bytes.len() { after_json.unwrap_or_default() } else { 0 };
            self.after_json = Some(before + String::from_utf8_lossy(without_mark(last_line)).chars().count());
        }
        self.line += bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok((!bytes.is_empty()).then_some(RawDocument { bytes, line, after_json }))
    }

    /// Reads up to the next `---` line and discards the bytes.
    fn skip_document(&mut self) -> Result<(), ReadError> {
        let mut part = Vec::new();
        let mut line_start = false;
        loop {
            part.clear();
            let read = io::Read::take(&mut self.reader, 1024 * 1024).read_until(b'\n', &mut part)?;
            if read == 0 {
                self.done = true;
                return Ok(());
            }
            if line_start && is_marker(&part, *b"---") {
                self.pending = part;
                return Ok(());
            }
            line_start = part.ends_with(b"\n");
            self.line += usize::from(line_start);
        }
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// A byte order mark can begin any document.
pub(crate) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns true for a line that is blank, a comment or a directive.
fn is_head(line: &[u8]) -> bool {
    matches!(without_mark(line).trim_ascii().first(), None | Some(b'#' | b'%'))
}

/// Returns false for a document that consists of comments, directives and marker lines.
pub(crate) fn has_content(document: &RawDocument) -> bool {
    lines(&document.bytes).map(without_mark).any(|line| {
        let marked = is_marker(line, *b"---") || is_marker(line, *b"...");
        !is_head(if marked { &line[3..] } else { line })
    })
}

impl<R: BufRead> Iterator for RawDocuments<R> {
    type Item = Result<RawDocument, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done && self.pending.is_empty() {
            return None;
        }
        match self.next_document() {
            Ok(piece) => piece.map(Ok),
            // The documents after this one can still be read.
            Err(ReadError::TooLarge) => Some(Err(ReadError::TooLarge)),
            Err(error) => {
                self.done = true;
                (self.pending, self.at) = (Vec::new(), 0);
                Some(Err(error))
            }
        }
    }
}

/// Returns true for a JSON value. Text that only looks like one is YAML, whose documents end with a marker.
fn is_json(bytes: &[u8]) -> bool {
    let start = bytes.iter().position(|byte| *byte == b'{').unwrap_or(0);
    serde_json::from_slice::<IgnoredAny>(&bytes[start..]).is_ok()
}

/// Returns true for a line that begins or ends a YAML document: `---` or `...`, then nothing or a space. No YAML scalar
/// can contain such a line, so finding it needs no parser.
pub(crate) fn is_marker(line: &[u8], marker: [u8; 3]) -> bool {
    let rest = without_mark(line).strip_prefix(&marker);
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Counts the braces of a stream that begins like JSON, to find the end of its first value.
#[derive(Debug, Default)]
struct Json {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// True if the stream is not JSON, or the value has ended.
    is_over: bool,
}

impl Json {
    /// Reads more bytes. Returns the offset after the end of the value, if it ends in them.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut next = 0;
        while let Some(byte) = bytes.get(next) {
            if self.is_over {
                return None;
            }
            let at = next;
            next += 1;
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (true, b'"') => self.in_string = false,
                // Strings are most of a pod.
                (true, _) => next = memchr2(b'"', b'\\', &bytes[at..]).map_or(bytes.len(), |rest| at + rest),
                (false, b'{') => self.depth += 1,
                // The last three bytes are a byte order mark.
                (false, _) if self.depth == 0 => {
                    self.is_over = !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte);
                }
                (false, b'"') => self.in_string = true,
                (false, b'}') if self.depth == 1 => {
                    self.is_over = true;
                    return Some(at + 1);
                }
                (false, b'}') => self.depth -= 1,
                (false, _) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        RawDocuments::new(text.as_bytes())
            .map(|piece| String::from_utf8(piece.unwrap().bytes).unwrap())
            .collect()
    }

    #[test]
    fn documents_are_cut_at_their_marker_lines() {
        assert_eq!(
            pieces("a: 1\n---\nb: 2\n--- # c\nc: |\n  ---\n"),
            ["a: 1\n", "---\nb: 2\n", "--- # c\nc: |\n  ---\n"]
        );
        assert_eq!(pieces("---\na: 1"), ["---\na: 1"]);
        assert_eq!(pieces("----\na\n---x\n"), ["----\na\n---x\n"]);
        assert_eq!(
            pieces("# head\n%YAML 1.1\n---\na: 1\n---\n# c\n---\nb: 2\n"),
            ["# head\n%YAML 1.1\n---\na: 1\n", "---\n# c\n", "---\nb: 2\n"]
        );
        assert_eq!(pieces(""), Vec::<String>::new());
        assert_eq!(pieces("\u{feff}a: 1\n\u{feff}---\nb: 2\n"), ["\u{feff}a: 1\n", "\u{feff}---\nb: 2\n"]);
    }

    #[test]
    fn the_end_of_a_document_is_before_the_directives_of_the_next_one() {
        assert_eq!(
            pieces("a: 1\n...\n# c\n%TAG ! x:\n# d\n---\nb: 2\n...\n---\nc: 3\n... # e\n\n"),
            ["a: 1\n...\n", "# c\n%TAG ! x:\n# d\n---\nb: 2\n...\n", "---\nc: 3\n... # e\n\n"]
        );
        assert_eq!(pieces("a: 1\n...\n# c\nb: 2\n---\nc: 3\n"), ["a: 1\n...\n# c\nb: 2\n", "---\nc: 3\n"]);
        assert_eq!(pieces("a: |\n  ...\n%x\n"), ["a: |\n  ...\n%x\n"]);
    }

    #[test]
    fn json_values_are_cut_where_they_end() {
        assert_eq!(
            pieces("{\"a\": \"}\\\"\"}\n{\n\"b\": {}}\n"),
            ["{\"a\": \"}\\\"\"}\n", "{\n\"b\": {}}\n"]
        );
        assert_eq!(pieces("{\"a\":1}{\"b\":2}"), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(pieces("{}\n---\na: 1\n"), ["{}\n", "---\na: 1\n"]);
        assert_eq!(pieces("{\"a\":1}{\"b\":2} {}\n"), ["{\"a\":1}", "{\"b\":2}", " {}\n"]);
        assert_eq!(pieces("{a: '}', b: 1}\n"), ["{a: '}', b: 1}\n"]);
        assert_eq!(pieces("{\"a\": 1,}{}\n---\n{}{}"), ["{\"a\": 1,}{}\n", "---\n{}{}"]);
        assert_eq!(pieces("\u{feff}{}\n\u{feff}{}{}"), ["\u{feff}{}\n", "\u{feff}{}", "{}"]);
    }

    #[test]
    fn comments_directives_and_markers_are_no_content() {
        for text in ["", "\n", "# c\n", "---\n", "\u{feff}--- # c\r\n...\n", "%YAML 1.1\n---\n# c"] {
            let mut documents = RawDocuments::new(text.as_bytes());
            assert!(!documents.any(|raw| has_content(&raw.unwrap())), "{text:?}");
        }
        for text in ["a: 1", "---\na: 1\n", "--- a\n", "# c\n---\n{}\n", "---a\n", "---\n---\na: 1\n"] {
            let mut documents = RawDocuments::new(text.as_bytes());
            assert!(documents.any(|raw| has_content(&raw.unwrap())), "{text:?}");
        }
    }

    #[test]
    fn lines_count_from_the_beginning_of_the_stream() {
        let lines: Vec<usize> =
            RawDocuments::new(&b"a: 1\nb: 2\n---\nc: 3\n"[..]).map(|piece| piece.unwrap().line).collect();
        assert_eq!(lines, [1, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]
        #[test]
        fn the_pieces_are_the_stream(text in "([-a:{}\"\\\\\n #%.\u{feff}]|---\n|\\.\\.\\.\n){0,40}") {
            prop_assert_eq!(pieces(&text).concat(), text);
        }
    }
}
