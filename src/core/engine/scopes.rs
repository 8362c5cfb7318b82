//! The values that the expressions of a policy read for a pod, for commands that explain a policy or measure its
//! coverage. An injection evaluates fewer of them: those that its expressions need with the parameters as they are.

use std::borrow::Cow;

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::{PodContext, Policy, ResolvedPolicy};

use super::bindings::{PodScope, Source, bindings};
use super::context::evaluation_failed;
use super::node;
use super::pod;
use super::report::Reason;

/// The part of the pod about which expressions are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The pod before injection.
    Pod,
    /// One of its containers, by list and index, with its GPUs.
    Container { list: &'static str, index: usize, gpus: i64 },
    /// The pod after injection.
    Injected,
}

/// Calls `visit` with the values of the pod, of each container, and of the injected pod.
pub(crate) fn each_scope(
    policy: &Policy,
    pod: &Value,
    injected: &Value,
    context: &PodContext,
    visit: &mut dyn FnMut(Scope, &ResolvedPolicy, &Bindings<'_, '_>),
) -> Result<(), Reason> {
    let mut seen = Cow::Borrowed(pod);
    // The rules see a pod in the network of the host into which one of them brings it.
    if injected["spec"]["hostNetwork"] == true && pod["spec"]["hostNetwork"] != true {
        seen.to_mut()["spec"]["hostNetwork"] = Value::Bool(true);
    }
    let pod = &*seen;
    let nodes = node::selected(policy, pod)?;
    let resolved = policy.complete(&nodes).map_err(|error| evaluation_failed("the policy", error))?;
    let containers = pod::containers(pod, &resolved.devices)?;
    let of_pod = PodScope::new(Source::pod(&resolved, pod, &containers, context), &resolved, None);
    visit(Scope::Pod, &resolved, &bindings(&resolved, &Resolver(&of_pod)));
    for container in &containers {
        let source = Source::container(&resolved, pod, container);
        let scope = PodScope::new(source, &resolved, Some(&of_pod));
        let of = Scope::Container { list: container.list, index: container.index, gpus: container.gpus };
        visit(of, &resolved, &bindings(&resolved, &Resolver(&scope)));
    }
    let scope = PodScope::new(Source::injected(&resolved, injected), &resolved, Some(&of_pod));
    visit(Scope::Injected, &resolved, &bindings(&resolved, &Resolver(&scope)));
    Ok(())
}
