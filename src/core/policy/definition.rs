//! A policy file, read and compiled, before its parameters have values.

use super::interpolation::Interpolation;
use super::matcher::Matcher;
use super::node::NodeLabels;
use super::overlay::{Instructions, PodOverlay};
use super::parameter::Parameter;
use super::phase::{Names, Phase};

/// A policy as its file declares it.
#[derive(Debug)]
pub struct Definition {
    /// The name of the file, for messages.
    pub file: String,
    /// The text of the file.
    pub text: String,
    /// `metadata.name`.
    pub name: String,
    /// The key of the provider's block in a values file.
    pub provider: String,
    /// One sentence for `policies`.
    pub description: String,
    /// The values that an operator can set.
    pub parameters: Vec<Parameter>,
    pub(crate) gpu_resources: Vec<String>,
    pub(crate) node_labels: NodeLabels,
    pub(crate) matcher: Matcher,
    pub(crate) variables: Vec<Variable>,
    pub(crate) warnings: Vec<PolicyWarning>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) names: Names,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: Interpolation,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) struct PolicyWarning {
    pub(crate) code: String,
    pub(crate) when: Interpolation,
    pub(crate) message: Interpolation,
}

/// The treatment of a value of the pod that differs from the policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The pod's value stays and is reported.
    #[default]
    Keep,
    /// The policy's value replaces it.
    Replace,
    /// The pod is refused.
    Refuse,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) when: Option<Interpolation>,
    pub(crate) containers: Option<Interpolation>,
    pub(crate) requires_pod_network: bool,
    pub(crate) on_conflict: OnConflict,
    pub(crate) container: Instructions,
    pub(crate) pod: PodOverlay,
}

impl Definition {
    /// The annotations that trigger the policy, each with its value.
    pub fn triggers(&self) -> &[(String, String)] {
        &self.matcher.any_annotation
    }

    /// The names of the resources that count as GPUs.
    pub fn gpu_resources(&self) -> &[String] {
        &self.gpu_resources
    }

    /// The codes of the warnings that the policy declares.
    pub fn warning_codes(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(|warning| warning.code.as_str())
    }

    /// Calls `visit` with every interpolation of the policy.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.variables.iter().for_each(|variable| visit(&variable.value));
        for warning in &self.warnings {
            visit(&warning.when);
            visit(&warning.message);
        }
        self.rules.iter().for_each(|rule| rule.texts(visit));
    }
}

impl Rule {
    /// Calls `visit` with every interpolation of the rule.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.when.iter().chain(&self.containers).for_each(&mut *visit);
        self.container.iter().for_each(|instruction| instruction.texts(visit));
        self.pod.texts(visit);
    }
}
