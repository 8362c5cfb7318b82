//! The record of an injection for commands that explain or measure a policy: the conditions that were evaluated, the
//! rules that applied to each container, and the outcome for each of their values, noted where the engine decides it.
//!
//! The engine notes nothing of this unless its caller requests a [`Trace`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, Interpolation};
use fabric_policy::matcher::Selection;
use fabric_policy::{PolicyCheck, ResolvedPolicy};
use fabric_yaml::pointer::field_path;

use super::evaluated::{ConditionFact, ContainerGpus, EvaluatedCheck, EvaluatedRule, ScopeOf, VariableIn};
use super::report::{Warning, WarningKind};

/// The part of the policy that changes a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Author {
    /// The rule of this name.
    Rule(String),
    /// The entry of `files` with this path.
    File(String),
    /// No part of the policy: the annotation that names it.
    #[default]
    Stamp,
}

impl Author {
    /// The name of the rule or the path of the file; empty for the stamp.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Rule(name) | Self::File(name) => name,
            Self::Stamp => "",
        }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Stamp => f.write_str("stamp"),
        }
    }
}

/// The outcomes for a value of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldState {
    /// The value was added.
    Added,
    /// The value replaced the pod's.
    Replaced,
    /// The pod has the value, or another rule added it.
    Present,
    /// The pod has another value, which stays.
    Kept,
    /// The value is not in the result.
    LeftOut,
}

/// The outcome for one value of the policy.
#[derive(Debug)]
pub struct FieldOutcome {
    pub author: Author,
    /// JSON Pointer to the value; for one that is left out, to the place where it would be.
    pub pointer: String,
    pub state: FieldState,
    because: Because,
}

/// The reason for an outcome.
#[derive(Debug)]
pub(crate) enum Because {
    Warning(WarningKind),
    /// The value belongs to the rule of this name.
    Precedence(String),
    /// A sentence; empty for a value that was added.
    Text(String),
}

impl FieldOutcome {
    /// The reason for a state other than [`FieldState::Added`]. `pod` is the result.
    pub fn because(&self, pod: &Value) -> Option<String> {
        match &self.because {
            Because::Warning(kind) => {
                let (path, rule) = (field_path(pod, &self.pointer), self.author.name().to_owned());
                Some(Warning { path, kind: kind.clone(), rule }.to_string())
            }
            Because::Precedence(rule) => Some(format!("rule `{rule}` takes precedence")),
            Because::Text(text) => (!text.is_empty()).then(|| text.clone()),
        }
    }

    /// The rule that takes precedence.
    pub(crate) fn preceded_by(&self) -> Option<&str> {
        if let Because::Precedence(rule) = &self.because { Some(rule) } else { None }
    }

    fn is_written(&self) -> bool {
        matches!(self.state, FieldState::Added | FieldState::Replaced)
    }
}

/// The nodes of a pod, as far as a policy reads them, and the policy for them.
pub type Resolved = (Selection, Arc<ResolvedPolicy>);

/// A policy whose condition was evaluated for a pod.
#[derive(Debug)]
pub struct LookedAt {
    /// The policy has the values of the parameters, and where they are from.
    pub of: Resolved,
    /// The condition of the policy.
    pub when: Option<ConditionFact>,
}

/// The record of the choice of the policy for a pod, and of its injection.
#[derive(Debug, Default)]
pub struct Trace {
    /// By name.
    pub looked_at: HashMap<String, LookedAt>,
    /// The name of the policy that was chosen.
    pub chosen: Option<String>,
    pub containers: Vec<ContainerGpus>,
    /// The rules of the policy, in the first pass. Empty as long as they are not evaluated.
    pub rules: Vec<EvaluatedRule>,
    /// The entries of `files`.
    pub files: Vec<EvaluatedRule>,
    /// The checks, in the first pass.
    pub checks: Vec<EvaluatedCheck>,
    pub variables: Vec<VariableIn>,
    /// In the order of the decisions.
    pub outcomes: Vec<FieldOutcome>,
    /// True in a later pass.
    is_again: bool,
    /// The current author.
    pub(crate) author: Author,
    /// The indexes in `outcomes` by JSON Pointer.
    places: HashMap<String, Vec<usize>>,
}

impl Trace {
    /// Notes that the current author wrote a value.
    pub(super) fn wrote(&mut self, pointer: &str) {
        if !self.known(pointer).any(|known| known.is_written() && known.author == self.author) {
            self.add(pointer, FieldState::Added, Because::Text(String::new()));
        }
    }

    /// Notes a decision that the report has a warning about.
    pub(super) fn warned(&mut self, pointer: &str, kind: &WarningKind) {
        let state = match kind {
            WarningKind::Kept { .. } => FieldState::Kept,
            WarningKind::Replaced { .. } => FieldState::Replaced,
            WarningKind::HostNetwork => FieldState::LeftOut,
            kind if kind.is_left_out() => FieldState::LeftOut,
            _ => return,
        };
        self.add(pointer, state, Because::Warning(kind.clone()));
    }

    /// Notes that a value already exists, unless the current author has written it or decided about it.
    pub(super) fn present(&mut self, pointer: &str) {
        if self.known(pointer).any(|known| known.author == self.author) {
            return;
        }
        let around = pointer.match_indices('/').map(|(end, _)| &pointer[..end]).chain([pointer]);
        let written = |at| self.known(at).filter(|known| known.is_written()).last();
        let because = match around.rev().find_map(written).map(|known| &known.author) {
            Some(author) if *author == self.author => return,
            Some(author) => format!("{author} has set it"),
            None => "the pod has it".to_owned(),
        };
        self.add(pointer, FieldState::Present, Because::Text(because));
    }

    /// Notes the value of the last condition of a check. `own` is that of the variable that it is about.
    pub(crate) fn checked(
        &mut self,
        check: &PolicyCheck,
        scope: ScopeOf,
        condition: &Interpolation,
        holds: &Result<bool, EvaluationError>,
        own: Option<&Value>,
    ) {
        if !self.is_again {
            let (code, span) = (check.code.clone(), check.span);
            let fact = ConditionFact::without_reads(condition, holds);
            let (condition, own) = (condition.clone(), own.cloned());
            self.checks.push(EvaluatedCheck { code, span, scope, fact, condition, own });
        }
    }

    /// Notes the values that the checks of a scope read. Only for a scope in which nothing else is evaluated: a variable
    /// that fails here has no consequence.
    pub(crate) fn read(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        let of_scope = self.checks.iter_mut().filter(|check| check.scope == scope);
        of_scope.for_each(|check| check.read(bindings));
    }

    /// Starts another pass, which decides again about everything that is not written.
    pub(crate) fn start_again(&mut self) {
        self.is_again = true;
        self.outcomes.retain(FieldOutcome::is_written);
        self.places.clear();
        for (at, outcome) in self.outcomes.iter().enumerate() {
            self.places.entry(outcome.pointer.clone()).or_default().push(at);
        }
    }

    /// The last author of a value, of something around it or in it.
    pub(crate) fn author_of(&self, pointer: &str) -> Option<&Author> {
        let is_of = |known: &&FieldOutcome| {
            known.is_written() && (known.pointer.starts_with(pointer) || pointer.starts_with(&known.pointer))
        };
        self.outcomes.iter().rev().find(is_of).map(|known| &known.author)
    }

    /// The outcomes for the value at a JSON Pointer.
    fn known(&self, pointer: &str) -> impl Iterator<Item = &FieldOutcome> {
        self.places.get(pointer).into_iter().flatten().map(|at| &self.outcomes[*at])
    }

    pub(super) fn add(&mut self, pointer: &str, state: FieldState, because: Because) {
        let places = self.places.entry(pointer.to_owned()).or_default();
        places.push(self.outcomes.len());
        let (author, pointer) = (self.author.clone(), pointer.to_owned());
        self.outcomes.push(FieldOutcome { author, pointer, state, because });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_there_names_who_wrote_it_or_something_around_it() {
        let mut trace = Trace::default();
        for (rule, pointer) in [("a", "/spec/x/0"), ("a", "/spec/x"), ("b", "/spec/x/1"), ("c", "/spec/xy")] {
            trace.author = Author::Rule(rule.to_owned());
            trace.wrote(pointer);
        }
        trace.author = Author::Rule("d".to_owned());
        for pointer in ["/spec/x/0/name", "/spec/x/1", "/spec/xy/z", "/spec"] {
            trace.present(pointer);
        }
        let because = |outcome: &FieldOutcome| outcome.because(&Value::Null).unwrap_or_default();
        let present: Vec<String> = trace.outcomes.iter().skip(4).map(because).collect();
        assert_eq!(
            present,
            ["rule a has set it", "rule b has set it", "rule c has set it", "the pod has it"]
        );
        trace.start_again();
        trace.wrote("/spec/xy");
        trace.present("/spec/xy");
        assert_eq!(trace.outcomes.len(), 5, "{trace:?}");
    }
}
