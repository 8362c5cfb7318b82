//! Reads YAML text into a tree.

use std::collections::HashSet;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::Value;

use super::build::{Builder, Collection, MAX_DEPTH, MapBuilder, Tree};
use super::disagreements;
use super::error::Error;
use super::final_newline::WithFinalNewline;
use super::joined::{Joined, joined};
use super::offsets::Offsets;
use super::quoted;
use super::scalar::{self, Scalar};
use super::source_map::SourceMap;
use super::span::Span;
use super::tokens::{block, has_indicator, properties, skip_properties, trimmed};

/// A manifest: its value, and where readers differ about it.
///
/// A repeated key, and a text at the end of a file without a final line end, are errors only in a document that is written
/// again, where one of the two values would be lost. A document that is not changed is passed on with them.
#[derive(Debug)]
pub struct Manifest<T = Value> {
    /// `None` for a document of white space and comments.
    pub root: Option<T>,
    /// The first key that appears twice in one map, or the text at the end that readers end differently.
    pub ambiguity: Option<Error>,
}

/// Reads exactly one document; a second one is an error.
pub(super) fn read<T: Tree>(source: &str) -> Result<Manifest<T>, Error> {
    if let Some((at, message)) = disagreements::character(source).or_else(|| disagreements::marker(source)) {
        return Err(Error::new(message, span_at(source, at)));
    }
    let ended = WithFinalNewline::new(source);
    parsed(&ended, &ended.text, &[]).or_else(|error| {
        let joined = joined(&ended.text);
        let parsed = if let Some(at) = joined.mismatch {
            let end = &ended.text[at..=at];
            Err(Error::new(
                format!("not valid YAML: `{end}` does not close the brackets that are open"),
                span_at(source, at),
            ))
        } else if joined.text == *ended.text {
            Err(error)
        } else {
            // If a closing quote is missing, the next quote ends the string.
            parsed(&ended, &joined.text, &joined.places).map_err(|later| {
                if follows_quoted(&ended.text, &joined, later.span.line) { error } else { later }
            })
        };
        parsed.map_err(|error| match joined.open.map(|at| span_at(source, at).line) {
            Some(line) if line <= error.span.line => {
                Error { brackets: error.brackets.or(Some(line)), ..error }
            }
            _ => error,
        })
    })
}

/// Returns whether a quoted text of several lines ends on a line.
fn follows_quoted(text: &str, joined: &Joined, line: usize) -> bool {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let length = text[start..].find('\n').unwrap_or(text.len() - start);
    let mut quotes = joined.places.iter().filter(|at| text[**at..].starts_with(['"', '\'']));
    quotes.any(|at| quoted::end(text, *at).is_some_and(|end| (start..=start + length).contains(&end)))
}

/// Reads a text through a substitute for the parser, which has the same characters at the same places, except for
/// spaces and quoted strings. At each of `places`, the parser must find a bracket or a quoted string.
fn parsed<T: Tree>(
    ended: &WithFinalNewline<'_>,
    joined: &str,
    places: &[usize],
) -> Result<Manifest<T>, Error> {
    let source = &*ended.text;
    let mut reader = Reader {
        ended,
        source,
        offsets: Offsets::new(source),
        lines: Lines::new(source),
        builder: Builder::new(),
        unconfirmed: places.iter().copied().collect(),
        parts: source.contains('\t').then(Vec::new),
        unended: None,
    };
    let mut documents = 0;
    for event in Parser::new_from_str(joined) {
        let (event, at) = event.map_err(|error| reader.scan_error(&error))?;
        let (start, end) = (at.start.index(), at.end.index());
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                return Err(Error::new("found a second document", reader.lines.span(start, end)));
            }
        }
        reader.event(event, start, end)?;
    }
    if let Some(at) = reader.unconfirmed.iter().min() {
        let message = "indent the lines within these brackets or quotes further than their key";
        return Err(Error::new(message, span_at(source, *at)));
    }
    if let Some(at) = reader.parts.and_then(|parts| disagreements::tab(source, &parts)) {
        let message = "found a tab in the indentation, which kubectl does not accept; indent with spaces";
        return Err(Error::new(message, span_at(source, at)));
    }
    Ok(Manifest { root: reader.builder.root, ambiguity: reader.builder.duplicate_key.or(reader.unended) })
}

struct Reader<'t, T> {
    ended: &'t WithFinalNewline<'t>,
    source: &'t str,
    offsets: Offsets<'t>,
    lines: Lines,
    builder: Builder<T>,
    /// The places where the parser must find a bracket or a quoted string.
    unconfirmed: HashSet<usize>,
    /// The parts of a text in which tabs are ordinary characters.
    parts: Option<disagreements::Parts>,
    /// A text to which only kubectl adds the line end that the file lacks.
    unended: Option<Error>,
}

impl<T: Tree> Reader<'_, T> {
    /// Reads an event at its first and its last character.
    fn event(&mut self, event: Event<'_>, start: usize, end: usize) -> Result<(), Error> {
        let span = self.lines.span(start, end);
        let range = self.offsets.byte(start)..self.offsets.byte(end);
        match event {
            Event::Alias(id) => {
                let word = &self.source[range.start..trimmed(self.source, range)];
                disagreements::property(word).map_or(Ok(()), |message| Err(Error::new(message, span)))?;
                self.builder.alias(id, span)
            }
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag))
                if T::MAPPED && !tag.is_yaml_core_schema() =>
            {
                let message = format!("`{}{}` is a YAML tag, not a string", tag.handle, tag.suffix);
                Err(Error::new(message, span))
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.ended.is_in(&text, style, end) {
                    let message = "add a line end at the end of the file: kubectl reads this text with one, and other \
                                   YAML readers without";
                    self.unended = Some(Error::new(message, span));
                }
                self.scalar(&text, style, anchor, tag.as_deref(), range, span)
            }
            Event::SequenceStart(anchor, _) => self.open(Collection::List(Vec::new()), anchor, range, span),
            Event::MappingStart(anchor, _) => {
                self.open(Collection::Map(MapBuilder::default()), anchor, range, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let brackets = self.builder.brackets();
                self.builder.close()?;
                if let (Some((_, start)), None) = (brackets, self.builder.brackets()) {
                    self.add_part(start..range.end, 0);
                }
                Ok(())
            }
            // The beginning or the end of a document or of the stream.
            _ => Ok(()),
        }
    }

    fn open(
        &mut self,
        collection: Collection<T>,
        anchor: usize,
        range: Range<usize>,
        span: Span,
    ) -> Result<(), Error> {
        let content = skip_properties(self.source, range.start);
        self.properties(range.start, span)?;
        // A list or map without brackets begins with an empty range, or with a `-`.
        let brackets = !range.is_empty() && self.source[content..].starts_with(['[', '{']);
        if brackets {
            self.unconfirmed.remove(&content);
        }
        self.builder.open(collection, brackets.then_some(content), anchor, span)
    }

    /// Notes a part of the text in which a tab is an ordinary character, from a column on.
    fn add_part(&mut self, range: Range<usize>, column: usize) {
        if let Some(parts) = &mut self.parts {
            parts.push((range, column));
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        range: Range<usize>,
        mut span: Span,
    ) -> Result<(), Error> {
        let source = self.source;
        let place = span;
        let has_properties = anchor > 0 || tag.is_some();
        let content =
            if has_properties { skip_properties(source, range.start).min(range.end) } else { range.start };
        if has_properties {
            self.properties(range.start, span)?;
        }
        let in_brackets = self.builder.brackets().is_some();
        let error = |message: String| Err(Error::new(message, place));
        let (mut end, mut quoted) = (range.end, None);
        match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                self.unconfirmed.remove(&content);
                end = quoted::end(source, content).unwrap_or(end);
                // For the parser, a comment after it belongs to it.
                let line = source[range.start..end].split('\n').next().unwrap_or_default();
                span.length = if line.len() < end - range.start { 1 } else { line.chars().count() };
                match quoted::value(&source[content..end]) {
                    Ok(value) => quoted = Some(value),
                    Err(escape) => return error(format!("kubectl does not know the escape `{escape}`")),
                }
            }
            ScalarStyle::Plain => {
                end = trimmed(source, content..range.end);
                if in_brackets && let Some(message) = disagreements::in_brackets(source, content..end) {
                    return error(message);
                }
            }
            ScalarStyle::Literal | ScalarStyle::Folded if self.builder.is_empty() => {
                let message = "this document is one block of text, whose lines kubectl reads differently";
                return error(message.to_owned());
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {}
        }
        if self.parts.is_some() && !in_brackets {
            match style {
                ScalarStyle::Plain => {
                    let line = source[content..end].find('\n').map_or(end, |length| content + length);
                    self.add_part(content..line, 0);
                }
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    let block = block(source, content);
                    let own = has_indicator(source, content).then_some(text);
                    self.add_part(block..end, first_column(source, block, own));
                }
                _ => self.add_part(content..end, 0),
            }
        }
        if self.builder.expects_key() && disagreements::is_broken_key(source, range.start, end) {
            return error("a key and its colon must be on one line".to_owned());
        }
        let text = quoted.as_deref().unwrap_or(text);
        let value = scalar_value(text, style, tag).map_err(|message| Error::new(message, span))?;
        // In other texts, the characters are at the same places as in the file.
        let written = &source[range.clone()];
        let is_elsewhere = text.contains("${") || written.contains(['\n', '\\']) || written.contains("''");
        let map = if T::MAPPED && is_elsewhere {
            SourceMap::of_scalar(text, span, style, &source[range.start..])
        } else {
            None
        };
        self.builder.add(value, style == ScalarStyle::Plain && tag.is_none(), anchor, span, map)
    }

    fn properties(&self, start: usize, span: Span) -> Result<(), Error> {
        let (words, _) = properties(self.source, start);
        let message = words.into_iter().find_map(disagreements::property);
        message.map_or(Ok(()), |message| Err(Error::new(message, span)))
    }

    fn scan_error(&self, error: &ScanError) -> Error {
        let at = self.ended.place(error.marker().index());
        let span = self.lines.span(at, at);
        // The parser has its own limit for flow style.
        if error.info().contains("recursion") {
            return Error::new(format!("nested more than {MAX_DEPTH} levels deep"), span);
        }
        let brackets = self.builder.brackets().map(|(span, _)| span.line);
        // The parser calls all quotes double ones there.
        let info = error.info().replace("double-quoted", "quoted");
        Error { brackets, ..Error::new(format!("not valid YAML: {info}"), span) }
    }
}

/// The column at which the lines of a block begin; that of one with an indicator depends on its text.
fn first_column(source: &str, block: usize, text: Option<&str>) -> usize {
    let spaces = column(source, block);
    match text {
        Some(text) => {
            let is_blank = |line: &&str| line.trim_matches(' ').is_empty();
            let line = text.lines().find(|line| !is_blank(line)).unwrap_or_default();
            spaces.saturating_sub(line.len() - line.trim_start_matches(' ').len())
        }
        // kubectl finds no indentation before a tab.
        None if source[block..].starts_with('\t') => usize::MAX,
        None => spaces,
    }
}

/// The number of bytes before a position on its line.
fn column(text: &str, at: usize) -> usize {
    at - text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The lines of a text, by the first character of each; the parser counts characters.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let ends = text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(ends).collect())
    }

    /// The place of a range of characters; of a range of several lines, only its beginning.
    fn span(&self, start: usize, end: usize) -> Span {
        let line = self.0.partition_point(|first| *first <= start);
        let is_one_line = self.0.get(line).is_none_or(|next| end < *next);
        let length = if is_one_line { end.saturating_sub(start).max(1) } else { 1 };
        Span { line, column: start - self.0[line - 1] + 1, length }
    }
}

/// The position of a byte offset.
pub fn span_at(text: &str, offset: usize) -> Span {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Span { line, column, length: 1 }
}

/// The value of a scalar, or why it has none.
pub(super) fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    match tag {
        Some(tag) => scalar::tagged(text, &format!("{}{}", tag.handle, tag.suffix)),
        None if style != ScalarStyle::Plain => Ok(Scalar::String(text.to_owned())),
        None if scalar::is_unrepresentable(text) => {
            Err(format!("`{text}` is a number that JSON cannot hold"))
        }
        None => Ok(scalar::resolve(text)),
    }
}

#[cfg(test)]
mod tests;
