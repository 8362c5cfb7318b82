//! A policy and a pod, and what became of the pod.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::adapter::{self, Context, Injection, Loaded, Result as Outcome};
use super::generator::policies::{Policy, files};
use super::generator::records;
use super::rules;
use super::validity::refusals;

/// A policy in use, with variants of it that have to give the same.
pub(crate) struct Group {
    pub(crate) policy: Policy,
    pub(crate) text: String,
    pub(crate) loaded: Loaded,
    /// With rules that touch different things in another order.
    pub(crate) permuted: Option<Loaded>,
    /// With a condition that reads everything.
    pub(crate) curious: Option<Loaded>,
}

/// A policy and a pod, and what became of the pod.
pub(crate) struct Pair<'g> {
    pub(crate) group: &'g Group,
    pub(crate) pod: Value,
    /// Why the API server would refuse the pod as it comes.
    pub(crate) refusals: Vec<String>,
    /// Whether the model can work out what becomes of the pod.
    pub(crate) known: bool,
    pub(crate) context: Context,
    pub(crate) first: Injection,
    pub(crate) took: Duration,
}

/// Why a property does not hold: the kind of the fault, and the case.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: String,
    pub(crate) detail: String,
}

pub(crate) type Verdict = Result<(), Failure>;
pub(crate) type Property = fn(&Pair<'_>) -> Verdict;

pub(crate) fn fail(class: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Err(Failure { class: class.into(), detail: detail.into() })
}

impl Group {
    /// Loads a policy and its variants; the error is the message for the author of the policy.
    pub(crate) fn load(policy: &Policy) -> Result<Self, String> {
        let text = policy.text();
        let with_base = policy.document["layout"]["together"] == true;
        let load = |files: &[(String, String)]| adapter::load(files, with_base, &policy.overrides);
        let loaded = load(&policy.files())?;
        let variant = |document: Option<Value>| document.and_then(|document| load(&files(&document)).ok());
        let permuted = variant(rules::permuted(&policy.document));
        let curious = variant(Some(rules::curious(&policy.document)));
        Ok(Self { policy: policy.clone(), text, loaded, permuted, curious })
    }
}

impl<'g> Pair<'g> {
    pub(crate) fn new(group: &'g Group, pod: Value, context: Context) -> Self {
        let start = Instant::now();
        let first = adapter::inject(&group.loaded, &pod, &context);
        let took = start.elapsed();
        let refusals = refusals(&pod);
        let known = group.policy.known && context.nodes.is_none() && !records::decide(&pod);
        Self { group, pod, refusals, known, context, first, took }
    }

    /// The pod after injection; none if it is refused.
    pub(crate) fn after(&self) -> Option<&Value> {
        match &self.first.outcome {
            Outcome::Mutated { pod, .. } | Outcome::Skipped { pod, .. } | Outcome::Unchanged { pod, .. } => {
                Some(pod)
            }
            Outcome::Refused { .. } => None,
        }
    }

    pub(crate) fn mutated(&self) -> Option<&Value> {
        match &self.first.outcome {
            Outcome::Mutated { pod, .. } => Some(pod),
            _ => None,
        }
    }

    pub(crate) fn again(&self, pod: &Value) -> Verdict {
        match adapter::inject(&self.group.loaded, pod, &self.context).outcome {
            Outcome::Mutated { patch, .. } => {
                let first = serde_json::to_value(&patch).unwrap_or_default()[0].take();
                let nothing = [json!([]), json!({})].contains(&first["value"]);
                let class = path_class(first["path"].as_str().unwrap_or_default());
                let value = if nothing { "nothing" } else { "something" };
                fail(format!("{} {value} at {class}", first["op"]), patch.to_string())
            }
            Outcome::Refused { reason, text } => fail(format!("refused {reason}"), text),
            Outcome::Skipped { patch, .. } if !patch.0.is_empty() => fail("skipped", patch.to_string()),
            Outcome::Skipped { .. } | Outcome::Unchanged { .. } => Ok(()),
        }
    }
}

/// A JSON Pointer without indexes and names.
pub(crate) fn path_class(pointer: &str) -> String {
    let tokens = pointer.split('/').filter(|token| token.parse::<usize>().is_err());
    tokens.take(5).collect::<Vec<_>>().join("/")
}
