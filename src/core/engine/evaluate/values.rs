//! The values that the expressions of a policy read for a pod, for commands that explain a policy or measure its
//! coverage. An injection evaluates fewer of them: those that its expressions need with the parameters as they are.

use serde_json::Value;

use crate::core::engine::analysis::{PodAnalysis, Purpose, resolve};
use crate::core::engine::record::Reason;
use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::{PodContext, Policy, ResolvedPolicy};

use super::scope::Scope;

/// The part of the pod about which expressions are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeOf {
    /// The pod before injection.
    Pod,
    /// One of its containers, by list and index.
    Container { list: &'static str, index: usize },
    /// The pod after injection.
    Injected,
}

/// Calls `visit` with the values of the pod, of each container, and of the injected pod.
pub(crate) fn each_scope(
    policy: &Policy,
    pod: &Value,
    injected: &Value,
    context: &PodContext,
    visit: &mut dyn FnMut(ScopeOf, &ResolvedPolicy, &Bindings<'_, '_>),
) -> Result<(), Reason> {
    let resolved = resolve(policy, pod, context, true)?;
    let mut analysis = PodAnalysis::of(resolved, pod, context, Purpose::Injection)?;
    // The rules see a pod in the network of the host into which one of them brings it.
    if injected["spec"]["hostNetwork"] == true && !analysis.host_network {
        let mut joined = pod.clone();
        joined["spec"]["hostNetwork"] = Value::Bool(true);
        analysis.joined_host(&joined, context);
    }
    let of_pod = Scope::of_pod(&analysis);
    let mut visit = |about, scope: &Scope<'_>| {
        visit(about, &analysis.policy, &scope.bindings(&Resolver(scope)));
    };
    visit(ScopeOf::Pod, &of_pod);
    for container in &analysis.containers {
        let of = ScopeOf::Container { list: container.list, index: container.index };
        visit(of, &of_pod.of_container(container));
    }
    visit(ScopeOf::Injected, &of_pod.of_injected(injected));
    Ok(())
}
