//! Names in which one `*` matches any text.

use std::fmt;

/// A name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    start: String,
    /// The text after the `*`; `None` without one.
    end: Option<String>,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        self.end.as_ref().map_or(Ok(()), |end| write!(f, "*{end}"))
    }
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (start, end) = match text.split_once('*') {
            Some((_, end)) if end.contains('*') => return Err(format!("`{text}` has more than one `*`")),
            Some((start, end)) => (start, Some(end.to_owned())),
            None => (text, None),
        };
        Ok(Self { start: start.to_owned(), end })
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match &self.end {
            None => name == self.start,
            Some(end) => {
                name.strip_prefix(self.start.as_str()).is_some_and(|rest| rest.ends_with(end.as_str()))
            }
        }
    }

    /// The order of patterns that match one name: the name itself is the greatest, then the pattern with the most
    /// characters, then with the most before the `*`. No two different patterns that match one name are equal.
    pub(super) fn precedence(&self) -> impl Ord + use<> {
        let end = self.end.as_ref().map_or(0, String::len);
        (self.end.is_none(), self.start.len() + end, self.start.len())
    }

    /// Returns whether every name matches.
    pub(super) fn is_any(&self) -> bool {
        self.start.is_empty() && self.end.as_deref() == Some("")
    }

    /// Returns whether the pattern names a namespace, too.
    pub(crate) fn has_namespace(&self) -> bool {
        self.start.contains('/') || self.end.as_ref().is_some_and(|end| end.contains('/'))
    }

    /// A name that matches.
    pub(crate) fn example(&self) -> String {
        self.end.as_ref().map_or_else(|| self.start.clone(), |end| format!("{}x{end}", self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_matches_any_text() {
        let matches = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().matches(name);
        assert!(matches("rdma/ib", "rdma/ib") && !matches("rdma/ib", "rdma/ib0"));
        assert!(
            matches("rdma/*", "rdma/ib")
                && matches("rdma/*", "rdma/")
                && !matches("rdma/*", "nvidia.com/rdma")
        );
        assert!(matches("*-channel", "job-channel") && !matches("*-channel", "channel"));
        assert!(matches("a*b", "ab") && matches("a*b", "a-b") && !matches("ab*ba", "aba"));
        assert!(Pattern::parse("a*b*").is_err());
    }
}
