//! What samples of a policy are made of: its names, and the work that is left for trying.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use crate::core::policy::definition::{Definition, Rule};
use crate::core::policy::expression::types::Kind;
use crate::core::policy::expression::{Bindings, Expression};
use crate::core::policy::interpolation::{BUILT_IN, Interpolation, type_of};
use crate::core::policy::overlay::Template;
use crate::core::policy::parameter::{Parameter, VariableValue};

/// The work for all questions about a policy, in bytes of expressions that are read or evaluated.
const MAX_WORK: usize = 16 << 20;

/// The source of samples of a policy.
pub(in crate::core::policy::check) struct Samples<'d> {
    pub(in crate::core::policy::check) definition: &'d Definition,
    pub(in crate::core::policy::check) variables: HashMap<&'d str, usize>,
    pub(in crate::core::policy::check) parameters: HashMap<&'d str, &'d Parameter>,
    /// The built-in names with fields.
    pub(in crate::core::policy::check) objects: Vec<&'static str>,
    work: Cell<usize>,
    /// The condition of a rule without `containers`.
    has_gpus: Option<Interpolation>,
}

/// Values for the names that some expressions read.
pub(in crate::core::policy::check) struct Sample(
    pub(in crate::core::policy::check) Bindings<'static, 'static>,
);

impl Sample {
    /// The value of a condition; `None` if it has none.
    pub(in crate::core::policy::check) fn holds(&self, condition: &Interpolation) -> Option<bool> {
        condition.holds(&self.0).ok()
    }

    /// Returns whether all of the conditions hold.
    pub(in crate::core::policy::check) fn all_hold(&self, conditions: &[&Interpolation]) -> bool {
        conditions.iter().all(|condition| self.holds(condition) == Some(true))
    }

    /// The value of a template, if it has one; an error if it reads what the sample does not have.
    pub(in crate::core::policy::check) fn build(&self, template: &Template) -> Result<Option<Value>, ()> {
        template.build(&self.0).map_err(drop)
    }
}

impl<'d> Samples<'d> {
    pub(in crate::core::policy::check) fn of(definition: &'d Definition) -> Self {
        let has_fields = |name: &&str| {
            let known = type_of(name, &definition.gpus.resources);
            known.is_some_and(|known| {
                known.may_be(|kind| matches!(kind, Kind::Object(_) | Kind::Map(_) | Kind::Record(_)))
            })
        };
        let compiled =
            |source: &str| Expression::compile(source).ok().map(|one| Interpolation::Expression(one.into()));
        Self {
            definition,
            variables: definition
                .variables
                .iter()
                .enumerate()
                .filter(|(_, one)| one.column.is_none())
                .map(|(at, one)| (one.name.as_str(), at))
                .collect(),
            parameters: definition.by_node().map(|one| (one.name.as_str(), one)).collect(),
            objects: BUILT_IN.iter().map(|known| known.name).filter(has_fields).collect(),
            work: Cell::new(0),
            has_gpus: compiled("gpus > 0"),
        }
    }

    /// The conditions on which a rule applies to a container.
    pub(in crate::core::policy::check) fn conditions_of<'r>(
        &'r self,
        rule: &'r Rule,
    ) -> Vec<&'r Interpolation> {
        let containers = rule.containers.as_ref().or(self.has_gpus.as_ref());
        rule.when.iter().chain(containers).collect()
    }

    /// The keys of a table among the variables.
    pub(in crate::core::policy::check) fn keys(&self, name: &str) -> Vec<Value> {
        let value = self.variables.get(name).map(|at| &self.definition.variables[*at].value);
        let Some(VariableValue::Map(entries)) = value else { return Vec::new() };
        entries.iter().map(|(key, _)| key.as_str().into()).collect()
    }

    /// Counts work; `None` if it was too much.
    pub(in crate::core::policy::check) fn charge(&self, work: usize) -> Option<()> {
        self.work.set(self.work.get().saturating_add(work));
        (self.work.get() <= MAX_WORK).then_some(())
    }
}
