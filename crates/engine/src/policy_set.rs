//! The policies in use. `decision` chooses among them for a pod, and `mutate` injects it by the one.

mod assumed;
mod decision;
mod mutate;
mod providers;

pub use mutate::{mutate, mutate_traced};

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use serde_json::Value;

use crate::validate;
use crate::{
    CLAIMS, CONTAINER_LISTS, Mutation, NODES, Outcome, Reason, SKIPPED, STAMP, WITHOUT_FABRIC, is_device,
    skip,
};
use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::work::Work;
use fabric_policy::{
    Definition, Overrides, ParameterType, Policy, SourceErrors, check, choice_reads_writes,
    evaluated_policies,
};
use fabric_yaml::each_once;
use fabric_yaml::json::items;

/// Policies of one provider, or of several between which the nodes choose.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    /// The annotations that trigger a policy, and the escapes that may hide one in JSON; empty if a policy needs none.
    sought: Vec<Finder<'static>>,
    /// The names by which a container may have GPUs.
    gpus: Vec<Finder<'static>>,
    /// True if the nodes choose the provider for a pod.
    pub several_providers: bool,
    /// True if the choice of the policy may read fields that a policy writes.
    choice_may_change: bool,
}

/// An error in the policies, or in their combination.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Errors in them.
    #[error(transparent)]
    Source(#[from] SourceErrors),
    /// Two policies have the same name.
    #[error("two policies are called `{name}`, in {first} and {second}")]
    SameName { name: String, first: String, second: String },
    /// They have different providers.
    #[error(
        "policy `{first}` is for `{first_provider}` and `{second}` for `{second_provider}`; one provider at a time"
    )]
    DifferentProviders { first: String, first_provider: String, second: String, second_provider: String },
    /// A parameter has another type in another policy of the provider, so no value is valid for both.
    #[error(
        "the parameter `{name}` is {first}, and {second}; give it one type in all policies of the provider, or another name"
    )]
    ParameterTypes { name: String, first: String, second: String },
}

/// Checks the types of a policy's expressions, resolves it, and tries it on sample pods.
pub fn validated(
    definition: Definition,
    overrides: Overrides,
    loading: &Work,
) -> Result<Policy, SourceErrors> {
    let errors = check::errors(&definition);
    if !errors.is_empty() {
        return Err(SourceErrors::new(errors));
    }
    let policy = Policy::new(definition, overrides, loading)?;
    validate::policy(&policy, loading)?;
    Ok(policy)
}

/// Resolves a policy with other values, and tries it on one sample pod.
pub fn tried(definition: Definition, overrides: Overrides, loading: &Work) -> Result<(), SourceErrors> {
    validate::first(&Policy::new(definition, overrides, loading)?)
}

/// A policy with the values that the operator set for it.
pub type WithValues = (Definition, Overrides);

impl PolicySet {
    /// Resolves policies of one provider, each with the values that the operator set for it, and validates them.
    pub fn new(definitions: Vec<WithValues>) -> Result<Self, LoadError> {
        Self::load(definitions, false, |_| false, &Work::of_loading())
    }

    /// [`PolicySet::new`] for policies of several providers. The nodes that a pod can be scheduled to determine its
    /// provider.
    pub fn by_nodes(definitions: Vec<WithValues>) -> Result<Self, LoadError> {
        Self::load(definitions, true, |_| false, &Work::of_loading())
    }

    /// [`PolicySet::new`], or [`PolicySet::by_nodes`], for a caller that may stop the work, and that has policies that
    /// were tried before. Policies with their own values are not tried again.
    pub fn load(
        definitions: Vec<WithValues>,
        several_providers: bool,
        tried: impl Fn(&Definition) -> bool,
        loading: &Work,
    ) -> Result<Self, LoadError> {
        let providers: BTreeSet<&str> =
            definitions.iter().map(|(definition, _)| definition.provider.as_str()).collect();
        let several_providers = several_providers && providers.len() > 1;
        let mut set = Self { several_providers, ..Self::default() };
        let cache = evaluated_policies();
        let mut errors = Vec::new();
        for (definition, overrides) in definitions {
            if let Some(first) = set.policies.first().map(Policy::definition)
                && !several_providers
                && first.provider != definition.provider
            {
                return Err(LoadError::DifferentProviders {
                    first: first.name.clone(),
                    first_provider: first.provider.clone(),
                    second: definition.name.clone(),
                    second_provider: definition.provider.clone(),
                });
            }
            if let Some(same) = set.policies.iter().find(|policy| policy.name() == definition.name) {
                return Err(LoadError::SameName {
                    name: definition.name.clone(),
                    first: same.definition().file.clone(),
                    second: definition.file.clone(),
                });
            }
            set.check_types(&definition)?;
            let load = if overrides.is_empty() && tried(&definition) { Policy::new } else { validated };
            match load(definition, overrides, loading) {
                Ok(policy) => set.policies.push(policy.with_cache(&cache)),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() { Ok(set.with_triggers()) } else { Err(SourceErrors::new(errors).into()) }
    }

    /// Fails for a parameter that has another type in a policy of the set.
    fn check_types(&self, second: &Definition) -> Result<(), LoadError> {
        let policies = self.policies.iter().map(Policy::definition);
        for first in policies.filter(|first| first.provider == second.provider) {
            for parameter in &second.parameters {
                let same = first.parameters.iter().find(|known| known.name == parameter.name);
                if let Some(known) = same.filter(|known| known.kind != parameter.kind) {
                    let declared = |Definition { name, file, .. }: &Definition, kind: ParameterType| {
                        format!("`{}` in the policy `{name}` ({file})", kind.name())
                    };
                    return Err(LoadError::ParameterTypes {
                        name: known.name.clone(),
                        first: declared(first, known.kind),
                        second: declared(second, parameter.kind),
                    });
                }
            }
        }
        Ok(())
    }

    fn with_triggers(mut self) -> Self {
        let policies: Vec<_> =
            self.policies.iter().map(|policy| (policy.definition(), policy.devices())).collect();
        self.choice_may_change =
            choice_reads_writes(&policies, &[STAMP, SKIPPED, NODES, CLAIMS, WITHOUT_FABRIC]);
        let triggers = || self.policies.iter().map(|policy| &policy.definition().matcher.any_annotation);
        if triggers().all(|triggers| !triggers.is_empty()) {
            // A key is a qualified name, which has no character that JSON must escape.
            let keys: BTreeSet<&str> = triggers().flatten().map(|(key, _)| key.as_str()).collect();
            // An escape may hide any letter, such as Go's of `<`, `>` and `&`.
            let sought = keys.into_iter().chain(["\\u", "\\/"]);
            self.sought = sought.map(|text| Finder::new(text).into_owned()).collect();
        }
        let gpus: BTreeSet<&str> = self
            .policies
            .iter()
            .flat_map(|policy| policy.definition().gpus.resources.iter().map(String::as_str))
            .chain([DEVICE_CLASS, "\"claims\""])
            .collect();
        self.gpus = gpus.into_iter().map(|name| Finder::new(name).into_owned()).collect();
        self
    }

    /// Returns whether a container in this JSON text may have GPUs.
    pub(crate) fn may_name_gpus(&self, json: &str) -> bool {
        self.gpus.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    /// Returns whether a policy may match a pod in this JSON text. If not, none does.
    pub(crate) fn may_concern(&self, json: &str) -> bool {
        self.sought.is_empty() || self.sought.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Returns whether a pod has the stamp that a policy of the set gives it.
    pub fn has_stamped(&self, pod: &Value) -> bool {
        let stamp = pod["metadata"]["annotations"][STAMP].as_str();
        stamp.is_some_and(|stamp| self.policies.iter().any(|policy| policy.stamp() == stamp))
    }

    /// The annotations that trigger a policy, each once, in the order of the policies.
    pub fn triggers(&self) -> Vec<&(String, String)> {
        each_once(self.policies.iter().flat_map(|policy| &policy.definition().matcher.any_annotation))
    }

    /// Marks a pod without GPUs as skipped if the guard may take it for one with GPUs, or its author may.
    fn marked_if_guarded(&self, policies: &[&Policy], mutation: Mutation) -> Mutation {
        match mutation {
            Mutation {
                outcome:
                    Outcome::Unchanged { pod, reason: Reason::NoGpuContainer { resource, unknown_claim, .. } },
                policy: name,
                warnings,
            } => {
                let other = self.other_resource(&pod, policies);
                let is_marked = other.is_some() || self.may_have_gpus(&pod);
                let reason = Reason::NoGpuContainer { resource, other, unknown_claim };
                if is_marked {
                    return skip(pod, stamps(policies), reason, name, warnings);
                }
                Mutation { outcome: Outcome::Unchanged { pod, reason }, policy: name, warnings }
            }
            other => other,
        }
    }

    /// A resource that a container requests, which is of a vendor of GPUs, and none of the GPUs or devices of these
    /// policies: shared GPUs, or those of another vendor.
    fn other_resource(&self, pod: &Value, policies: &[&Policy]) -> Option<String> {
        let domain = |name: &str| {
            let (domain, _) = name.split_once('/').filter(|_| !name.starts_with(DEVICE_CLASS))?;
            Some(domain.to_owned())
        };
        let gpus = self.policies.iter().flat_map(|policy| &policy.definition().gpus.resources);
        let vendors: BTreeSet<String> = gpus.filter_map(|name| domain(name)).collect();
        let limits = CONTAINER_LISTS
            .iter()
            .flat_map(|list| items(&pod["spec"], list))
            .filter_map(|container| container["resources"]["limits"].as_object());
        let is_other = |name: &&String| {
            domain(name).is_some_and(|domain| vendors.contains(&domain))
                && !policies.iter().any(|policy| is_device(policy, name, None))
        };
        let asked = limits.flatten().filter(|(_, amount)| **amount != 0 && *amount != "0");
        asked.map(|(name, _)| name).find(is_other).cloned()
    }

    /// Returns whether a container has the resource of a GPU of any policy, a resource of a device class, or a claim.
    /// The guard checks no more than that.
    pub(crate) fn may_have_gpus(&self, pod: &Value) -> bool {
        let is_gpu = |(name, amount): (&String, &Value)| {
            let mut gpus = self.policies.iter().flat_map(|policy| &policy.definition().gpus.resources);
            name.starts_with(DEVICE_CLASS) || *amount != 0 && amount != "0" && gpus.any(|gpu| gpu == name)
        };
        CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list)).any(|container| {
            let resources = &container["resources"];
            let claims = resources["claims"].as_array().is_some_and(|claims| !claims.is_empty());
            claims || resources["limits"].as_object().is_some_and(|limits| limits.iter().any(is_gpu))
        })
    }
}

fn stamps(policies: &[&Policy]) -> String {
    policies.iter().map(|policy| policy.stamp()).collect::<Vec<_>>().join(",")
}
