//! Numbers and lists of things, in messages.

use std::fmt::Display;

/// The number and the noun, as in `1 item` or `2 items`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {one}{end}")
}

/// Each of some things once, in the order in which they come first.
pub fn each_once<T: PartialEq>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for thing in things {
        if !found.contains(&thing) {
            found.push(thing);
        }
    }
    found
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
