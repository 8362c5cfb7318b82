//! The choice of the provider for a pod, if policies of several providers are in use: the nodes tell.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::engine::{Reason, STAMP};
use crate::core::nodes::{Node, Nodes, scheduling_of};
use crate::core::policy::{PodContext, Policy};

/// The policies among these that are for the nodes which a pod can be scheduled to.
///
/// Policies with `match.nodes` come first: those with such nodes. If no node is of any of them, the policies without the
/// key remain. A pod that was injected keeps its provider.
pub(super) fn for_nodes<'p>(
    mut policies: Vec<&'p Policy>,
    pod: &Value,
    context: &PodContext,
) -> Result<Vec<&'p Policy>, Reason> {
    let stamp = pod["metadata"]["annotations"][STAMP].as_str().and_then(|stamp| stamp.split('@').next());
    if let Some(known) = policies.iter().find(|policy| Some(policy.name()) == stamp) {
        let provider = known.definition().provider.clone();
        policies.retain(|policy| policy.definition().provider == provider);
        return Ok(policies);
    }
    let nodes = context.nodes.as_deref().filter(|nodes| !nodes.is_empty()).ok_or(Reason::NodesUnknown)?;
    let stamps: Vec<&str> = policies.iter().map(|policy| policy.stamp()).collect();
    let (fits_now, named) =
        nodes.named.of(format!("{stamps:?} {}", scheduling_of(pod)), || named(&policies, pod, nodes));
    let any = named.contains(&true);
    let mut named = named.into_iter();
    policies.retain(|policy| {
        let named = named.next().unwrap_or_default();
        if any { named } else { policy.definition().matcher.nodes.is_none() }
    });
    let providers: BTreeSet<&str> =
        policies.iter().map(|policy| policy.definition().provider.as_str()).collect();
    if any && providers.len() > 1 {
        return Err(Reason::SeveralProviders {
            providers: providers.into_iter().map(str::to_owned).collect(),
            fits_now,
        });
    }
    Ok(policies)
}

/// Whether there are nodes with GPUs that a pod fits now, and whether each of the policies names one of those, or of the
/// nodes that stand in for them.
fn named(policies: &[&Policy], pod: &Value, nodes: &Nodes) -> (bool, Vec<bool>) {
    let (fits_now, nodes) = fitting(policies, pod, nodes);
    let is_named = |policy: &&Policy| {
        let wanted = policy.definition().matcher.nodes.as_ref();
        wanted.is_some_and(|wanted| nodes.iter().any(|node| wanted.matches(node)))
    };
    (fits_now, policies.iter().map(is_named).collect())
}

/// The nodes that a pod can be scheduled to and that have GPUs of any policy; if there is none now, all with GPUs, or
/// all: a pool that scales from zero has the provider of the others.
fn fitting<'n>(policies: &[&Policy], pod: &Value, nodes: &'n Nodes) -> (bool, Vec<&'n Node>) {
    let has_gpus = |node: &&Node| {
        let mut gpus = policies.iter().flat_map(|policy| policy.definition().gpu_resources());
        gpus.any(|gpu| node.count(gpu) > 0)
    };
    let mut candidates = nodes.candidates(pod, &|_| false);
    candidates.retain(has_gpus);
    let fits_now = !candidates.is_empty();
    if !fits_now {
        candidates = nodes.iter().filter(has_gpus).collect();
    }
    (fits_now, if candidates.is_empty() { nodes.iter().collect() } else { candidates })
}
