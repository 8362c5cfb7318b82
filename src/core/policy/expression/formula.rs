//! Conditions as combinations of tests, for the question which of them can hold together.

use std::collections::BTreeSet;

use super::Expression;
use super::types::Type;
use crate::core::yaml::Span;

/// The meaning of the names in conditions.
pub(crate) trait Meanings {
    fn type_of(&self, name: &str) -> Type;
    /// The expression that a variable stands for.
    fn definition(&self, name: &str) -> Option<&Expression>;
}

/// A condition as a combination of tests.
#[derive(Debug, Clone)]
pub(crate) enum Formula {
    Constant(bool),
    Test(Box<Test>),
    All(Vec<Formula>),
    Any(Vec<Formula>),
}

/// A test of one value.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    /// The value, in one spelling for all expressions.
    pub(crate) term: String,
    /// The type of the value.
    pub(crate) inferred: Type,
    pub(crate) claim: Claim,
    pub(crate) negated: bool,
    /// True if `source` is the opposite of the test.
    pub(super) reversed: bool,
    /// The names on which the value depends, and the paths within `pod`, `container` and `node`.
    pub(crate) roots: BTreeSet<String>,
    /// The test as the expression has it, or its opposite.
    pub(super) source: String,
    pub(crate) span: Span,
}

/// A statement about a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Claim {
    /// It is `true`.
    Holds,
    /// It is one of these.
    OneOf(Vec<Constant>),
    Below(f64),
    AtMost(f64),
    StartsWith(String),
}

/// A literal of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
}

/// A part of an expression whose parts are combined by `&&` or by `||`.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) formula: Formula,
    /// True for `&&`.
    pub(crate) is_and: bool,
    pub(crate) source: String,
    pub(crate) span: Span,
}

impl Test {
    /// A statement about a name, which no expression makes.
    pub(crate) fn fact(name: &str, inferred: Type, claim: Claim, source: String) -> Self {
        let roots = BTreeSet::from([name.to_owned()]);
        let (term, span) = (name.to_owned(), Span::default());
        Self { term, inferred, claim, negated: false, reversed: false, roots, source, span }
    }

    /// The test for a message.
    pub(crate) fn shown(&self) -> String {
        let is_simple = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.?'[]".contains(c));
        match (self.reversed, self.source.strip_prefix('!')) {
            (false, _) => self.source.clone(),
            (true, Some(inner)) if is_simple(inner) => inner.to_owned(),
            (true, _) if is_simple(&self.source) => format!("!{}", self.source),
            (true, _) => format!("!({})", self.source),
        }
    }

    /// Returns whether the value depends on one of these names.
    fn depends_on(&self, names: &[&str]) -> bool {
        self.roots.iter().any(|root| names.contains(&root.split('\u{0}').next().unwrap_or_default()))
    }

    /// The opposite of the test.
    #[must_use]
    pub(crate) fn opposite(self) -> Self {
        Self { negated: !self.negated, reversed: !self.reversed, ..self }
    }
}

impl Formula {
    /// The condition without its tests of these names, as if they held.
    pub(crate) fn without(self, roots: &[&str]) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.without(roots)).collect();
        match self {
            Self::Test(test) if test.depends_on(roots) => Self::Constant(true),
            Self::All(parts) => Self::All(all(parts)),
            Self::Any(parts) => Self::Any(all(parts)),
            other => other,
        }
    }

    #[must_use]
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(!value),
            Self::Test(test) => Self::Test(Box::new(test.opposite())),
            Self::All(parts) => Self::Any(parts.into_iter().map(Self::negated).collect()),
            Self::Any(parts) => Self::All(parts.into_iter().map(Self::negated).collect()),
        }
    }
}
