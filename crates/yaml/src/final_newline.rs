//! The end of a text: kubectl ends the last line of a file, as saphyr-parser needs it. Programs that read a file as a whole
//! do not, and read another string where the file ends with a block scalar.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::joined::joined;
use super::tokens::is_block;

/// A text whose last line has an end, as kubectl reads it.
pub(super) struct WithFinalNewline<'t> {
    pub(super) text: Cow<'t, str>,
    /// The number of characters before a line end that was added.
    added: Option<usize>,
}

impl<'t> WithFinalNewline<'t> {
    pub(super) fn new(source: &'t str) -> Self {
        let start = source.rfind('\n').map_or(0, |at| at + 1);
        let (before, last) = source.split_at(start);
        if last.is_empty() {
            return Self { text: Cow::Borrowed(source), added: None };
        }
        let text = format!("{source}\n");
        // A blank last line has no meaning, unless it is the last line of a block scalar.
        let is_blank = last.trim_matches(' ').is_empty();
        if is_blank && (!before.contains(['|', '>']) || last_scalar(before) == last_scalar(&text)) {
            return Self { text: Cow::Borrowed(before), added: None };
        }
        Self { text: Cow::Owned(text), added: Some(source.chars().count()) }
    }

    /// The place of a character, which is in the original text.
    pub(super) fn place(&self, character: usize) -> usize {
        character.min(self.added.unwrap_or(usize::MAX))
    }

    /// Returns whether a scalar has the line end that was added.
    pub(super) fn is_in(&self, text: &str, style: ScalarStyle, end: usize) -> bool {
        is_block(style) && text.ends_with('\n') && self.added.is_some_and(|added| end >= added)
    }
}

fn last_scalar(text: &str) -> Option<String> {
    let parsed = |text: &str| {
        let mut last = None;
        for event in Parser::new_from_str(text) {
            if let Event::Scalar(scalar, ..) = event.ok()?.0 {
                last = Some(scalar.into_owned());
            }
        }
        last
    };
    parsed(text).or_else(|| parsed(&joined(text).text))
}
