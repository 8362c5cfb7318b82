//! The places in a file of the characters of a scalar.

use std::sync::Arc;

use saphyr_parser::ScalarStyle;

use super::quoted;
use super::span::Span;
use super::tokens::{is_block, skip_properties};

/// Maps the text of a scalar to the file, where it has quotes, escapes, indentation and other line breaks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceMap(Arc<[Run]>);

/// Characters that follow each other in the text and on a line of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    /// The byte of the text at which it begins.
    offset: usize,
    line: usize,
    column: usize,
}

impl SourceMap {
    /// The map of a text that is verbatim in the file, on one line, perhaps in quotes.
    pub(crate) fn of_line(text: &str, span: Span) -> Self {
        let quote = span.length.saturating_sub(text.chars().count()).min(1);
        Self(Arc::new([Run { offset: 0, line: span.line, column: span.column + quote }]))
    }

    /// The map of a scalar that begins at `span`, where the rest of the file is `raw`. `None` if the text is not there.
    pub(super) fn of_scalar(text: &str, span: Span, style: ScalarStyle, raw: &str) -> Option<Self> {
        let mut raw = Raw { rest: raw, line: span.line, column: span.column };
        // The parser's position is that of an anchor or a tag; without them, a block is at its content.
        // The content of a block may begin like a property.
        let is_content = is_block(style) && text.chars().next() == raw.peek();
        let properties = if is_content { 0 } else { skip_properties(raw.rest, 0) };
        raw.skip_to(&raw.rest[properties..]);
        match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => _ = raw.next()?,
            _ if is_block(style) && properties > 0 => while raw.next()? != '\n' {},
            _ => {}
        }
        let mut runs: Vec<Run> = Vec::new();
        // The place of the next character if it belongs to the same run.
        let mut following = (0, 0);
        for (offset, wanted) in text.char_indices() {
            // Folding changes white space only.
            if wanted.is_whitespace() {
                following.1 += 1;
                continue;
            }
            let (line, column, found) = raw.visible(style)?;
            if found != wanted {
                return None;
            }
            if (line, column) != following {
                runs.push(Run { offset, line, column });
            }
            following = (line, column + 1);
        }
        Some(Self(runs.into()))
    }

    /// The place of `length` bytes at `offset` of the text, as far as they are on one line. The default for a text
    /// that no file has.
    pub fn span(&self, text: &str, offset: usize, length: usize) -> Span {
        let at = self.0.iter().rposition(|run| run.offset <= offset).unwrap_or(0);
        let Some(run) = self.0.get(at) else { return Span::default() };
        let characters = |from: usize, to: usize| {
            text.char_indices().filter(move |(at, _)| (from..to).contains(at)).map(|(_, character)| character)
        };
        let next = self.0.get(at + 1).map_or(text.len(), |next| next.offset);
        let end = (offset + length).min(next);
        let visible: String = characters(offset, end).collect();
        Span {
            line: run.line,
            column: run.column + characters(run.offset, offset).count(),
            length: visible.trim_end().chars().count().max(1),
        }
    }

    /// The map of a part of the text.
    #[must_use]
    pub fn of_part(&self, text: &str, offset: usize, length: usize) -> Self {
        if self.0.is_empty() {
            return Self::default();
        }
        let Span { line, column, .. } = self.span(text, offset, 0);
        let later = self.0.iter().filter(|run| (offset + 1..offset + length).contains(&run.offset));
        let later = later.map(|run| Run { offset: run.offset - offset, ..*run });
        Self([Run { offset: 0, line, column }].into_iter().chain(later).collect())
    }

    #[must_use]
    pub(super) fn moved(&self, lines: usize) -> Self {
        Self(self.0.iter().map(|run| Run { line: run.line + lines, ..*run }).collect())
    }
}

/// The characters of a file, each with its position.
struct Raw<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
}

impl Raw<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        if next == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(next)
    }

    /// Skips to where the rest is shorter.
    fn skip_to(&mut self, rest: &str) {
        while self.rest.len() > rest.len() {
            self.next();
        }
    }

    /// The next character that is not white space, without the escape or the second quote that belongs to it.
    fn visible(&mut self, style: ScalarStyle) -> Option<(usize, usize, char)> {
        loop {
            let (line, column) = (self.line, self.column);
            let found = match (self.peek()?, style) {
                ('\\', ScalarStyle::DoubleQuoted) => self.escaped()?,
                ('\'', ScalarStyle::SingleQuoted) => self.next().and(self.next())?,
                _ => self.next()?,
            };
            if !found.is_whitespace() {
                return Some((line, column, found));
            }
        }
    }

    /// The character of an escape; a space for that of a line end.
    fn escaped(&mut self) -> Option<char> {
        let mut value = String::new();
        let after = quoted::escape(self.rest, &mut value).ok()?;
        self.skip_to(after);
        Some(value.chars().next().unwrap_or(' '))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Content, Node, read_unique};

    /// The text of the file at the place of a mark in the text of the scalar `a`.
    #[track_caller]
    fn found(file: &str, mark: &str) -> (usize, usize, String) {
        let root = read_unique(file).unwrap().0.unwrap();
        let Content::Map(entries) = &root.content else { panic!("{file}") };
        let node: &Node = &entries[0].value;
        let text = node.text().unwrap();
        let at = text.text.find(mark).unwrap();
        let span = text.span_of(at, mark.len());
        let line = file.lines().nth(span.line - 1).unwrap();
        let shown = line.chars().skip(span.column - 1).take(span.length).collect();
        (span.line, span.column, shown)
    }

    #[test]
    fn a_place_in_every_kind_of_scalar_is_that_in_the_file() {
        for file in [
            "a: ${one} and two\n",
            "a: \"${one} and two\"\n",
            "a: '${one} and two'\n",
            "a: >-\n  ${one}\n  and two\n",
            "a: > # folded\n\n    ${one}\n\n      and\n    two",
            "a: |\n  ${one}\n  and\n    two\n",
            "a: |2-\n    ${one}\n  and two\n",
            "a: ${one}\n  and\n  two\n",
            "a: \"${one}\n  and\n\n  two\"\n",
            "a: \"\\x41\\t\\\"${one} \\\n  and \\u00e9 two\"\n",
            "a: 'it''s ${one}\n  and two'\n",
            "# ü\nü: &b >-\n  ü ${one} ü\n  and two\n",
            "a: !!str\n  '${one} and two'\n",
            "a: >-\r\n  ${one}\r\n  and two\r\n",
        ] {
            for mark in ["one", "two"] {
                let (_, _, shown) = found(file, mark);
                assert_eq!(shown, mark, "{file}");
            }
        }
        assert_eq!(found("a: >-\n  x\n  ${one} two\n", "one").0, 3);
    }

    #[test]
    fn a_span_ends_with_its_line() {
        assert_eq!(found("a: |\n  ${one +\n   two}\n", "one +\n two").2, "one +");
        assert_eq!(found("a: \"${'\\u0041' + two}\"\n", "two").2, "two");
    }
}
