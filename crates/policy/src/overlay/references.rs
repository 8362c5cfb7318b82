//! References to other variables in values of variables. The kubelet resolves one to an earlier variable only.

use std::collections::HashMap;

use crate::source::LONGEST;

use super::{Content, Entry, Tree};

/// The names in `$(NAME)`; `$$(NAME)` is not a reference.
pub(crate) fn references(value: &str) -> impl Iterator<Item = &str> {
    value.match_indices("$(").filter_map(|(at, _)| {
        let dollars = value[..at].bytes().rev().take_while(|byte| *byte == b'$').count();
        let end = value[at..].bytes().take(LONGEST).position(|byte| byte == b')')?;
        dollars.is_multiple_of(2).then(|| &value[at + 2..at + end])
    })
}

/// The names of variables, each given with a value, those that others refer to first; and the first names that refer to
/// each other.
pub(crate) fn in_order<'v>(
    variables: impl Iterator<Item = (&'v str, &'v str)> + Clone,
) -> (Vec<&'v str>, Vec<&'v str>) {
    let mut values: HashMap<&str, Vec<&str>> = HashMap::new();
    variables.clone().for_each(|(name, value)| values.entry(name).or_default().push(value));
    let references_of = |name: &'v str| {
        let all = values[name].iter().flat_map(|value| references(value));
        (name, all.filter(|other| *other != name && values.contains_key(other)).collect::<Vec<_>>())
    };
    let (mut order, mut cycle) = (Vec::with_capacity(values.len()), Vec::new());
    // True once its references stand in front of it.
    let mut seen: HashMap<&str, bool> = HashMap::new();
    for (start, _) in variables {
        let mut stack = Vec::new();
        if !seen.contains_key(start) {
            seen.insert(start, false);
            stack.push(references_of(start));
        }
        while let Some((present, left)) = stack.last_mut() {
            let Some(next) = left.pop() else {
                seen.insert(present, true);
                order.push(*present);
                stack.pop();
                continue;
            };
            match seen.get(next) {
                None => {
                    seen.insert(next, false);
                    stack.push(references_of(next));
                }
                Some(false) if cycle.is_empty() => {
                    cycle = stack.iter().map(|(name, _)| *name).skip_while(|name| *name != next).collect();
                }
                Some(_) => {}
            }
        }
    }
    (order, cycle)
}

/// The evaluated trees of a container, each with its rule, in which variables stand in front of those that refer to them.
pub fn in_order_of_references<R: Copy>(trees: Vec<(R, Tree)>) -> Vec<(R, Tree)> {
    let of_tree = |(rule, tree): &(R, Tree)| {
        let (rule, variables) = (*rule, tree.get("env").map_or(&[][..], Tree::items));
        variables.iter().map(move |tree| (rule, tree.clone())).collect::<Vec<_>>()
    };
    let refers = |tree: &Tree| {
        tree.get("env").is_some_and(|env| env.items().iter().any(|one| text(one).contains("$(")))
    };
    if !trees.iter().any(|(_, tree)| refers(tree)) {
        return trees;
    }
    let all: Vec<(R, Tree)> = trees.iter().flat_map(of_tree).collect();
    let (order, _) = in_order(all.iter().map(|(_, variable)| (name(variable), text(variable))));
    let at: HashMap<&str, usize> = order.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
    let mut sorted: Vec<&(R, Tree)> = all.iter().collect();
    sorted.sort_by_key(|(_, variable)| at[name(variable)]);
    let env = |(rule, tree): (R, Tree)| {
        let span = tree.span;
        let list = Tree { span, content: Content::List(vec![tree]) };
        (rule, Tree::map(span, vec![Entry::new("env", span, list)]))
    };
    let first: Vec<(R, Tree)> = sorted.into_iter().cloned().map(env).collect();
    let others = trees.into_iter().map(|(rule, mut tree)| {
        if let Content::Map(entries) = &mut tree.content {
            entries.retain(|entry| entry.name() != Some("env"));
        }
        (rule, tree)
    });
    first.into_iter().chain(others).collect()
}

fn name(variable: &Tree) -> &str {
    variable.literal("name").unwrap_or_default()
}

/// The value of a variable, or the entry that an edit adds.
fn text(variable: &Tree) -> &str {
    let edit = variable.edit_at("value").and_then(|edit| edit.added.as_str());
    edit.or_else(|| variable.literal("value")).unwrap_or_default()
}
