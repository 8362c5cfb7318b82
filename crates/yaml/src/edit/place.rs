//! The places of nodes.

/// The place of a node, which decides how another value is written there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The whole document.
    Root,
    /// The value of a key in a block map.
    Entry {
        /// The column of the key.
        column: usize,
        /// The position after the colon.
        colon: usize,
    },
    /// An item of a block list.
    Item {
        /// The position of the `-`.
        dash: usize,
    },
    /// Inside brackets or braces.
    Flow,
}
