//! Texts that kubectl reads and saphyr-parser refuses: lists and maps in brackets whose lines are not indented further
//! than their key, and tabs after a colon.
//!
//! The YAML specification wants that indentation, and libyaml, with which kubectl reads, does not look at it within
//! brackets. Many people write `command: [` with the closing bracket below the key.

use saphyr_parser::{Event, Parser, ScanError};

use super::offsets::Offsets;
use super::tokens::{quoted_end, skip_blank, skip_properties};

/// The number of bytes that the parser reads at most, over all attempts: it starts anew after each place.
const MAX_READ: usize = 32 * 1024 * 1024;

/// The text for the parser: as many characters as in `source`, each at its place, with blanks for the line ends and the
/// comments within brackets, and for tabs after colons. `None` if the parser refuses nothing of that.
pub(super) fn joined(source: &str) -> Option<String> {
    let mut joined = None;
    for _ in 0..=MAX_READ / source.len().max(1) {
        let Some(next) = mended(joined.as_deref().unwrap_or(source)) else { break };
        joined = Some(next);
    }
    joined
}

/// The position, in characters, of the outermost bracket within which the parser refuses a text.
pub(super) fn open_bracket(text: &str) -> Option<usize> {
    let (_, open, _) = refused(text, &Offsets::of(text))?;
    Some(text[..open?].chars().count())
}

/// The text without what the parser refuses first. `None` if that is something else, or nothing.
fn mended(text: &str) -> Option<String> {
    let offsets = Offsets::of(text);
    let (error, open, last) = refused(text, &offsets)?;
    let at = offsets.byte(error.marker().index());
    match error.info() {
        "invalid indentation" | "invalid indentation in flow construct" => {
            without_lines(text, open.or_else(|| next_bracket(text, last, at))?)
        }
        info if info.starts_with("':' must be followed") => without_tabs(text, at),
        _ => None,
    }
}

/// The first error, with the place of the outermost bracket that is open there, and the end of the last event.
fn refused(text: &str, offsets: &Offsets<'_>) -> Option<(ScanError, Option<usize>, usize)> {
    let (mut depth, mut open, mut last) = (0, None, 0);
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => return Some((error, open.map(|(_, at)| at), last)),
        };
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                depth += 1;
                // A list or map without brackets begins with an empty range, or with a `-`.
                let at = skip_properties(text, offsets.byte(span.start.index()));
                let is_bracket = !span.is_empty() && text[at..].starts_with(['[', '{']);
                open = open.or(is_bracket.then_some((depth, at)));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open = open.filter(|(outermost, _)| *outermost < depth);
                depth -= 1;
            }
            _ => {}
        }
        last = offsets.byte(span.end.index());
    }
    None
}

/// The place of the bracket with which the next node begins, before `end`.
fn next_bracket(text: &str, from: usize, end: usize) -> Option<usize> {
    let mut at = skip_properties(text, from);
    while text[at..].starts_with([':', '-', '?', ',']) {
        at = skip_properties(text, at + 1);
    }
    (at < end && text[at..].starts_with(['[', '{'])).then_some(at)
}

/// The text with blanks for the line ends and the comments between the tokens of a list or map in brackets. `None` if
/// there are none.
fn without_lines(text: &str, open: usize) -> Option<String> {
    let (mut out, mut at) = (text[..open].to_owned(), open);
    let (mut depth, mut changed) = (0, false);
    // A quote begins a text only where a value or a key can begin; elsewhere it is a letter of a plain scalar.
    let (mut begins, mut in_plain) = (true, false);
    loop {
        // What has no end gets the parser's error for that.
        let Some(c) = text[at..].chars().next() else { return changed.then_some(out) };
        let mut end = at + c.len_utf8();
        match c {
            '[' | '{' => (depth, begins, in_plain) = (depth + 1, true, false),
            ']' | '}' => (depth, begins, in_plain) = (depth - 1, false, false),
            ',' => (begins, in_plain) = (true, false),
            ':' if !in_plain || text[end..].starts_with(|next: char| next.is_ascii_whitespace()) => {
                (begins, in_plain) = (true, false);
            }
            '"' | '\'' if begins => {
                end = quoted_end(text, at)?;
                (begins, in_plain) = (false, false);
            }
            c if c.is_ascii_whitespace() => {
                end = skip_blank(text, at);
                // A plain scalar can go on in the next line.
                let is_between = !in_plain || text[end..].starts_with([',', ']', '}', '[', '{']);
                if is_between && text[at..end].contains('\n') {
                    out.extend(text[at..end].chars().map(|_| ' '));
                    (at, changed) = (end, true);
                    continue;
                }
            }
            _ => (begins, in_plain) = (false, true),
        }
        out.push_str(&text[at..end]);
        at = end;
        if depth == 0 {
            return changed.then(|| out + &text[at..]);
        }
    }
}

/// The text with spaces for the tabs around a place. `None` if there are none.
fn without_tabs(text: &str, at: usize) -> Option<String> {
    let start = text[..at].trim_end_matches([' ', '\t']).len();
    let end = text.len() - text[start..].trim_start_matches([' ', '\t']).len();
    let spaces = text[start..end].replace('\t', " ");
    text[start..end].contains('\t').then(|| [&text[..start], &spaces, &text[end..]].concat())
}

#[cfg(test)]
mod tests;
