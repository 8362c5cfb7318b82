//! The names that an expression can read, and when their values are known.

use std::collections::BTreeMap;

use super::built_in::BUILT_IN;
use super::phase::Phase;
use crate::expression::Expression;

/// The names that the expressions of a policy can read.
#[derive(Debug, Clone)]
pub struct Names {
    /// `None` for a variable whose phase is not yet known.
    declared: BTreeMap<String, Option<Phase>>,
    /// True if the declarations of names could not be read. Any other name is then taken for one that is
    /// known everywhere.
    pub(crate) has_unknown: bool,
}

impl Names {
    /// Those that the engine defines.
    pub(crate) fn built_in() -> Self {
        let declared = BUILT_IN.iter().map(|known| (known.name.to_owned(), Some(known.phase))).collect();
        Self { declared, has_unknown: false }
    }

    /// Adds a name; false if it is taken.
    pub(crate) fn add(&mut self, name: &str, phase: Phase) -> bool {
        self.declared.insert(name.to_owned(), Some(phase)).is_none()
    }

    /// Notes a variable whose phase is not yet known.
    pub(crate) fn announce(&mut self, name: &str) {
        self.declared.entry(name.to_owned()).or_default();
    }

    /// Returns whether there is such a name already, also if its phase is not known yet.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Phase> {
        self.declared.get(name).copied().flatten().or(self.has_unknown.then_some(Phase::Fixed))
    }

    /// The names that an expression of this phase can read, or one of any phase, and the variables whose phase is not
    /// yet known.
    pub(crate) fn readable(&self, phase: Option<Phase>) -> impl Iterator<Item = &str> + Clone {
        let is_readable = move |known: Phase| phase.is_none_or(|phase| phase.may_read(known));
        let readable = self.declared.iter().filter(move |(_, known)| known.is_none_or(is_readable));
        readable.map(|(name, _)| name.as_str())
    }

    /// The latest phase among the names that an expression reads.
    pub(crate) fn phase_of(&self, expression: &Expression) -> Phase {
        expression.names().iter().filter_map(|name| self.get(name)).max().unwrap_or(Phase::Fixed)
    }
}
