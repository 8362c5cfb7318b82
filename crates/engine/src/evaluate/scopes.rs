//! The values that the expressions of a policy read for a pod, for the validation of the policy. An injection evaluates
//! fewer of them: those that its expressions need with the parameters as they are.

use serde_json::Value;

use crate::analysis::{PodAnalysis, resolve};
use crate::record::Reason;
use fabric_policy::expression::{Bindings, Resolver};
use fabric_policy::interpolation::Phase;
use fabric_policy::{PodContext, Policy, ResolvedPolicy};

use super::scope::Scope;

/// Calls `visit` with the values of the pod, of each container, and of the pod as if it was injected.
pub fn each_scope(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
    visit: &mut dyn FnMut(Phase, &ResolvedPolicy, &Bindings<'_, '_>),
) -> Result<(), Reason> {
    let analysis = PodAnalysis::new(resolve(policy, pod, context, true)?, pod, context, false)?;
    let of_pod = Scope::of_pod(&analysis);
    let mut visit =
        |scope: &Scope<'_>| visit(scope.phase(), &analysis.policy, &scope.bindings(&Resolver(scope)));
    visit(&of_pod);
    for container in &analysis.containers {
        visit(&of_pod.of_container(container));
    }
    visit(&of_pod.of_injected(pod));
    Ok(())
}
