//! The condition of a policy, `match.when`.

use serde_json::Value;

use crate::core::engine::analysis::{PodAnalysis, resolve};
use crate::core::engine::record::{Reason, Stop};
use crate::core::policy::expression::Resolver;
use crate::core::policy::{Condition, PodContext, Policy};

use super::scope::Scope;

/// Analyses a pod for a policy that its other keys match; `None` if the condition does not hold.
pub(crate) fn analyse(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
) -> Result<Option<PodAnalysis>, Reason> {
    let resolved = resolve(policy, pod, context, false)?;
    if matches!(resolved.1.condition, Condition::Fixed(false)) {
        return Ok(None);
    }
    let analysis = PodAnalysis::of(resolved, pod, context)?;
    let holds = holds(&analysis)?;
    Ok(holds.then_some(analysis))
}

fn holds(analysis: &PodAnalysis) -> Result<bool, Reason> {
    let when = match &analysis.policy.condition {
        Condition::Fixed(holds) => return Ok(*holds),
        Condition::OfPod(when) => when,
    };
    let scope = Scope::of_pod(analysis);
    let resolver = Resolver(&scope);
    when.holds(&scope.bindings(&resolver)).map_err(|error| match scope.explain("`match.when`", error) {
        Stop::Refuse(reason) | Stop::Leave(reason) | Stop::Skip { reason, .. } => reason,
    })
}
