//! An optional record of an injection: which rules applied to which containers, and which of them wrote each value.
//!
//! The engine records nothing of this on its own. [`inject_traced`](super::inject_traced) gives the change log a
//! [`Trace`] to fill, for commands that explain or measure a policy.

/// The part of a policy that changes a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Author {
    /// The rule of this name.
    Rule(String),
    /// The settings of this name.
    Settings(String),
    /// No part of the policy: the stamp.
    #[default]
    Engine,
}

impl Author {
    /// The name of the rule or the settings; empty for the engine.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Rule(name) | Self::Settings(name) => name,
            Self::Engine => "",
        }
    }
}

/// A rule that was injected for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) rule: String,
    /// `containers` or `initContainers`.
    pub(crate) list: &'static str,
    pub(crate) index: usize,
}

/// The record of the injection of one pod.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The rules and the containers that they select, in the first pass.
    pub(crate) applied: Vec<Applied>,
    /// The rules that are left out, because the pod uses the host network.
    pub(crate) left_out: Vec<String>,
    /// The current author.
    pub(in crate::core::engine) author: Author,
    /// The values that were written, in order: author and JSON Pointer.
    writes: Vec<(Author, String)>,
}

impl Trace {
    pub(in crate::core::engine) fn wrote(&mut self, pointer: &str) {
        self.writes.push((self.author.clone(), pointer.to_owned()));
    }

    /// The author of the value at this JSON Pointer: the one that wrote it, or something that it is in, last.
    pub(crate) fn author_of(&self, pointer: &str) -> Option<&Author> {
        let contains = |written: &str| {
            pointer.strip_prefix(written).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.writes.iter().rev().find(|(_, written)| contains(written)).map(|(author, _)| author)
    }

    /// The authors that wrote the value at this JSON Pointer, the one that counts included, in order.
    pub(crate) fn authors_of(&self, pointer: &str) -> Vec<&Author> {
        let around = self.author_of(pointer);
        let here = self.writes.iter().filter(|(_, written)| written == pointer).map(|(author, _)| author);
        let mut found: Vec<&Author> = Vec::new();
        for author in here.chain(around) {
            if !found.contains(&author) {
                found.push(author);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_author_around_a_value_counts() {
        let mut trace = Trace::default();
        for (rule, pointer) in [("a", "/spec/x/0"), ("a", "/spec/x"), ("b", "/spec/x/1"), ("c", "/spec/xy")] {
            trace.author = Author::Rule(rule.to_owned());
            trace.wrote(pointer);
        }
        let author = |pointer: &str| trace.author_of(pointer).map(Author::name);
        assert_eq!(author("/spec/x/0/name"), Some("a"));
        assert_eq!(author("/spec/x/1/name"), Some("b"));
        assert_eq!(author("/spec/xy"), Some("c"));
        assert_eq!(author("/spec"), None);
    }
}
