//! The condition of a policy, `match.when`.

use serde_json::Value;

use crate::core::policy::expression::Resolver;
use crate::core::policy::{Condition, PodContext, Policy};

use super::Stop;
use super::bindings::{PodScope, Source, bindings};
use super::context::evaluation_failed;
use super::node;
use super::pod;
use super::report::Reason;

/// Evaluates the condition of a policy for a pod that its other keys match.
pub(crate) fn condition_holds(policy: &Policy, pod: &Value, context: &PodContext) -> Result<bool, Reason> {
    if policy.definition().matcher.when.is_none() {
        return Ok(true);
    }
    let selected = node::selected(policy, pod)?;
    let values = policy.resolved(&selected).map_err(|error| evaluation_failed("the policy", error))?;
    let when = match &values.condition {
        Condition::Fixed(holds) => return Ok(*holds),
        Condition::OfPod(when) => when,
    };
    let containers = pod::containers(pod, &values.devices)?;
    let scope = PodScope::new(Source::pod(&values, pod, &containers, context), &values, None);
    let resolver = Resolver(&scope);
    when.holds(&bindings(&values, &resolver)).map_err(|error| match scope.explain("`match.when`", error) {
        Stop::Refuse(reason) | Stop::Leave(reason) | Stop::Skip { reason, .. } => reason,
    })
}
