//! A tree without some of the values that it sets.

use super::{Content, Entry, Tree};

/// The tree without these trees in it; `None` if that leaves a map without entries. One that its author wrote as empty
/// stays.
pub(crate) fn without(tree: &Tree, removed: &[&Tree]) -> Option<Tree> {
    if removed.iter().any(|one| std::ptr::eq(*one, tree)) {
        return None;
    }
    let content = match &tree.content {
        Content::Map(entries) if !entries.is_empty() => {
            let left = |entry: &Entry| Some(entry.with(without(&entry.value, removed)?));
            Content::Map(entries.iter().filter_map(left).collect())
        }
        Content::List(items) => {
            Content::List(items.iter().filter_map(|item| without(item, removed)).collect())
        }
        other => other.clone(),
    };
    let left = Tree { span: tree.span, content };
    (!left.is_empty() || tree.is_empty()).then_some(left)
}
