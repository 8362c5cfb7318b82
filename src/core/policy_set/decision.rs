//! The choice among the policies for a pod.

use serde_json::Value;

use crate::core::engine::{PodAnalysis, Reason, analyse};
use crate::core::policy::matcher::Match;
use crate::core::policy::{PodContext, Policy};

use super::PolicySet;
use super::providers::for_nodes;

/// The decision about a pod.
pub(super) enum Decision<'p> {
    Inject(&'p Policy, Box<PodAnalysis>),
    /// These policies match the pod, but for their conditions or for what is not known of the nodes.
    Skip(Vec<&'p Policy>, Reason),
    Leave(Option<&'p Policy>, Reason),
    Refuse(Option<&'p Policy>, Reason),
}

pub(super) fn decide<'p>(policies: &'p PolicySet, pod: &Value, context: &PodContext) -> Decision<'p> {
    let mut found: Vec<&Policy> = Vec::new();
    let mut near = None;
    for policy in policies.policies() {
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
        return Decision::Leave(None, near.unwrap_or(Reason::NoPolicyMatches));
    }
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Decision::Leave(None, Reason::MirrorPod);
    }
    if is_windows(&pod["spec"]) {
        return Decision::Leave(None, Reason::WindowsPod);
    }
    if policies.several_providers {
        found = match for_nodes(found.clone(), pod, context) {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => return Decision::Skip(found, Reason::OtherProvider),
            Err(reason) if reason.is_fault() => return Decision::Refuse(None, reason),
            Err(reason) => return Decision::Skip(found, reason),
        };
    }
    // An extension takes the pods that it matches from what it extends.
    let extensions = |base: &Policy| {
        found.iter().filter(|policy| policy.definition().is_extension_of(base.definition())).count()
    };
    let mut in_order = found.clone();
    in_order.sort_by_key(|policy| extensions(policy));
    let mut matching: Vec<(&Policy, PodAnalysis)> = Vec::new();
    for policy in in_order {
        if matching.iter().any(|(taker, _)| taker.definition().is_extension_of(policy.definition())) {
            continue;
        }
        match analyse(policy, pod, context) {
            Ok(Some(analysis)) => matching.push((policy, analysis)),
            Ok(None) => {}
            Err(reason) if reason.is_fault() => return Decision::Refuse(Some(policy), reason),
            Err(reason) => return Decision::Leave(Some(policy), reason),
        }
    }
    if matching.len() > 1 {
        let policies = matching.iter().map(|(policy, _)| policy.name().to_owned()).collect();
        return Decision::Refuse(None, Reason::SeveralPoliciesMatch { policies });
    }
    match matching.pop() {
        None => {
            let policies = found.iter().map(|policy| policy.name().to_owned()).collect();
            Decision::Skip(found, Reason::ConditionFalse { policies })
        }
        Some((policy, analysis)) => Decision::Inject(policy, Box::new(analysis)),
    }
}

/// Returns whether the pod names Windows, or is a host process of it.
fn is_windows(spec: &Value) -> bool {
    let host_process = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
    spec["os"]["name"] == "windows" || host_process(spec) || containers.flatten().any(host_process)
}
