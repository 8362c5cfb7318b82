//! The choice among the policies for a pod.

use serde_json::Value;

use crate::core::engine::{Reason, condition_holds};
use crate::core::policy::matcher::Match;
use crate::core::policy::{PodContext, Policy};

use super::PolicySet;

/// The decision about a pod.
pub(super) enum Decision<'p> {
    Inject(&'p Policy),
    /// The conditions of these policies are false, and they match the pod otherwise.
    Skip(Vec<&'p Policy>),
    Leave(Reason),
    Refuse(Option<&'p Policy>, Reason),
}

impl PartialEq for Decision<'_> {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &Policy, other: &Policy| one.name() == other.name();
        match (self, other) {
            (Self::Inject(one), Self::Inject(other)) => same(one, other),
            (Self::Skip(one), Self::Skip(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
            }
            (Self::Leave(one), Self::Leave(other)) => one == other,
            (Self::Refuse(_, one), Self::Refuse(_, other)) => one == other,
            _ => false,
        }
    }
}

pub(super) fn decide<'p>(policies: &'p PolicySet, pod: &Value, context: &PodContext) -> Decision<'p> {
    let mut found: Vec<&Policy> = Vec::new();
    let mut near = None;
    for policy in policies.candidates(pod, context) {
        match policy.definition().matcher.test(pod, context) {
            Match::Yes => found.push(policy),
            Match::No => {}
            Match::OtherValue { key, seen, wanted, not_a_string } => {
                near = Some(Reason::TriggerValue { key, seen, wanted, not_a_string });
            }
            Match::Except { key, value } => near = Some(Reason::OptedOut { key, value }),
        }
    }
    if found.is_empty() {
        return Decision::Leave(near.unwrap_or(Reason::NoPolicyMatches));
    }
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Decision::Leave(Reason::MirrorPod);
    }
    if is_windows(&pod["spec"]) {
        return Decision::Leave(Reason::WindowsPod);
    }
    let mut matching = Vec::new();
    for policy in &found {
        match condition_holds(policy, pod, context) {
            Ok(true) => matching.push(*policy),
            Ok(false) => {}
            Err(reason) if reason.is_fault() => return Decision::Refuse(Some(policy), reason),
            Err(reason) => return Decision::Leave(reason),
        }
    }
    match matching.as_slice() {
        [] => Decision::Skip(found),
        [one] => Decision::Inject(one),
        several => {
            let policies = several.iter().map(|policy| policy.name().to_owned()).collect();
            Decision::Refuse(None, Reason::SeveralPoliciesMatch { policies })
        }
    }
}

/// Returns whether the pod names Windows, or is a host process of it.
fn is_windows(spec: &Value) -> bool {
    let host_process = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
    spec["os"]["name"] == "windows" || host_process(spec) || containers.flatten().any(host_process)
}
