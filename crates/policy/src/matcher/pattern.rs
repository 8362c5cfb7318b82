//! Names in which a `*` matches any text.

use std::fmt;

/// A name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    start: String,
    /// The texts after each `*`.
    rest: Vec<String>,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        self.rest.iter().try_for_each(|part| write!(f, "*{part}"))
    }
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let mut parts = text.split('*').map(str::to_owned);
        Self { start: parts.next().unwrap_or_default(), rest: parts.collect() }
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some((end, middle)) = self.rest.split_last() else { return name == self.start };
        let Some(mut rest) = name.strip_prefix(self.start.as_str()) else { return false };
        for part in middle {
            let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
            rest = after;
        }
        rest.ends_with(end.as_str())
    }

    /// The text before the first `*`.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Returns whether the pattern matches every name.
    pub(crate) fn is_any(&self) -> bool {
        self.start.is_empty() && self.rest == [""]
    }

    pub(crate) fn stars(&self) -> usize {
        self.rest.len()
    }

    /// The order of patterns with at most one `*` that match one name: the name itself is the greatest, then the
    /// pattern with the most characters, then with the most before the `*`. No two of them are equal.
    pub(crate) fn precedence(&self) -> impl Ord + use<> {
        let end = self.rest.iter().map(String::len).sum::<usize>();
        (self.rest.is_empty(), self.start.len() + end, self.start.len())
    }

    /// A name that matches.
    pub fn example(&self) -> String {
        self.to_string().replace('*', "x")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches("rdma/ib", "rdma/ib") && !matches("rdma/ib", "rdma/ib0"));
        assert!(
            matches("rdma/*", "rdma/ib")
                && matches("rdma/*", "rdma/")
                && !matches("rdma/*", "nvidia.com/rdma")
        );
        assert!(matches("*-channel", "job-channel") && !matches("*-channel", "channel"));
        assert!(matches("a*b", "ab") && matches("a*b", "a-b") && !matches("ab*ba", "aba"));
        assert!(matches("*nic*", "nic") && matches("*nic*", "8nic-all") && !matches("*nic*", "ni-c"));
        assert!(matches("a*b*a", "a-b-a") && !matches("a*b*a", "aba-b") && !matches("*ab*ba*", "aba"));
    }
}
