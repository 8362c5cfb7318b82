//! Numbers of things, in messages.

use std::fmt::Display;

/// The number and the noun, as in `1 item` or `2 items`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {one}{end}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "item")), ["0 items", "1 item", "2 items"]);
    }
}
