//! The comments of a YAML text.

use std::ops::Range;

use super::super::tokens::is_block;
use super::{Kind, Layout};

impl<'t> Layout<'t> {
    /// The comments in a part of the text, in order, each with its position.
    pub(crate) fn comments(&self, part: Range<usize>) -> Vec<(usize, &'t str)> {
        if !self.text[part.clone()].contains('#') {
            return Vec::new();
        }
        let scalars = self.scalars();
        let mut found = Vec::new();
        let mut at = part.start;
        while let Some(hash) = self.text[at..part.end].find('#') {
            let hash = at + hash;
            at = hash + 1;
            let before = scalars.partition_point(|scalar| scalar.start <= hash);
            let in_scalar = before > 0 && scalars[before - 1].contains(&hash);
            if !in_scalar && (hash == 0 || self.text.as_bytes()[hash - 1].is_ascii_whitespace()) {
                let comment = self.rest_of_line(hash);
                at = (hash + comment.len()).min(part.end);
                found.push((hash, comment.trim_end()));
            }
        }
        found
    }

    /// The parts of the text where a `#` does not begin a comment.
    fn scalars(&self) -> Vec<Range<usize>> {
        let mut scalars: Vec<Range<usize>> = Vec::new();
        for node in &self.nodes {
            match &node.kind {
                Kind::Scalar { style, .. } if is_block(*style) => {
                    scalars.push(self.next_line(node.content + 1)..node.range.end);
                }
                Kind::Scalar { .. } => scalars.push(node.content..node.range.end),
                Kind::Map { entries, .. } => {
                    scalars.extend(entries.iter().map(|entry| entry.key_range.clone()));
                }
                Kind::Alias { .. } | Kind::List { .. } => {}
            }
        }
        scalars.sort_by_key(|scalar| scalar.start);
        scalars
    }
}
