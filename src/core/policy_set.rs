//! The policies that are in use together, and the choice among them for a pod.

use std::collections::{BTreeMap, HashMap};

use memchr::memmem::Finder;
use serde_json::{Map, Value};

use crate::core::engine::{Mutation, Outcome, Reason, inject};
use crate::core::policy::matcher::Match;
use crate::core::policy::{Definition, PodContext, Policy, Setting, SourceError};
use crate::core::validate;

/// Policies of one provider.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    /// Policies by the annotations that trigger them, so that a pod is matched only against those that may match.
    by_annotation: HashMap<String, Vec<usize>>,
    /// Policies without such an annotation.
    others: Vec<usize>,
    /// The annotations that trigger a policy, and the escapes that may hide one in JSON.
    sought: Vec<Finder<'static>>,
}

/// An error in the policies, or in their combination.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An error in one of them.
    #[error(transparent)]
    Source(#[from] Box<SourceError>),
    /// Two policies have one name.
    #[error("two policies are called `{name}`, in {first} and {second}")]
    SameName { name: String, first: String, second: String },
    /// They have different providers.
    #[error(
        "policy `{first}` is for `{first_provider}` and `{second}` for `{second_provider}`; one provider at a time"
    )]
    SeveralProviders { first: String, first_provider: String, second: String, second_provider: String },
}

impl PolicySet {
    /// Resolves policies, each with the values that the operator set for it, and validates them.
    pub fn new(definitions: Vec<(Definition, BTreeMap<String, Setting>)>) -> Result<Self, LoadError> {
        let mut set = Self::default();
        for (definition, overrides) in definitions {
            if let Some(first) = set.policies.first().map(Policy::definition)
                && first.provider != definition.provider
            {
                return Err(LoadError::SeveralProviders {
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
            let policy = Policy::new(definition, overrides).map_err(Box::new)?;
            validate::policy(&policy).map_err(Box::new)?;
            set.policies.push(policy);
        }
        Ok(Self::indexed(set.policies))
    }

    fn indexed(policies: Vec<Policy>) -> Self {
        let mut set = Self { policies, ..Self::default() };
        for (at, policy) in set.policies.iter().enumerate() {
            let triggers = &policy.definition().matcher.any_annotation;
            for (key, _) in triggers {
                let known = set.by_annotation.entry(key.clone()).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
            if triggers.is_empty() {
                set.others.push(at);
            }
        }
        let keys = set.by_annotation.keys().map(|key| {
            // No annotation has such a key, which JSON would escape: the empty text is found in everything.
            let escaped = key.contains(|c: char| c.is_control() || c == '"' || c == '\\');
            Finder::new(if escaped { "" } else { key.as_str() }).into_owned()
        });
        // An escape may hide any letter, such as Go's of `<`, `>` and `&`.
        set.sought = keys.chain(["\\u", "\\/"].map(|escape| Finder::new(escape).into_owned())).collect();
        set
    }

    /// Returns whether a policy may match a pod in this JSON text. If not, none does.
    pub(crate) fn may_concern(&self, json: &str) -> bool {
        !self.others.is_empty() || self.sought.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The policies that may match this pod, each once, in order.
    fn candidates(&self, pod: &Value) -> impl Iterator<Item = &Policy> {
        let mut found = self.others.clone();
        let annotations = pod["metadata"]["annotations"].as_object();
        for key in annotations.into_iter().flat_map(Map::keys) {
            found.extend(self.by_annotation.get(key).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| &self.policies[at])
    }
}

/// Injects a pod by the one policy that matches it.
///
/// The result is the same for the same arguments, and injecting the result again changes nothing.
pub fn mutate(policies: &PolicySet, pod: Value, context: &PodContext) -> Mutation {
    let outcome = match select(policies, &pod, context) {
        Ok(policy) => return inject(policy, pod, context),
        Err(reason @ Reason::SeveralPoliciesMatch { .. }) => Outcome::Refused { reason },
        Err(reason) => Outcome::Unchanged { pod, reason },
    };
    Mutation { outcome, policy: None, warnings: Vec::new() }
}

/// The one policy that matches a pod.
fn select<'p>(policies: &'p PolicySet, pod: &Value, context: &PodContext) -> Result<&'p Policy, Reason> {
    let mut found: Vec<&Policy> = Vec::new();
    let mut near = None;
    for policy in policies.candidates(pod) {
        match policy.definition().matcher.test(pod, context) {
            Match::Yes => found.push(policy),
            Match::No => {}
            Match::OtherValue { key, seen, wanted } => {
                near = Some(Reason::TriggerValue { key, seen, wanted });
            }
            Match::Except { key, value } => near = Some(Reason::OptedOut { key, value }),
        }
    }
    let Some(first) = found.first().copied() else { return Err(near.unwrap_or(Reason::NoPolicyMatches)) };
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Err(Reason::MirrorPod);
    }
    if is_windows(&pod["spec"]) {
        return Err(Reason::WindowsPod);
    }
    if found.len() > 1 {
        let policies = found.iter().map(|policy| policy.name().to_owned()).collect();
        return Err(Reason::SeveralPoliciesMatch { policies });
    }
    Ok(first)
}

/// Returns whether the pod names Windows, or is a host process of it.
fn is_windows(spec: &Value) -> bool {
    let host_process = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
    spec["os"]["name"] == "windows" || host_process(spec) || containers.flatten().any(host_process)
}
