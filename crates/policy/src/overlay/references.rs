//! References to other variables in values of variables. The kubelet resolves one to an earlier variable only.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

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

/// The evaluated trees of a container, each with its rule, in which variables stand in front of those that refer to them.
pub fn in_order_of_references<R: Copy>(trees: Vec<(R, Tree)>) -> Vec<(R, Tree)> {
    let variables = |(at, (_, tree)): (usize, &(R, Tree))| {
        let variables = tree.get("env").map_or(&[][..], Tree::items).iter();
        variables
            .filter_map(move |tree| Some((at, tree.clone(), tree.as_value()?.clone())))
            .collect::<Vec<_>>()
    };
    let refers = |(_, tree): &(R, Tree)| {
        let mut variables = tree.get("env").map_or(&[][..], Tree::items).iter().filter_map(Tree::as_value);
        variables.any(|variable| text(variable).contains("$("))
    };
    if !trees.iter().any(refers) {
        return trees;
    }
    let all: Vec<(usize, Tree, Value)> = trees.iter().enumerate().flat_map(variables).collect();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, (.., variable)) in all.iter().enumerate() {
        by_name.entry(name(variable)).or_default().push(at);
    }
    let order = ordered(&all, &by_name);
    if order.is_sorted() {
        return trees;
    }
    let env = |at: usize| {
        let (rule, tree, _) = &all[at];
        let span = tree.span;
        let list = Tree { span, content: Content::List(vec![tree.clone()]) };
        (trees[*rule].0, Tree::map(span, vec![Entry::new("env", span, list)]))
    };
    let first: Vec<(R, Tree)> = order.into_iter().map(env).collect();
    let others = trees.into_iter().map(|(rule, mut tree)| {
        if let Content::Map(entries) = &mut tree.content {
            entries.retain(|entry| entry.name() != Some("env"));
        }
        (rule, tree)
    });
    first.into_iter().chain(others).collect()
}

/// The positions of the variables, those that others refer to first. All entries of one name stand together.
fn ordered(all: &[(usize, Tree, Value)], by_name: &HashMap<&str, Vec<usize>>) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::with_capacity(all.len()), HashSet::new());
    let references_of = |name: &str| {
        let values = by_name[name].iter().map(|at| text(&all[*at].2));
        values.flat_map(references).filter(|other| by_name.contains_key(other)).collect::<Vec<_>>()
    };
    for (.., variable) in all {
        let start = name(variable);
        if !seen.insert(start) {
            continue;
        }
        let mut stack = vec![(start, references_of(start))];
        while let Some((present, left)) = stack.last_mut() {
            match left.pop() {
                Some(next) if seen.insert(next) => stack.push((next, references_of(next))),
                Some(_) => {}
                None => {
                    order.extend(&by_name[*present]);
                    stack.pop();
                }
            }
        }
    }
    order
}

fn name(variable: &Value) -> &str {
    variable["name"].as_str().unwrap_or_default()
}

/// The value of a variable, or the entry that an edit adds.
fn text(variable: &Value) -> &str {
    let value = &variable["value"];
    let edit = value.as_object().and_then(|edit| edit.values().next());
    edit.unwrap_or(value).as_str().unwrap_or_default()
}
