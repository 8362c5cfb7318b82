//! The values that the expressions of a policy read for a pod, for the validation of the policy. An injection evaluates
//! fewer of them: those that its expressions need with the parameters as they are.

use serde_json::Value;

use crate::analysis::{PodAnalysis, resolve};
use fabric_policy::expression::{Bindings, Resolver};
use fabric_policy::interpolation::Phase;
use fabric_policy::work::Work;
use fabric_policy::{PodContext, Policy, ResolvedPolicy};

use super::scope::Scope;

/// Calls `visit` with the values of the pod, of each container, and of the pod as if it was injected. A pod for which the
/// policy has no values gets no visit.
pub(crate) fn each_scope(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
    visit: &mut dyn FnMut(Phase, &Bindings<'_, '_>),
) {
    let work = context.work.clone().unwrap_or_else(|| Work::of_input(0));
    let Ok((nodes, _)) = resolve(policy, pod, context) else { return };
    let Ok(resolved) = ResolvedPolicy::with_all_names(policy, &nodes, &work) else { return };
    let Ok(analysis) = PodAnalysis::new((nodes, resolved.into()), pod, context) else { return };
    let of_pod = Scope::of_pod(&analysis);
    let mut visit = |scope: &Scope<'_>| visit(scope.phase(), &scope.bindings(&Resolver(scope)));
    visit(&of_pod);
    for container in &analysis.containers {
        visit(&of_pod.of_container(container));
    }
    visit(&of_pod.of_injected(pod));
}
