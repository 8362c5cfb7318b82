//! The rules and warnings of a policy for certain parameter values.

use std::collections::BTreeSet;

use super::definition::{About, OnConflict};
use super::expression::Expression;
use super::interpolation::Interpolation;
use super::overlay::{Instructions, PodOverlay};

/// A rule whose condition is not false for these parameters.
#[derive(Debug)]
pub(crate) struct ActiveRule {
    pub(crate) name: String,
    pub(crate) when: Option<Interpolation>,
    pub(crate) containers: Option<Interpolation>,
    pub(crate) requires_pod_network: bool,
    pub(crate) on_conflict: OnConflict,
    pub(crate) container: Instructions,
    pub(crate) pod: PodOverlay,
    /// The parameters that it depends on.
    pub(crate) parameters: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct ActiveWarning {
    pub(crate) code: String,
    pub(crate) about: About,
    pub(crate) when: Interpolation,
    pub(crate) message: Interpolation,
}

impl ActiveRule {
    /// Calls `visit` with every interpolation of the rule.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.when.iter().chain(&self.containers).for_each(&mut *visit);
        self.pod.texts_with(&self.container, visit);
    }
}

/// The names that the expressions of a text read.
pub(super) fn names_in(text: &Interpolation) -> impl Iterator<Item = String> {
    text.expressions().flat_map(Expression::names).cloned()
}
