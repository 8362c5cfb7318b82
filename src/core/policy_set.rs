//! The policies that are in use together.

use std::collections::{BTreeMap, HashMap};

use memchr::memmem::Finder;
use serde_json::{Map, Value};

use crate::core::policy::{Definition, Policy, SourceError};
use crate::core::self_check;

/// Policies of one provider, ready to serve pods.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    /// Policies by the annotations that trigger them, so that a pod meets only those that may be for it.
    by_annotation: HashMap<String, Vec<usize>>,
    /// Policies that no annotation triggers.
    others: Vec<usize>,
    /// The annotations that trigger, and what hides letters from a search in JSON.
    sought: Vec<Finder<'static>>,
}

/// Why policies cannot be used (together).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// One of them is wrong.
    #[error(transparent)]
    Source(#[from] Box<SourceError>),
    /// Two have one name.
    #[error("two policies are called `{name}`, in {first} and {second}")]
    SameName {
        /// The name.
        name: String,
        /// A file that has it.
        first: String,
        /// Another.
        second: String,
    },
    /// They are of different providers.
    #[error(
        "policy `{first}` is for `{first_provider}` and `{second}` for `{second_provider}`; one provider at a time"
    )]
    SeveralProviders {
        /// A policy.
        first: String,
        /// Its provider.
        first_provider: String,
        /// Another policy.
        second: String,
        /// Its provider.
        second_provider: String,
    },
}

impl PolicySet {
    /// Puts policies to use, each with what the operator set for it. Every policy is tried on sample pods
    /// first; one that is not idempotent is refused.
    pub fn new(definitions: Vec<(Definition, BTreeMap<String, Value>)>) -> Result<Self, LoadError> {
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
            let alone = Self::indexed(vec![policy]);
            self_check::run(&alone).map_err(Box::new)?;
            set.policies.extend(alone.policies);
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
            // A key that no annotation can have, but which JSON would write otherwise: found in everything.
            let escaped = key.contains(|c: char| c.is_control() || c == '"' || c == '\\');
            Finder::new(if escaped { "" } else { key.as_str() }).into_owned()
        });
        // An escape may hide any letter; Go writes `<`, `>` and `&` so, and nobody else has to.
        set.sought = keys.chain(["\\u", "\\/"].map(|escape| Finder::new(escape).into_owned())).collect();
        set
    }

    /// Whether a policy might be for a pod in this JSON text. Never wrong when it says no.
    pub(crate) fn may_concern(&self, json: &str) -> bool {
        !self.others.is_empty() || self.sought.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    /// The policies in use.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The policies that may be for this pod, each once, in order.
    pub(crate) fn candidates(&self, pod: &Value) -> impl Iterator<Item = &Policy> {
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
