//! The condition of a policy, `match.when`.

use std::sync::Arc;

use serde_json::Value;

use crate::core::engine::analysis::{PodAnalysis, Purpose, resolve};
use crate::core::engine::nodes::{fits_several, not_selected};
use crate::core::engine::record::{Reason, Stop, evaluation_failed};
use crate::core::policy::expression::Resolver;
use crate::core::policy::interpolation::text_of;
use crate::core::policy::matcher::Selection;
use crate::core::policy::{Condition, NoteKind, PodContext, Policy, ResolvedPolicy};

use super::rules::Rules;
use super::scope::Scope;

/// Analyses a pod for a policy that its other keys match; `None` if the condition does not hold. If the policy is one of
/// `several`, the condition must not depend on an assumption.
pub(crate) fn analyse(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
    several: bool,
) -> Result<Option<PodAnalysis>, Reason> {
    let (nodes, resolved) = resolve(policy, pod, context, false)?;
    for note in resolved.notes.iter().filter(|_| several) {
        if let NoteKind::Assumed { labels, .. } = &note.kind
            && resolved.parameters_of_condition.contains(&note.parameter)
        {
            return Err(undecided(&resolved, not_selected(&nodes, labels)));
        }
    }
    let found = holds(&resolved, (&nodes, pod), context)?;
    let each = if policy.definition().matcher.when.is_some() { nodes.each() } else { Vec::new() };
    for one in each.iter().filter(|_| each.len() > 1) {
        let there = policy.resolved(one).map_err(|error| evaluation_failed("the policy", error))?;
        if holds(&there, (one, pod), context)?.is_some() != found.is_some() {
            return Err(undecided(&resolved, fits_several(&nodes)));
        }
    }
    Ok(found)
}

/// The analysis of the pod if the condition of the policy holds.
fn holds(
    policy: &Arc<ResolvedPolicy>,
    (nodes, pod): (&Selection, &Value),
    context: &PodContext,
) -> Result<Option<PodAnalysis>, Reason> {
    if matches!(policy.condition, Condition::Fixed(false)) {
        return Ok(None);
    }
    let analysis = PodAnalysis::of((nodes.clone(), Arc::clone(policy)), pod, context, Purpose::Injection)?;
    let holds = match &analysis.policy.condition {
        Condition::Fixed(holds) => *holds,
        Condition::OfPod(when) => {
            let scope = Scope::of_pod(&analysis);
            let resolver = Resolver(&scope);
            when.holds(&scope.bindings(&resolver))
                .map_err(|error| scope.explain("`match.when`", error).reason())?
        }
    };
    Ok(holds.then_some(analysis))
}

/// Analyses a pod that names the policy: its condition chooses among the nodes that the pod fits, and nothing else.
pub(crate) fn analyse_named(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
) -> Result<PodAnalysis, Reason> {
    let (nodes, resolved) = resolve(policy, pod, context, false)?;
    if let Some(analysis) = holds(&resolved, (&nodes, pod), context)? {
        return Ok(analysis);
    }
    for (at, other) in resolved.others.iter().enumerate() {
        if let Some(analysis) = holds(other, (&nodes, pod), context)? {
            return Ok(PodAnalysis { other: Some(at), ..analysis });
        }
    }
    PodAnalysis::of((nodes, resolved), pod, context, Purpose::Injection)
}

/// The parameters that the condition of a policy reads, with their values for a pod.
pub(crate) fn condition_values(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<(String, String)> {
    let Ok((_, resolved)) = resolve(policy, pod, context, false) else { return Vec::new() };
    let parameters = policy.definition().parameters.iter().zip(&resolved.values);
    parameters
        .filter(|(parameter, _)| resolved.parameters_of_condition.contains(&parameter.name))
        .map(|(parameter, value)| (parameter.name.clone(), text_of(value)))
        .collect()
}

fn undecided(policy: &ResolvedPolicy, why: String) -> Reason {
    let names: Vec<&str> = policy.parameters_of_condition.iter().map(String::as_str).collect();
    let setting = if names.is_empty() { "match.when".to_owned() } else { names.join("`, `") };
    Reason::SettingUndecided { setting, why, chooses_policy: true }
}

/// Returns whether a policy adds anything to a pod, wherever that is scheduled to and whatever its condition says.
pub(crate) fn adds_to(policy: &Policy, pod: &Value, context: &PodContext) -> Result<bool, Reason> {
    let context = PodContext { nodes: None, ..context.clone() };
    let analysis =
        PodAnalysis::of(resolve(policy, pod, &context, false)?, pod, &context, Purpose::Injection)?;
    let scope = Scope::of_pod(&analysis);
    Ok(analysis.has_gpus() || Rules::evaluate(&analysis, &scope, pod, &context).map_err(Stop::reason)?.any())
}
