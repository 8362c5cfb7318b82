//! The evaluation of a policy for a pod: the condition of the policy, and the rules that apply to each container.
//!
//! It reads the analysis and changes nothing. The merge evaluates the values that the rules add.

mod rules;
mod scope;

use serde_json::Value;

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, text_of};
use fabric_policy::{Condition, NoteKind, PodContext, Policy, ResolvedPolicy};

use crate::analysis::{PodAnalysis, policy_for, resolve, with_values};
use crate::fitting_nodes::{must_select_one, not_selected};
use crate::record::{ConditionFact, LookedAt, OrReason, Reason, Resolved, Trace};
pub(super) use rules::{ContainerRules, Rules, State, failed, rule_that_joins_host};
pub(super) use scope::Scope;

/// Analyses a pod for a policy that its other keys match; `None` if the condition does not hold. If the policy is one
/// of `several`, the condition must not depend on an assumption.
pub fn analysis_if_condition_is_true(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
    several: bool,
    trace: Option<&mut Trace>,
) -> OrReason<Option<PodAnalysis>> {
    let of_pod = resolve(policy, pod, context)?;
    let (nodes, resolved) = &of_pod;
    for note in resolved.notes.iter().filter(|_| several) {
        if let NoteKind::Assumed { labels, .. } = &note.kind
            && resolved.evaluated.parameters_of_condition.contains(&note.parameter)
        {
            return Err(setting_undecided(resolved, not_selected(nodes, labels)));
        }
    }
    let found = analysis_if_true(policy, &of_pod, pod, context, trace)?;
    let each = if policy.definition().matcher.when.is_some() { nodes.each() } else { Vec::new() };
    for one in each.iter().filter(|_| each.len() > 1) {
        let there = (one.clone(), policy_for(policy, one, context)?);
        if analysis_if_true(policy, &there, pod, context, None)?.is_some() != found.is_some() {
            return Err(setting_undecided(resolved, must_select_one(nodes)));
        }
    }
    Ok(found)
}

/// The analysis of the pod if the condition of the policy holds.
fn analysis_if_true(
    policy: &Policy,
    resolved: &Resolved,
    pod: &Value,
    context: &PodContext,
    trace: Option<&mut Trace>,
) -> OrReason<Option<PodAnalysis>> {
    let analysis = || PodAnalysis::new(resolved.clone(), pod, context);
    let record = |holds: &Result<bool, EvaluationError>, bindings: &Bindings<'_, '_>| {
        let Some(trace) = trace else { return };
        let of = |when| ConditionFact::through_variables(policy.definition(), when, holds, bindings);
        let when = policy.definition().matcher.when.as_ref().map(of);
        let of_policy = trace.looked_at.entry(policy.name().to_owned());
        of_policy.or_insert_with(|| LookedAt { of: resolved.clone(), when });
    };
    let evaluated = &resolved.1.evaluated;
    match &evaluated.condition {
        Condition::Fixed(holds) => {
            record(&Ok(*holds), &evaluated.bindings);
            if *holds { analysis().map(Some) } else { Ok(None) }
        }
        Condition::OfPod(when) => {
            let analysis = analysis()?;
            let holds = {
                let scope = Scope::of_pod(&analysis);
                let bindings = scope.bindings();
                let holds = when.is_true(&bindings);
                let explained = holds.clone().map_err(|error| scope.explain("`match.when`", error));
                record(&holds, &bindings);
                explained?
            };
            Ok(holds.then_some(analysis))
        }
    }
}

/// Analyses a pod that names the policy: its condition chooses among the nodes that the pod fits, and nothing else.
pub fn analyse_named(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
    mut trace: Option<&mut Trace>,
) -> OrReason<PodAnalysis> {
    let resolved = resolve(policy, pod, context)?;
    if let Some(analysis) = analysis_if_true(policy, &resolved, pod, context, trace.as_deref_mut())? {
        return Ok(analysis);
    }
    let (nodes, of_pod) = &resolved;
    for (at, values) in of_pod.values_elsewhere.iter().enumerate() {
        let other = (nodes.clone(), with_values(policy, values, nodes, context)?);
        if let Some(analysis) = analysis_if_true(policy, &other, pod, context, trace.as_deref_mut())? {
            return Ok(PodAnalysis { other: Some(at), ..analysis });
        }
    }
    PodAnalysis::new(resolved, pod, context)
}

/// The parameters that the condition of a policy reads, with their values for a pod.
pub fn condition_values(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<(String, String)> {
    let Ok((_, resolved)) = resolve(policy, pod, context) else { return Vec::new() };
    let parameters = policy.definition().parameters.iter().zip(&resolved.evaluated.values);
    parameters
        .filter(|(parameter, _)| resolved.evaluated.parameters_of_condition.contains(&parameter.name))
        .map(|(parameter, value)| (parameter.name.clone(), text_of(value)))
        .collect()
}

fn setting_undecided(policy: &ResolvedPolicy, why: String) -> Reason {
    let names: Vec<&str> = policy.evaluated.parameters_of_condition.iter().map(String::as_str).collect();
    let setting = if names.is_empty() { "match.when".to_owned() } else { names.join("`, `") };
    Reason::SettingUndecided { setting, why, chooses_policy: true }
}

/// Returns whether a pod has GPUs, or a rule of the policy applies to it, wherever it is scheduled to and whatever the
/// condition of the policy says.
pub fn has_gpus_or_rules(policy: &Policy, pod: &Value, context: &PodContext) -> OrReason<bool> {
    let context = PodContext { nodes: None, ..context.clone() };
    let analysis = PodAnalysis::new(resolve(policy, pod, &context)?, pod, &context)?;
    let scope = Scope::of_pod(&analysis);
    let mut rules = Rules::unevaluated(&analysis.policy.evaluated.rules, &analysis, &scope);
    Ok(analysis.has_gpus() || rules.evaluate(pod, &context).map(|()| rules.any())?)
}
