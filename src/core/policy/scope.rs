//! Which names an expression may read, and when their values are known.

use std::collections::BTreeMap;

use super::expression::Expression;

/// When a value is known. A later scope can read all earlier ones, but [`Scope::Container`] and
/// [`Scope::Final`] know nothing of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Parameters and the instance type: the same for every pod that selects it.
    Fixed,
    /// The pod as it came.
    Pod,
    /// One container of it.
    Container,
    /// The pod after its containers were served.
    Final,
}

impl Scope {
    /// Whether an expression that is evaluated in this scope can read a name of `other`.
    pub(crate) fn may_read(self, other: Scope) -> bool {
        other <= self && !(self == Scope::Final && other == Scope::Container)
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Scope::Fixed | Scope::Pod => "everywhere",
            Scope::Container => "for a container (`containers` and `container`)",
            Scope::Final => "once the containers were served (`pod` and `warnings`)",
        }
    }
}

/// The variables that the engine itself gives.
pub(crate) const BUILT_IN: &[(&str, Scope)] = &[
    ("instanceType", Scope::Fixed),
    ("pod", Scope::Pod),
    // Not `namespace`, which is a reserved word of CEL.
    ("podNamespace", Scope::Pod),
    ("hostNetwork", Scope::Pod),
    ("totalGpus", Scope::Pod),
    ("gpus", Scope::Container),
    ("container", Scope::Container),
    ("podRequests", Scope::Final),
];

/// Every name that an expression of a policy may read.
#[derive(Debug, Clone)]
pub(crate) struct Names(BTreeMap<String, Scope>);

impl Names {
    pub(crate) fn built_in() -> Self {
        Self(BUILT_IN.iter().map(|(name, scope)| ((*name).to_owned(), *scope)).collect())
    }

    /// Adds a name; false if it is taken.
    pub(crate) fn add(&mut self, name: &str, scope: Scope) -> bool {
        self.0.insert(name.to_owned(), scope).is_none()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Scope> {
        self.0.get(name).copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The latest scope among the names that an expression reads.
    pub(crate) fn scope_of(&self, expression: &Expression) -> Scope {
        expression.names().iter().filter_map(|name| self.get(name)).max().unwrap_or(Scope::Fixed)
    }
}
