//! A definition: a policy file that was read and checked, before its parameters have values.
//!
//! A [`Definition`] keeps the place of each part of its file. It is made in `file`, checked in `check`, and gets its
//! values in `policy`.

mod checks;
mod device_names;
mod place;
pub(crate) mod precedence;
mod rule;
mod settings_files;

pub use checks::{About, Effect, PolicyCheck};
pub(crate) use device_names::{ClaimNames, DeviceList, DeviceNames, Gpus};
pub use place::{At, entries, keys};
pub use precedence::{Ordered, Owners};
pub use rule::{AddsDevices, Containers, OnConflict, Rule};
pub use settings_files::{SettingsFile, includes};

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::from_nodes::{Fact, FromNodes};
use crate::interpolation::{Interpolation, Names, first_read, names_in};
use crate::matcher::{Matcher, NodeMatch};
use crate::overlay::Write;
use crate::parameter::{Parameter, Variable};
use crate::source::{Diagnostic, SourceError, SourceFile, TOO_COSTLY};
use crate::work::Ended;
use fabric_yaml::{Node, Span};

/// The source of the work of loading, in messages.
pub const POLICIES_IN_USE: &str = "loading the policies in use";

/// A policy as its file declares it.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name of the file, for messages.
    pub file: String,
    /// The files that it consists of, each after those that it extends; its own is the last one.
    pub sources: Vec<SourceFile>,
    /// The name of the policy that it extends.
    pub extends: Option<String>,
    /// The place of that name.
    pub(crate) extends_span: Span,
    /// `metadata.name`.
    pub name: String,
    /// The key of the provider's block in a values file.
    pub provider: String,
    /// The nodes of the provider, if policies of several providers are in use.
    pub provider_nodes: Option<NodeMatch>,
    /// One sentence for `policy list`.
    pub description: String,
    /// The values that an operator can set.
    pub parameters: Vec<Parameter>,
    pub gpus: Gpus,
    pub(crate) device_list: Option<DeviceList>,
    pub matcher: Matcher,
    pub variables: Vec<Variable>,
    /// The facts about nodes that `offeredName` and `offeredNames` request, by the call.
    pub(crate) offered: Vec<Parameter>,
    pub checks: Vec<PolicyCheck>,
    pub rules: Vec<Rule>,
    pub files: Vec<SettingsFile>,
    pub names: Names,
    /// The tree that the parser read, of a policy that extends others with theirs.
    pub spec: Node,
}

impl Definition {
    /// Returns whether the policy has entries of `devices.add`.
    pub(crate) fn adds_devices(&self) -> bool {
        self.rules.iter().any(|rule| rule.device.is_some())
    }

    /// The files that it extends.
    pub fn bases(&self) -> &[SourceFile] {
        self.sources.split_last().map_or(&[], |(_, bases)| bases)
    }

    /// The texts of the policies that it extends, and its own.
    pub(super) fn texts_of_files(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.sources.iter().map(|source| &*source.text)
    }

    /// An error at its place, which is in the file of the policy or of one that it extends.
    pub fn error(&self, mut diagnostic: Diagnostic) -> SourceError {
        if diagnostic.span.line == 0 {
            diagnostic.span = Span { line: 1, column: 1, length: 1 };
            return SourceError::in_files(&self.sources[self.bases().len()..], diagnostic);
        }
        SourceError::in_files(&self.sources, diagnostic)
    }

    /// The error for a policy with a step that takes too much work.
    pub fn too_costly(&self, what: &str, ended: Ended) -> SourceError {
        let message = match ended {
            Ended::Limit { steps } => format!("{what} takes more than {steps} steps of work"),
            Ended::Memory { bytes } => format!("{what} takes more than {} MiB of memory", bytes >> 20),
            Ended::Stopped => "the files changed while they were loaded".to_owned(),
        };
        let diagnostic = Diagnostic::error(TOO_COSTLY, self.place(&keys(["rules"])), message);
        self.error(diagnostic.hint("write fewer rules, values and machines, and no loop within a loop"))
    }

    /// Notes for each rule which parameters it depends on.
    pub(super) fn find_parameters_of_rules(&mut self) {
        let of = |rule: &Rule| {
            let mut names = BTreeSet::new();
            rule.texts(&mut |text| names.extend(names_in(text)));
            self.parameters_of(names)
        };
        let all: Vec<BTreeSet<String>> = self.rules.iter().map(of).collect();
        self.rules.iter_mut().zip(all).for_each(|(rule, parameters)| rule.parameters = parameters);
    }

    /// The items with values for nodes: the parameters, then those that no operator sets, which are the rows of
    /// variables and the resources of nodes.
    pub fn by_node(&self) -> impl Iterator<Item = &Parameter> {
        let columns = self.variables.iter().filter_map(|variable| variable.column.as_deref());
        self.parameters.iter().chain(columns).chain(&self.offered)
    }

    /// Notes the facts about nodes that the expressions use.
    pub(super) fn find_offered(&mut self) {
        let mut offered: BTreeMap<String, FromNodes> = BTreeMap::new();
        self.texts(&mut |text| offered.extend(text.expressions().flat_map(|one| one.offered.clone())));
        let parameter = |(call, fact): (String, FromNodes)| {
            let default = if fact.fact == Fact::Names { Value::Array(Vec::new()) } else { Value::Null };
            Parameter { name: call, default, from_nodes: Some(fact), ..Parameter::default() }
        };
        self.offered = offered.into_iter().map(parameter).collect();
    }

    /// Returns whether a rule may add a toleration of taints with this key.
    pub fn tolerates(&self, taint: &str) -> bool {
        let is_wanted = |write: Write<'_>| {
            write.path == ["spec", "tolerations"] && write.value.literal("key") == Some(taint)
        };
        self.rules.iter().flat_map(Rule::writes).any(is_wanted)
    }

    /// These names, and those that the variables among them read. A variable reads only those before it.
    pub fn with_names_of_variables(&self, mut names: BTreeSet<String>) -> BTreeSet<String> {
        add_names_of_variables(self.variables.iter(), &mut names);
        names
    }

    /// The parameters among these names, and those on which the variables among them depend.
    pub(super) fn parameters_of(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let mut names = self.with_names_of_variables(names);
        names.retain(|name| self.parameters.iter().any(|parameter| parameter.name == *name));
        names
    }

    /// Returns whether it extends another policy, directly or through others.
    pub fn is_extension_of(&self, base: &Self) -> bool {
        self.bases().iter().any(|file| file.policy == base.name)
    }

    /// The codes of the checks that only warn, or of those that decide about the pod.
    pub fn check_codes(&self, effects: &[Effect]) -> impl Iterator<Item = &str> {
        self.checks.iter().filter(|one| effects.contains(&one.effect)).map(|one| one.code.as_str())
    }

    /// Returns whether an expression of the policy reads a name.
    pub fn reads(&self, name: &str) -> bool {
        first_read(|known| known == name, |visit| self.texts(visit)).is_some()
    }

    /// Calls `visit` with every interpolation of the policy.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.variables.iter().for_each(|variable| variable.value.texts(visit));
        self.gpus.claims.texts(visit);
        self.device_list.iter().for_each(|list| list.texts(visit));
        self.matcher.when.iter().for_each(&mut *visit);
        self.checks.iter().for_each(|check| check.texts(visit));
        self.rules.iter().for_each(|rule| rule.texts(visit));
        self.files.iter().flat_map(|file| &file.when).for_each(visit);
    }
}

/// Adds the names that the variables among these names read. A variable reads only those before it.
pub(crate) fn add_names_of_variables<'v>(
    variables: impl DoubleEndedIterator<Item = &'v Variable>,
    names: &mut BTreeSet<String>,
) {
    for variable in variables.rev() {
        if names.contains(&variable.name) {
            variable.value.names(&mut |name| _ = names.insert(name.to_owned()));
        }
    }
}
