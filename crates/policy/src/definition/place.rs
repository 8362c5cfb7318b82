//! The places of values in the tree of a policy.

use crate::definition::{Definition, Rule};
use crate::interpolation::text_of;
use crate::source::at_line;
use fabric_yaml::{Content, Entry, Node, Span};

/// A step from a value of the tree to one in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    Key(String),
    /// The entry of a list whose field has this value; without a field, the entry that is this string.
    Item(&'static str, String),
}

/// A path of keys.
pub fn keys<'k>(path: impl IntoIterator<Item = &'k str>) -> Vec<At> {
    path.into_iter().map(|key| At::Key(key.to_owned())).collect()
}

/// The entries of a map, none for another value.
pub fn entries(node: Option<&Node>) -> &[Entry<Node>] {
    match node.map(|node| &node.content) {
        Some(Content::Map(entries)) => entries,
        _ => &[],
    }
}

/// The place of a value, or else of the last step to it that the tree has.
pub(crate) fn span_in(mut node: &Node, path: &[At]) -> Span {
    let mut span = node.span;
    for at in path {
        let next = match at {
            At::Key(key) => node.entry(key).map(|entry| (&entry.value, entry.span)),
            At::Item(key, value) => item(node, key, value).map(|node| (node, node.span)),
        };
        let Some((next, key_span)) = next else { break };
        node = next;
        // The span of a map or list is that of its first character.
        span = match (at, &node.content) {
            (At::Item(key, _), _) => node.get(key).map_or(node.span, |key| key.span),
            (At::Key(_), Content::Scalar { .. }) => node.span,
            (At::Key(_), _) => key_span,
        };
    }
    span
}

fn item<'n>(node: &'n Node, key: &str, value: &str) -> Option<&'n Node> {
    let Content::List(items) = &node.content else { return None };
    let name = |item: &'n Node| if key.is_empty() { Some(item) } else { item.get(key) };
    items.iter().find(|item| name(item).is_some_and(|found| text_of(&found.to_value()) == value))
}

impl Definition {
    /// The place of a value of `spec`, or else of the last step to it that the files have.
    pub fn place(&self, path: &[At]) -> Span {
        span_in(&self.spec, path)
    }

    /// The place of the key of a parameter or variable.
    pub fn place_of_name(&self, name: &str) -> Span {
        let maps = ["variables", "parameters"].into_iter().filter_map(|map| self.spec.get(map));
        maps.filter_map(|map| map.entry(name)).map(|entry| entry.span).next().unwrap_or_default()
    }

    /// The place of the first write to an entry or else to a field of this name.
    pub fn place_of_written(&self, name: &str) -> Option<Span> {
        let mut writes = self.rules.iter().flat_map(Rule::writes);
        let write = writes.find(|write| write.name().unwrap_or(write.field.name) == name)?;
        Some(write.span())
    }

    /// The file that has a place, and the line in it: that of the policy, of one that it extends or of a part.
    pub fn line_in_file(&self, span: Span) -> (&str, usize) {
        let (at, line) = at_line(&self.sources, span.line);
        (self.sources.get(at).map_or("", |source| &source.file), line)
    }

    /// Returns whether a place is in the file of a policy that this one extends.
    pub fn is_of_base(&self, span: Span) -> bool {
        span.line > 0 && at_line(&self.sources, span.line).0 < self.bases().len()
    }
}
