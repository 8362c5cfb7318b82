//! The choice among the policies for a pod, and the decision if none can be chosen.
//!
//! Before, the annotations of an earlier injection are cleared if the pod contradicts them, as in a manifest that was copied
//! for other nodes.

use serde_json::Value;

use fabric_policy::matcher::Match;
use fabric_policy::{PodContext, Policy};
use fabric_yaml::json::items;

use super::PolicySet;
use super::providers::{Chosen, choose, selected, stamped, stamping_policy};
use crate::analysis::{contradicted_label, unknown_claim};
use crate::record::{Author, ChangeLog, Warning, WarningKind, change_annotations};
use crate::{
    CLAIMS, CONTAINER_LISTS, NODES, PROVIDER, PodAnalysis, Reason, STAMP, analyse_named,
    analysis_if_condition_is_true, condition_values, has_gpus_or_rules,
};

/// The decision about a pod.
pub(super) enum Decision<'p> {
    Inject(&'p Policy, Box<PodAnalysis>),
    /// These policies match the pod, apart from their conditions.
    Skip(Vec<&'p Policy>, Reason),
    /// These policies match the pod, and none has anything to add, whatever its nodes.
    LeaveAlone(Vec<&'p Policy>, Reason),
    /// The reason, which may be about a policy, decides whether the pod is refused: `Reason::refuses`.
    End(Option<&'p Policy>, Reason),
}

/// Decides about a pod. The log gets the warnings, and its trace the conditions of policies.
pub(super) fn decide<'p>(
    policies: &'p PolicySet,
    pod: &Value,
    context: &PodContext,
    log: &mut ChangeLog,
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
    // Anyone can set the annotation. Where the requester is not known, as of a manifest, it has to do.
    let is_mirror = pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
    if is_mirror && context.by_kubelet != Some(false) {
        return Decision::End(None, Reason::MirrorPod);
    }
    if is_windows(&pod["spec"]) {
        return Decision::End(None, Reason::WindowsPod);
    }
    let Chosen { policies: chosen, by_name, is_assumed } =
        match choose(found.clone(), policies.several_providers, pod, context) {
            Ok(chosen) => chosen,
            Err(reason) => return without_policy(found, pod, context, reason),
        };
    found = chosen;
    if let (true, Some(policy)) = (is_assumed, found.first()) {
        let kind = WarningKind::ProviderAssumed { provider: policy.definition().provider.clone() };
        log.warnings.push(Warning::of_pod(kind));
    }
    if let (true, [policy]) = (by_name, found.as_slice()) {
        return by_this(policy, pod, context, log);
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
        let (several, trace) = (found.len() > 1, log.trace.as_deref_mut());
        match analysis_if_condition_is_true(policy, pod, context, several, trace) {
            Ok(Some(analysis)) => matching.push((policy, analysis)),
            Ok(None) => {}
            Err(reason @ Reason::SettingUndecided { .. }) => {
                // A pod that was injected keeps its policy.
                return match stamped(pod, &found) {
                    Some(policy) => by_this(policy, pod, context, log),
                    None => without_policy(found, pod, context, reason),
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
fn by_this<'p>(policy: &'p Policy, pod: &Value, context: &PodContext, log: &mut ChangeLog) -> Decision<'p> {
    match analyse_named(policy, pod, context, log.trace.as_deref_mut()) {
        Ok(analysis) => Decision::Inject(policy, Box::new(analysis)),
        Err(reason) => Decision::End(Some(policy), reason),
    }
}

/// The decision about a pod if no policy can be chosen: refused if one of them would add something to it.
fn without_policy<'p>(
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
    let mut resources = policies.iter().flat_map(|policy| &policy.definition().gpus.resources);
    let resource = resources.next().cloned().unwrap_or_default();
    let unknown_claim = unknown_claim(pod, None, context).map(Box::new);
    Decision::LeaveAlone(policies, Reason::NoGpuContainer { resource, other: None, unknown_claim })
}

/// The contradiction of annotations that no policy for the pod has written.
fn of_no_injection(pod: &Value) -> WarningKind {
    let (selected, recorded) = match stamping_policy(pod) {
        Some(policy) => ("other nodes or another policy", format!("a pod that `{policy}` injects")),
        None => ("any", format!("a pod with `{STAMP}`")),
    };
    WarningKind::AnnotationContradicted { selected: selected.to_owned(), recorded }
}

/// Returns whether the pod is for Windows, or is a Windows host process.
fn is_windows(spec: &Value) -> bool {
    let host_process = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let mut containers = CONTAINER_LISTS.iter().flat_map(|list| items(spec, list));
    spec["os"]["name"] == "windows" || host_process(spec) || containers.any(host_process)
}

impl PolicySet {
    /// Makes the annotations of an earlier injection `null`, with a warning, if the pod contradicts them or is to be
    /// without them. They keep their places for the values of this injection.
    pub(super) fn clear_contradicted(
        &self,
        pod: &mut Value,
        context: &PodContext,
        with_records: bool,
        log: &mut ChangeLog,
    ) {
        let annotations = &pod["metadata"]["annotations"];
        if ![STAMP, NODES, CLAIMS].iter().any(|key| annotations[key].is_string()) {
            return;
        }
        let contradiction = self.contradiction(pod, context);
        let Some(kind) = contradiction.or_else(|| (!with_records).then(|| of_no_injection(pod))) else {
            return;
        };
        log.warnings.push(Warning::of_pod(kind));
        log.written_by(|| Author::Stamp);
        // Only a pod with annotations contradicts them.
        let _ = change_annotations(pod, log, |annotations| {
            for key in [STAMP, NODES, CLAIMS] {
                if annotations.get(key).is_some() {
                    annotations.put(key, Value::Null);
                }
            }
            Ok(())
        });
    }

    fn contradiction(&self, pod: &Value, context: &PodContext) -> Option<WarningKind> {
        let matches = |policy: &&Policy| policy.definition().matcher.test(pod, context) == Match::Yes;
        let matching: Vec<&Policy> = self.policies.iter().filter(matches).collect();
        let Some(before) = stamped(pod, &matching) else {
            let annotations = &pod["metadata"]["annotations"];
            // The stamp of a policy that is not in use says nothing.
            let has_records = [NODES, CLAIMS].iter().any(|key| annotations[key].is_string());
            return has_records.then(|| of_no_injection(pod));
        };
        if let Some((selected, recorded)) = contradicted_label(before, pod, context) {
            let recorded = format!("nodes with {recorded}");
            return Some(WarningKind::AnnotationContradicted { selected, recorded });
        }
        let provider = Some(before).filter(|_| self.several_providers)?.definition().provider.as_str();
        if pod["metadata"]["annotations"][PROVIDER].is_string() {
            return None;
        }
        let others = selected(&matching, &pod["spec"], context)?;
        (!others.contains(provider)).then(|| {
            let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
            let selected = format!("a label of {}", others.join(", "));
            WarningKind::AnnotationContradicted { selected, recorded: format!("nodes of `{provider}`") }
        })
    }
}
