//! The choice among the policies for a pod.

use serde_json::Value;

use crate::analysis::unknown_claim;
use crate::{
    CONTAINER_LISTS, PodAnalysis, Reason, Trace, Warning, WarningKind, analyse_named,
    analysis_if_condition_is_true, condition_values, has_gpus_or_rules,
};
use fabric_policy::matcher::Match;
use fabric_policy::{PodContext, Policy};
use fabric_yaml::json::items;

use super::PolicySet;
use super::providers::{Chosen, choose, stamped};

/// The decision about a pod.
pub(super) enum Decision<'p> {
    Inject(&'p Policy, Box<PodAnalysis>),
    /// These policies match the pod, apart from their conditions.
    Skip(Vec<&'p Policy>, Reason),
    /// These policies match the pod, and none has anything to add, whatever its nodes.
    LeaveAlone(Vec<&'p Policy>, Reason),
    /// The reason, which may be about a policy, says whether the pod is refused.
    End(Option<&'p Policy>, Reason),
}

/// Decides about a pod. Notes the conditions of policies in `trace`, and adds to `warnings`.
pub(super) fn decide<'p>(
    policies: &'p PolicySet,
    pod: &Value,
    context: &PodContext,
    mut trace: Option<&mut Trace>,
    warnings: &mut Vec<Warning>,
) -> Decision<'p> {
    let mut found: Vec<&Policy> = Vec::new();
    let mut near = None;
    for policy in policies.policies() {
        match policy.definition().matcher.test(pod, context) {
            Match::Yes => found.push(policy),
            Match::No => {}
            Match::OtherValue { key, seen, wanted, not_a_string } => {
                near = Some(Reason::TriggerValue { key, seen, wanted, not_a_string });
            }
            Match::OtherKey { key, seen, wanted } => {
                let policy = policy.name().to_owned();
                near = near.or(Some(Reason::MatchFailed { policy, key, seen, wanted }));
            }
            Match::Except { key, value } => near = Some(Reason::OptedOut { key, value }),
        }
    }
    if found.is_empty() {
        return Decision::End(None, near.unwrap_or(Reason::NoPolicyMatches));
    }
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Decision::End(None, Reason::MirrorPod);
    }
    if is_windows(&pod["spec"]) {
        return Decision::End(None, Reason::WindowsPod);
    }
    let Chosen { policies: chosen, by_name, is_assumed } =
        match choose(found.clone(), policies.several_providers, pod, context) {
            Ok(chosen) => chosen,
            Err(reason) => return undecided(found, pod, context, reason),
        };
    found = chosen;
    if let (true, Some(policy)) = (is_assumed, found.first()) {
        let kind = WarningKind::ProviderAssumed { provider: policy.definition().provider.clone() };
        warnings.push(Warning::of_pod(kind));
    }
    if let (true, [policy]) = (by_name, found.as_slice()) {
        return by_this(policy, pod, context, trace);
    }
    // An extension inherits `match` from its base.
    let extensions = |base: &Policy| {
        found.iter().filter(|policy| policy.definition().is_extension_of(base.definition())).count()
    };
    let mut in_order = found.clone();
    in_order.sort_by_key(|policy| extensions(policy));
    let mut matching: Vec<(&Policy, PodAnalysis)> = Vec::new();
    for policy in in_order {
        if !context.goes_on(0) {
            break;
        }
        if matching.iter().any(|(taker, _)| taker.definition().is_extension_of(policy.definition())) {
            continue;
        }
        match analysis_if_condition_is_true(policy, pod, context, found.len() > 1, trace.as_deref_mut()) {
            Ok(Some(analysis)) => matching.push((policy, analysis)),
            Ok(None) => {}
            Err(reason @ Reason::SettingUndecided { .. }) => {
                // A pod that was injected keeps its policy.
                return match stamped(pod, &found) {
                    Some(policy) => by_this(policy, pod, context, trace),
                    None => undecided(found, pod, context, reason),
                };
            }
            Err(reason) => return Decision::End(Some(policy), reason),
        }
    }
    if matching.len() > 1 {
        let policies = matching.iter().map(|(policy, _)| policy.name().to_owned()).collect();
        return Decision::End(None, Reason::SeveralPoliciesMatch { policies });
    }
    match matching.pop() {
        None => {
            let policies = found.iter().map(|policy| policy.name().to_owned()).collect();
            let parameters =
                found.first().map(|policy| condition_values(policy, pod, context)).unwrap_or_default();
            Decision::Skip(found, Reason::ConditionFalse { policies, parameters })
        }
        Some((policy, analysis)) => Decision::Inject(policy, Box::new(analysis)),
    }
}

/// The decision to inject a pod by a policy, regardless of its condition.
fn by_this<'p>(
    policy: &'p Policy,
    pod: &Value,
    context: &PodContext,
    trace: Option<&mut Trace>,
) -> Decision<'p> {
    match analyse_named(policy, pod, context, trace) {
        Ok(analysis) => Decision::Inject(policy, Box::new(analysis)),
        Err(reason) => Decision::End(Some(policy), reason),
    }
}

/// The decision about a pod if no policy can be chosen: refused if one of them would add something to it.
fn undecided<'p>(
    policies: Vec<&'p Policy>,
    pod: &Value,
    context: &PodContext,
    reason: Reason,
) -> Decision<'p> {
    for policy in &policies {
        if !context.goes_on(0) {
            break;
        }
        match has_gpus_or_rules(policy, pod, context) {
            Ok(true) => return Decision::End(None, reason),
            Ok(false) => {}
            Err(reason) => return Decision::End(Some(policy), reason),
        }
    }
    let mut resources = policies.iter().flat_map(|policy| policy.definition().gpu_resources());
    let resource = resources.next().cloned().unwrap_or_default();
    Decision::LeaveAlone(
        policies,
        Reason::NoGpuContainer { resource, unknown_claim: unknown_claim(pod, None, context) },
    )
}

/// Returns whether the pod is for Windows, or is a Windows host process.
fn is_windows(spec: &Value) -> bool {
    let host_process = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let mut containers = CONTAINER_LISTS.iter().flat_map(|list| items(spec, list));
    spec["os"]["name"] == "windows" || host_process(spec) || containers.any(host_process)
}
