//! Positions in a text.

/// A range of characters in a line. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The line number.
    pub line: usize,
    /// The column of the first character.
    pub column: usize,
    /// The number of characters, at least 1.
    pub length: usize,
}
