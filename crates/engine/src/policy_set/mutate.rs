//! Injecting a pod by the one policy that matches it: with the records of an earlier injection or without them, and once
//! more where another policy may match the result.

use serde_json::Value;

use super::decision::{Decision, decide};
use super::providers::stamping_policy;
use super::{PolicySet, stamps};
use crate::analysis::{copy, warning_of_too_many};
use crate::record::ChangeLog;
use crate::{
    CLAIMS, CONTAINER_LISTS, Mutation, NODES, Outcome, Reason, STAMP, Trace, Warning, WarningKind, inject,
    skip,
};
use fabric_policy::work::Work;
use fabric_policy::{PodContext, Policy};
use fabric_yaml::each_once;
use fabric_yaml::json::items;

/// The steps to look at a container before a policy is chosen.
const STEPS_OF_CONTAINER: usize = 20;

/// Injects a pod by the one policy that matches it.
///
/// The result is the same for the same arguments, and injecting the result again changes nothing.
pub fn mutate(policies: &PolicySet, pod: Value, context: &PodContext) -> Mutation {
    mutate_with(policies, pod, context, &mut None)
}

/// [`mutate`] with a record of what the engine evaluated and did.
pub fn mutate_traced(policies: &PolicySet, pod: Value, context: &PodContext) -> (Mutation, Trace) {
    let mut trace = Some(Box::default());
    let mutation = mutate_with(policies, pod, context, &mut trace);
    (mutation, trace.map(|trace| *trace).unwrap_or_default())
}

fn mutate_with(
    policies: &PolicySet,
    pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
) -> Mutation {
    let containers: usize = CONTAINER_LISTS.iter().map(|list| items(&pod["spec"], list).len()).sum();
    context.goes_on(containers * STEPS_OF_CONTAINER);
    let mutation = refuse_if_changed_again(policies, mutate_once(policies, pod, context, trace), context);
    // If the work ended early, the partial result must not be used.
    match context.work.as_ref().and_then(Work::ended) {
        None => mutation,
        Some(ended) => Mutation::new(Outcome::Refused { reason: ended.into() }, mutation.policy),
    }
}

/// Chooses the policy and injects the pod. What an earlier injection recorded decides only for its own policy: for any
/// other decision, the pod comes without it.
fn mutate_once(
    policies: &PolicySet,
    pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
) -> Mutation {
    if !context.goes_on(0) {
        // `mutate_with` has the reason. The pod may not be whole.
        return Mutation::new(Outcome::Refused { reason: Reason::Stopped }, None);
    }
    let annotations = &pod["metadata"]["annotations"];
    let has_any = |keys: &[&str]| keys.iter().any(|key| annotations[key].is_string());
    if !has_any(&[STAMP, NODES, CLAIMS]) {
        return mutate_by_records(policies, pod, context, trace, false);
    }
    let (has_records, writer) = (has_any(&[NODES, CLAIMS]), stamping_policy(&pod).map(str::to_owned));
    let whole = match copy(&pod, context) {
        Ok(pod) => pod,
        Err(reason) => return Mutation::new(Outcome::Refused { reason }, None),
    };
    let decided = mutate_by_records(policies, whole, context, trace, true);
    let is_skipped = matches!(decided.outcome, Outcome::Skipped { .. });
    let by_another = matches!(decided.outcome, Outcome::Mutated(_)) && decided.policy != writer;
    if !(is_skipped || has_records && by_another) {
        return decided;
    }
    *trace = trace.take().map(|_| Box::default());
    let mut without_records = mutate_by_records(policies, pod, context, trace, false);
    if is_skipped && matches!(without_records.outcome, Outcome::Skipped { .. }) {
        let is_of_records = |one: &Warning| {
            matches!(
                one.kind,
                WarningKind::InjectedBefore { .. } | WarningKind::AnnotationContradicted { .. }
            )
        };
        without_records.warnings.retain(|one| !is_of_records(one));
        without_records.warnings.extend(decided.warnings.into_iter().filter(is_of_records));
    }
    without_records
}

/// [`mutate_once`] with what an earlier injection recorded, unless the pod contradicts it, or without it.
fn mutate_by_records(
    policies: &PolicySet,
    mut pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
    with_records: bool,
) -> Mutation {
    let alone = |outcome, policy: Option<&Policy>| {
        Mutation::new(outcome, policy.map(|policy| policy.name().to_owned()))
    };
    let mut log = ChangeLog::new(context);
    log.trace = trace.take();
    policies.clear_contradicted(&mut pod, context, with_records, &mut log);
    let decision = decide(policies, &pod, context, &mut log);
    log.warnings.extend(warning_of_too_many(&pod, context));
    if !matches!(decision, Decision::Inject(..)) {
        log.undo(&mut pod);
    }
    let mutation = match decision {
        Decision::Inject(policy, analysis) => {
            policies.marked_if_guarded(&[policy], inject(policy, *analysis, pod, context, &mut log))
        }
        Decision::Skip(skipped, reason) => skip(pod, stamps(&skipped), reason, None, log.warnings),
        Decision::LeaveAlone(left, reason) => {
            policies.marked_if_guarded(&left, alone(Outcome::Unchanged { pod, reason }, None))
        }
        Decision::End(policy, reason) if reason.refuses() => alone(Outcome::Refused { reason }, policy),
        Decision::End(policy, reason) => alone(Outcome::Unchanged { pod, reason }, policy),
    };
    *trace = log.trace;
    mutation
}

/// Refuses a pod that another call would change again: the API server may call the webhook again for the current pod.
/// The engine has already checked the same policy, but another one may match the pod now.
fn refuse_if_changed_again(policies: &PolicySet, mut first: Mutation, context: &PodContext) -> Mutation {
    let Some(changed) = first.outcome.changed().filter(|changed| changed.operation_count() > 0) else {
        return first;
    };
    if !policies.choice_may_change {
        return first;
    }
    let again = match copy(&changed.pod, context) {
        Ok(pod) => mutate_once(policies, pod, context, &mut None),
        Err(reason) => return Mutation::new(Outcome::Refused { reason }, first.policy),
    };
    let is_same = match (&first.outcome, &again.outcome) {
        (Outcome::Mutated(_), Outcome::Unchanged { .. }) => again.policy == first.policy,
        (Outcome::Skipped { .. }, Outcome::Skipped { marked, .. }) => marked.operation_count() == 0,
        _ => false,
    };
    if is_same {
        first.warnings = each_once(first.warnings.into_iter().chain(again.warnings));
        return first;
    }
    let reason = match again.outcome {
        Outcome::Refused { reason } => reason,
        _ => Reason::ChangesMatch,
    };
    Mutation::new(Outcome::Refused { reason }, first.policy)
}
