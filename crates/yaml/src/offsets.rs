//! The positions of characters in bytes: the parser counts characters.

pub(super) struct Offsets<'t> {
    text: &'t str,
    /// The byte of each [`Offsets::STEP`]th character. Empty if each character is one byte.
    bytes: Vec<usize>,
}

impl<'t> Offsets<'t> {
    const STEP: usize = 64;

    pub(super) fn new(text: &'t str) -> Self {
        let bytes = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().step_by(Self::STEP).map(|(at, _)| at).collect()
        };
        Self { text, bytes }
    }

    pub(super) fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() {
            return character.min(self.text.len());
        }
        let Some(start) = self.bytes.get(character / Self::STEP) else { return self.text.len() };
        let offset = self.text[*start..].char_indices().nth(character % Self::STEP);
        offset.map_or(self.text.len(), |(offset, _)| start + offset)
    }
}
