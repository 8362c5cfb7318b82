//! Texts that kubectl reads and saphyr-parser refuses: lists and maps in brackets whose lines are not indented further
//! than their key, and tabs after a colon.
//!
//! The YAML specification wants that indentation, and libyaml, with which kubectl reads, does not look at it within
//! brackets. Many people write `command: [` with the closing bracket below the key.

use saphyr_parser::{Event, Parser, ScanError};

/// The number of characters that the parser reads at most, over all attempts: it starts anew after each place.
const MAX_READ: usize = 32 * 1024 * 1024;

/// The text for the parser: as many characters as in `source`, each at its place, with blanks for the line ends and the
/// comments within brackets, and for tabs after colons. `None` if the parser refuses nothing of that.
pub(super) fn joined(source: &str) -> Option<String> {
    let mut chars: Vec<char> = source.chars().collect();
    let mut text = None;
    for _ in 0..=MAX_READ / chars.len().max(1) {
        if mend(text.as_deref().unwrap_or(source), &mut chars).is_none() {
            break;
        }
        text = Some(chars.iter().collect());
    }
    text
}

/// Blanks what the parser refuses first. `None` if there is no such thing.
fn mend(text: &str, chars: &mut [char]) -> Option<()> {
    let (error, open, from) = refused(text, chars)?;
    let at = error.marker().index();
    match error.info() {
        "invalid indentation" | "invalid indentation in flow construct" => {
            let open = open.or_else(|| bracket(chars, from, at))?;
            join(chars, open)
        }
        info if info.starts_with("':' must be followed") => blank_tabs(chars, at),
        _ => None,
    }
}

/// The first error, with the place of the outermost bracket that is open there, and the end of the last event.
fn refused(text: &str, chars: &[char]) -> Option<(ScanError, Option<usize>, usize)> {
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
                let at = Some(skip_properties(chars, span.start.index())).filter(|_| !span.is_empty());
                let at = at.filter(|at| matches!(chars.get(*at), Some('[' | '{')));
                open = open.or(at.map(|at| (depth, at)));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open = open.filter(|(outermost, _)| *outermost < depth);
                depth -= 1;
            }
            _ => {}
        }
        last = span.end.index();
    }
    None
}

/// The place of the bracket with which the next node begins, before `end`.
fn bracket(chars: &[char], from: usize, end: usize) -> Option<usize> {
    let mut at = from;
    while at < end.min(chars.len()) {
        match chars[at] {
            '[' | '{' => return Some(at),
            ':' | '-' | '?' | ',' => at += 1,
            _ => {
                let after = skip_properties(chars, at);
                (after > at).then_some(())?;
                at = after;
            }
        }
    }
    None
}

/// The place after white space, comments, anchors and tags.
fn skip_properties(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while let Some(c) = chars.get(at) {
        at = match c {
            '#' => line_end(chars, at),
            '!' | '&' => at + chars[at..].iter().take_while(|c| !c.is_whitespace()).count(),
            c if c.is_whitespace() => at + 1,
            _ => break,
        };
    }
    at
}

fn line_end(chars: &[char], from: usize) -> usize {
    chars[from..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| from + length)
}

/// Blanks the line ends and the comments between the tokens of a list or map in brackets. `None` if there are none, or if
/// it has no end.
fn join(chars: &mut [char], open: usize) -> Option<()> {
    let (mut depth, mut at, mut changed) = (0, open, false);
    // A quote begins a text only where a value or a key can begin; elsewhere it is a letter of a plain scalar.
    let (mut begins, mut in_plain) = (true, false);
    while let Some(c) = chars.get(at).copied() {
        match c {
            '[' | '{' => (depth, begins, in_plain) = (depth + 1, true, false),
            ']' | '}' if depth == 1 => return changed.then_some(()),
            ']' | '}' => (depth, begins, in_plain) = (depth - 1, false, false),
            ',' => (begins, in_plain) = (true, false),
            ':' if !in_plain || chars.get(at + 1).is_none_or(|next| next.is_whitespace()) => {
                (begins, in_plain) = (true, false);
            }
            '"' | '\'' if begins => {
                at = quoted_end(chars, at)?;
                (begins, in_plain) = (false, false);
                continue;
            }
            '#' if chars[at - 1].is_whitespace() => {
                let end = line_end(chars, at);
                chars[at..end].fill(' ');
            }
            '\n' if !in_plain || ends_plain(chars, at) => {
                let start = if chars[at - 1] == '\r' { at - 1 } else { at };
                chars[start..=at].fill(' ');
                changed = true;
            }
            c if c.is_whitespace() => {}
            _ => (begins, in_plain) = (false, true),
        }
        at += 1;
    }
    None
}

/// Returns whether a plain scalar does not go on after this line end.
fn ends_plain(chars: &[char], mut at: usize) -> bool {
    while let Some(c) = chars.get(at) {
        match c {
            '#' => at = line_end(chars, at),
            c if c.is_whitespace() => at += 1,
            c => return matches!(c, ',' | ']' | '}' | '[' | '{'),
        }
    }
    false
}

/// The place after a quoted text.
fn quoted_end(chars: &[char], start: usize) -> Option<usize> {
    let quote = chars[start];
    let mut at = start + 1;
    loop {
        match chars.get(at)? {
            '\\' if quote == '"' => at += 2,
            c if *c == quote && quote == '\'' && chars.get(at + 1) == Some(&'\'') => at += 2,
            c if *c == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Blanks the tabs around a place.
fn blank_tabs(chars: &mut [char], at: usize) -> Option<()> {
    let is_blank = |c: &char| matches!(c, ' ' | '\t');
    let start = at - chars[..at.min(chars.len())].iter().rev().take_while(|c| is_blank(c)).count();
    let end = start + chars[start..].iter().take_while(|c| is_blank(c)).count();
    let tabs = chars[start..end].contains(&'\t');
    chars[start..end].fill(' ');
    tabs.then_some(())
}

#[cfg(test)]
mod tests;
