//! Texts that kubectl reads and saphyr-parser rejects: lists, maps and quoted strings whose lines are not indented
//! further than their key, tabs after a colon, and comments directly after a quote or a bracket.
//!
//! The YAML specification requires that indentation, but libyaml, which kubectl uses, ignores it within brackets and
//! quotes. Many people write `command: [` with the closing bracket below the key.

use super::quoted;
use super::tokens::{header, skip_blank};

/// A substitute text for the parser, with the same number of characters as the original: spaces replace the line ends
/// and comments within brackets and the tabs after colons, and letters replace quoted strings of several lines.
#[derive(Default)]
pub(super) struct Joined {
    pub(super) text: String,
    /// The places where the parser must find a bracket or a quoted string. This tokenizer is not a parser, and could be
    /// wrong about them.
    pub(super) places: Vec<usize>,
    /// The brackets that have no end.
    pub(super) open: Option<usize>,
    /// The end of other brackets than those that are open.
    pub(super) mismatch: Option<usize>,
}

/// The text for the parser.
pub(super) fn joined(source: &str) -> Joined {
    let mut reader = Reader { text: source, at: 0, joined: Joined::default() };
    reader.blocks();
    reader.joined
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The text for the parser, up to here.
    joined: Joined,
}

impl Reader<'_> {
    fn copy(&mut self, to: usize) {
        self.joined.text.push_str(&self.text[self.at..to]);
        self.at = to;
    }

    /// Writes a character for each one up to a place.
    fn fill(&mut self, to: usize, with: char) {
        self.joined.text.extend(self.text[self.at..to].chars().map(|_| with));
        self.at = to;
    }

    fn next(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn end_of_line(&self) -> usize {
        memchr::memchr(b'\n', &self.text.as_bytes()[self.at..])
            .map_or(self.text.len(), |length| self.at + length)
    }

    fn is_blank(&self, at: usize) -> bool {
        self.text.as_bytes().get(at).is_none_or(u8::is_ascii_whitespace)
    }

    /// The tokens outside of brackets.
    fn blocks(&mut self) {
        let mut line = 0;
        // The columns of the map or list that a token belongs to, and of the first token of the current entry.
        let (mut parent, mut first) = (None, None);
        // A plain scalar continues on the next line, if that is indented.
        let mut in_plain = false;
        while let Some(c) = self.next() {
            let (start, column) = (self.at, self.at - line);
            if c == '\n' {
                self.copy(start + 1);
                (line, first) = (self.at, None);
                continue;
            }
            if c.is_ascii_whitespace() {
                self.copy(start + 1);
                continue;
            }
            let is_marker =
                column == 0 && ["---", "..."].iter().any(|marker| self.text[start..].starts_with(marker));
            if is_marker && self.is_blank(start + 3) {
                self.copy(start + 3);
                (parent, first, in_plain) = (None, None, false);
                continue;
            }
            if c == '#' && (start == 0 || self.is_blank(start - 1)) || c == '%' && column == 0 {
                self.copy(self.end_of_line());
                in_plain = false;
                continue;
            }
            let goes_on = in_plain && parent.is_none_or(|parent| column > parent);
            in_plain = false;
            match c {
                _ if goes_on => in_plain = self.plain(),
                '-' | '?' | ':' if self.is_blank(start + 1) => {
                    self.copy(start + 1);
                    match c {
                        ':' => {
                            parent = first.or(parent);
                            self.tabs();
                        }
                        _ => parent = Some(column),
                    }
                    first = None;
                    continue;
                }
                '&' | '!' | '*' => {
                    let length = self.text[start..].find(|c: char| c.is_ascii_whitespace());
                    self.copy(length.map_or(self.text.len(), |length| start + length));
                }
                '"' | '\'' => {
                    self.quoted();
                    self.comment();
                }
                '[' | '{' => {
                    self.brackets();
                    self.comment();
                }
                '|' | '>' => self.block(parent),
                _ => in_plain = self.plain(),
            }
            first = first.or(Some(column));
        }
    }

    /// A plain scalar up to the end of its line. Returns false if it is a key.
    fn plain(&mut self) -> bool {
        let end = self.end_of_line();
        let line = &self.text[self.at..end];
        let ends = |(at, c): (usize, char)| match c {
            ':' => self.is_blank(self.at + at + 1),
            '#' => at > 0 && self.is_blank(self.at + at - 1),
            _ => false,
        };
        let length = line.char_indices().find_map(|found| ends(found).then_some(found.0));
        self.copy(length.map_or(end, |length| self.at + length));
        length.is_none()
    }

    /// A block scalar with its lines: those that are blank or indented further than its parent.
    fn block(&mut self, parent: Option<usize>) {
        let length = header(self.text, self.at).map_or(1, str::len);
        self.copy(self.at + length);
        self.comment();
        self.copy(self.end_of_line());
        while self.at < self.text.len() {
            let line = &self.text[self.at + 1..];
            let indent = line.bytes().take_while(|byte| *byte == b' ').count();
            let is_blank = matches!(line.as_bytes().get(indent), None | Some(b'\n' | b'\r'));
            if !is_blank && parent.is_some_and(|parent| indent <= parent) {
                return;
            }
            self.copy(self.at + 1);
            self.copy(self.end_of_line());
        }
    }

    /// Spaces for the tabs after a colon.
    fn tabs(&mut self) {
        let blanks = self.text[self.at..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.fill(self.at + blanks, ' ');
    }

    /// A space for each character of a comment directly after a quote or a bracket.
    fn comment(&mut self) {
        if self.next() == Some('#') {
            self.fill(self.end_of_line(), ' ');
        }
    }

    /// A quoted string, with letters for its characters if it has several lines.
    fn quoted(&mut self) {
        let end = quoted::end(self.text, self.at).unwrap_or(self.text.len());
        let text = &self.text[self.at..end];
        let is_marker =
            |line: &str| ["---", "..."].contains(&line.split_ascii_whitespace().next().unwrap_or_default());
        let ends = |line: &str| !line.starts_with([' ', '\t']) && is_marker(line);
        // kubectl accepts an escape of a single quote (`scannerc.go` of its YAML library).
        let is_other = text.contains('\n') || text.contains("\\'");
        // The parser reports a missing end.
        if !is_other || !text[1..].ends_with(&text[..1]) || text.split('\n').skip(1).any(ends) {
            return self.copy(end);
        }
        self.joined.places.push(self.at);
        self.copy(self.at + 1);
        self.fill(end - 1, 'x');
        self.copy(end);
    }

    /// A list or map in brackets, with spaces for the line ends and the comments between its tokens.
    fn brackets(&mut self) {
        // The ends of those that are open.
        let mut ends = Vec::new();
        // A quote begins a text only where a value or a key can begin; elsewhere it is a letter of a plain scalar.
        let (mut begins, mut in_plain) = (true, false);
        let (start, length, places) = (self.at, self.joined.text.len(), self.joined.places.len());
        self.joined.places.push(start);
        loop {
            let next = self.next();
            let is_wrong = next.is_none_or(|c| matches!(c, ']' | '}') && ends.pop() != Some(c));
            let Some(c) = next.filter(|_| !is_wrong) else {
                // The parser reports a missing end.
                self.joined.text.truncate(length);
                self.joined.places.truncate(places);
                self.joined.mismatch = next.map(|_| self.at);
                (self.at, self.joined.open) = (start, Some(start));
                return self.copy(self.text.len());
            };
            let end = self.at + c.len_utf8();
            match c {
                '[' | '{' => {
                    ends.push(if c == '[' { ']' } else { '}' });
                    (begins, in_plain) = (true, false);
                }
                ']' | '}' => (begins, in_plain) = (false, false),
                ',' => (begins, in_plain) = (true, false),
                '?' if !in_plain && self.is_blank(end) => begins = true,
                ':' if !in_plain || self.is_blank(end) => (begins, in_plain) = (true, false),
                '"' | '\'' if begins => {
                    self.quoted();
                    (begins, in_plain) = (false, false);
                    continue;
                }
                '#' if !in_plain => {
                    self.fill(self.end_of_line(), ' ');
                    continue;
                }
                c if c.is_ascii_whitespace() => {
                    let end = skip_blank(self.text, self.at);
                    // A plain scalar can continue on the next line.
                    let is_between = !in_plain || self.text[end..].starts_with([',', ']', '}', '[', '{']);
                    if is_between {
                        self.fill(end, ' ');
                    } else {
                        self.copy(end);
                    }
                    continue;
                }
                _ => (begins, in_plain) = (false, true),
            }
            self.copy(end);
            if ends.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
