//! The lines of the fields of a document.

use fabric_workloads::manifest::{Document, RawDocument};
use fabric_yaml::pointer::unescape;
use fabric_yaml::{Content, Node, read_node_with_duplicates};

/// A document with the line of each field.
#[derive(Debug)]
pub struct Lines {
    root: Option<Node>,
    /// The lines of the stream before the text.
    before: usize,
}

impl Lines {
    /// The lines of a document that was read.
    pub fn new(piece: &RawDocument, document: &Document) -> Self {
        let text = std::str::from_utf8(&piece.bytes).unwrap_or_default();
        let (mark, text) = text.split_at(document.mark);
        let before = piece.line - 1 + mark.matches('\n').count();
        Self { root: read_node_with_duplicates(text).ok().flatten(), before }
    }

    /// The line of the stream that has the field at a JSON Pointer, or else the nearest field around it.
    pub fn line(&self, pointer: &str) -> usize {
        let mut node = self.root.as_ref();
        let mut line = node.map_or(1, |root| root.span.line);
        // The content of a string is on the line of the string.
        let pointer = pointer.split('#').next().unwrap_or_default();
        for token in pointer.split('/').skip(1) {
            let token = unescape(token);
            let next = match node.map(|node| &node.content) {
                Some(Content::Map(entries)) => entries
                    .iter()
                    .rfind(|entry| *entry.key == *token)
                    .map(|entry| (entry.span.line, &entry.value)),
                Some(Content::List(items)) => {
                    token.parse().ok().and_then(|at: usize| items.get(at)).map(|item| (item.span.line, item))
                }
                _ => None,
            };
            let Some((next_line, value)) = next else { break };
            (line, node) = (next_line, Some(value));
        }
        self.before + line.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a pointer in a document that begins on line 11 of its stream.
    fn line(text: &str, pointer: &str) -> usize {
        let piece = RawDocument { line: 11, ..RawDocument::new(text.as_bytes().to_vec()) };
        let document = Document::read(&piece).unwrap();
        Lines::new(&piece, &document).line(pointer)
    }

    #[test]
    fn a_field_has_the_line_of_its_key() {
        let text = "---\n# a comment\nspec:\n  list:\n  - name: a\n    x/y: 1\n  - {name: b}\n";
        assert_eq!(line(text, ""), 13);
        assert_eq!(line(text, "/spec/list"), 14);
        assert_eq!(line(text, "/spec/list/0/x~1y"), 16);
        assert_eq!(line(text, "/spec/list/1/name"), 17);
    }

    #[test]
    fn what_is_not_there_has_the_line_of_what_is_around_it() {
        let text = "spec:\n  list:\n  - name: a\n";
        for (pointer, wanted) in [("/spec/list/7", 12), ("/spec/list/0/name/x", 13), ("/status", 11)] {
            assert_eq!(line(text, pointer), wanted, "{pointer}");
        }
        assert_eq!(line("spec:\n  text: |\n    a: b\n", "/spec/text#/a"), 12);
        assert_eq!(line("{\n \"spec\": {\n  \"a\": 1}}", "/spec/a"), 13);
        assert_eq!(line("\u{feff}---\n\u{feff}a: 1\n", "/a"), 12);
    }
}
