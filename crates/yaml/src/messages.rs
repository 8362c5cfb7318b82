//! Numbers and lists of things, in messages.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

/// The number and the noun, as in `1 item` or `2 items`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {one}{end}")
}

/// Each of some things once, in the order in which they come first.
pub fn each_once<T: Eq + Hash + Clone>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = HashSet::new();
    things.into_iter().filter(|thing| known.insert(thing.clone())).collect()
}

/// The first of some names in backticks, and the number of the others.
pub fn first_names(names: impl IntoIterator<Item = impl Display>, shown: usize) -> String {
    let all: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = all.len().saturating_sub(shown);
    let shown = all[..all.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::{counted, each_once};

    #[test]
    fn a_thing_that_comes_again_keeps_its_first_place() {
        assert_eq!(each_once(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "item")), ["0 items", "1 item", "2 items"]);
    }
}
