//! The choice of the provider for a pod, if policies of several providers are in use.
//!
//! In this order: the annotation in which the pod names it, the policy that injected the pod before, the node labels
//! that the pod selects and that only one provider has, and the nodes that the pod fits.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use serde_json::Value;

use crate::{NodesLookedAt, OrReason, PROVIDER, Reason, STAMP, requests};
use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::matcher::NodeMatch;
use fabric_policy::nodes::{Named, Node, Nodes, expressions, scheduling_of, terms};
use fabric_policy::work::{Work, goes_on};
use fabric_policy::{PodContext, Policy};

/// The policies of the provider that was chosen.
pub(super) struct Chosen<'p> {
    pub(super) policies: Vec<&'p Policy>,
    /// True if the pod names the policy itself.
    pub(super) by_name: bool,
    /// True if neither the pod nor a node names the provider.
    pub(super) is_assumed: bool,
}

/// Chooses among policies that match a pod. If they are not of `several` providers, only the pod can choose.
pub(super) fn choose<'p>(
    mut policies: Vec<&'p Policy>,
    several: bool,
    pod: &Value,
    context: &PodContext,
) -> OrReason<Chosen<'p>> {
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
    let provider = |policy: &&'p Policy| policy.definition().provider.as_str();
    if let Some(named) = annotation(PROVIDER) {
        let known = providers(&policies);
        let by_name = !known.iter().any(|provider| provider == named);
        policies.retain(|policy| if by_name { policy.name() == named } else { provider(policy) == named });
        if policies.is_empty() {
            return Err(Reason::OtherProvider { named: Some(named.to_owned()), known });
        }
        return Ok(Chosen { policies, by_name, is_assumed: false });
    }
    let chosen = |policies| Ok(Chosen { policies, by_name: false, is_assumed: false });
    if !several {
        return chosen(policies);
    }
    if let Some(before) = stamped(pod, &policies).map(|before| before.definition().provider.as_str()) {
        policies.retain(|policy| provider(policy) == before);
        return chosen(policies);
    }
    if let Some(selected) = selected(&policies, &pod["spec"], context) {
        if selected.len() > 1 {
            let providers = selected.into_iter().map(str::to_owned).collect();
            return Err(Reason::SeveralProviders { providers, looked_at: NodesLookedAt::Selected });
        }
        policies.retain(|policy| selected.contains(provider(policy)));
        return chosen(policies);
    }
    let (policies, is_assumed) = of_nodes(policies, pod, context)?;
    Ok(Chosen { policies, by_name: false, is_assumed })
}

/// The policy that injected a pod before.
pub(super) fn stamped<'p>(pod: &Value, policies: &[&'p Policy]) -> Option<&'p Policy> {
    let name = stamping_policy(pod)?;
    policies.iter().copied().find(|policy| policy.name() == name)
}

/// The name of that policy, which may not be in use.
pub(super) fn stamping_policy(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][STAMP].as_str()?.split('@').next()
}

/// The providers of policies, each once.
fn providers(policies: &[&Policy]) -> Vec<String> {
    let providers: BTreeSet<&str> =
        policies.iter().map(|policy| policy.definition().provider.as_str()).collect();
    providers.into_iter().map(str::to_owned).collect()
}

/// The steps to compare a node, or a value of a label, with a policy.
const STEPS_OF_POLICY: usize = 10;

/// Providers to whose nodes a pod can be scheduled.
pub(super) type Providers<'p> = BTreeSet<&'p str>;

/// The providers of the nodes with one of these values of a label.
type OfLabel<'f, 'p> = dyn Fn(&str, &[Option<&str>]) -> Option<Providers<'p>> + 'f;

/// The providers of the nodes that a pod selects; `None` if it selects no label that only one provider has.
pub(super) fn selected<'p>(
    policies: &[&'p Policy],
    spec: &Value,
    context: &PodContext,
) -> Option<Providers<'p>> {
    let of_label = |label: &str, values: &[Option<&str>]| of_label(policies, label, values, context);
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let mut all: Vec<Providers<'p>> =
        selector.filter_map(|(label, value)| of_label(label, &[value.as_str()])).collect();
    // Terms are alternatives: each must select some.
    let of_term = |term| {
        let each = expressions(term).filter_map(|requirement| of_requirement(requirement, &of_label));
        all_of(each.collect())
    };
    let of_terms: Option<Vec<Providers<'p>>> = terms(spec).iter().map(of_term).collect();
    let of_terms: Providers<'p> = of_terms.into_iter().flatten().flatten().collect();
    all.extend((!of_terms.is_empty()).then_some(of_terms));
    all_of(all)
}

fn of_requirement<'p>(requirement: &Value, of_label: &OfLabel<'_, 'p>) -> Option<Providers<'p>> {
    let label = requirement["key"].as_str()?;
    match requirement["operator"].as_str()? {
        "In" => {
            let values = requirement["values"].as_array()?;
            of_label(label, &values.iter().map(Value::as_str).collect::<Vec<_>>())
        }
        "Exists" | "Gt" | "Lt" => of_label(label, &[None]),
        _ => None,
    }
}

/// The providers of the nodes with one of these values of a label; `None` if one of them is not of a single provider.
fn of_label<'p>(
    policies: &[&'p Policy],
    label: &str,
    values: &[Option<&str>],
    context: &PodContext,
) -> Option<Providers<'p>> {
    let of_value = |value: Option<&str>| {
        if !context.goes_on(STEPS_OF_POLICY * policies.len()) {
            return None;
        }
        let named = policies.iter().filter(|policy| policy.is_named_by(label, value));
        let providers: Providers<'p> = named.map(|policy| policy.definition().provider.as_str()).collect();
        providers.first().copied().filter(|_| providers.len() == 1)
    };
    values.iter().copied().map(of_value).collect()
}

/// The providers that meet all requirements. If there are none, all of them, which leaves the choice open.
fn all_of(sets: Vec<Providers<'_>>) -> Option<Providers<'_>> {
    let union = sets.iter().flatten().copied().collect();
    let common = sets.into_iter().reduce(|one, other| one.intersection(&other).copied().collect())?;
    Some(if common.is_empty() { union } else { common })
}

/// The policies for the nodes that a pod fits. Nodes that no policy names belong to the policies without `provider.nodes`.
/// Also returns whether the provider is assumed, because no node has GPUs and none names it.
fn of_nodes<'p>(
    mut policies: Vec<&'p Policy>,
    pod: &Value,
    context: &PodContext,
) -> OrReason<(Vec<&'p Policy>, bool)> {
    let nodes = context.nodes.as_deref().ok_or(Reason::NodesUnknown)?;
    let stamps: Vec<&str> = policies.iter().map(|policy| policy.stamp()).collect();
    context.count_input();
    let gpus = requested_gpus(&policies, pod);
    let work = context.work.as_ref();
    let found = nodes.named.get_or_find(
        || format!("{stamps:?} {gpus:?} {}", scheduling_of(pod)),
        context.namespace.as_deref().unwrap_or_default(),
        context.work.as_ref(),
        || {
            let search = Search { policies: &policies, nodes, work };
            Ok::<_, Infallible>(search.policies_for(pod, gpus.as_deref()))
        },
    );
    let Ok(named) = found;
    let known = providers(&policies);
    let mut is_named = named.policies.into_iter();
    policies.retain(|_| is_named.next().unwrap_or_default());
    let providers = providers(&policies);
    match providers.len() {
        1 => {
            let is_assumed = !named.have_gpus && policies.iter().all(|policy| node_match(policy).is_none());
            Ok((policies, is_assumed))
        }
        0 if !nodes.is_empty() => Err(Reason::OtherProvider { named: None, known }),
        _ => {
            let looked_at = if named.fits_now { NodesLookedAt::Fitting } else { NodesLookedAt::All };
            Err(Reason::SeveralProviders { providers, looked_at })
        }
    }
}

fn node_match(policy: &Policy) -> Option<&NodeMatch> {
    policy.definition().provider_nodes.as_ref()
}

/// The GPUs, of those that policies know, that a pod requests by resource; `None` for a pod without GPUs. A device class
/// and a claim are no resources of a node.
fn requested_gpus<'p>(policies: &[&'p Policy], pod: &Value) -> Option<Vec<(&'p str, i64)>> {
    let requests = requests(pod);
    let names: BTreeSet<&'p str> =
        policies.iter().flat_map(|policy| &policy.definition().gpus.resources).map(String::as_str).collect();
    let amount = |name: &str| requests[name].as_i64().filter(|count| *count > 0);
    let (classes, resources): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with(DEVICE_CLASS));
    let requested: Vec<_> = resources.into_iter().filter_map(|name| Some((name, amount(name)?))).collect();
    let has_claims = pod["spec"]["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty());
    let has_gpus =
        has_claims || !requested.is_empty() || classes.into_iter().any(|name| amount(name).is_some());
    has_gpus.then_some(requested)
}

/// A search for the policies of nodes.
struct Search<'s, 'p> {
    policies: &'s [&'p Policy],
    nodes: &'s Nodes,
    work: Option<&'s Work>,
}

impl Search<'_, '_> {
    /// The policies for the nodes that a pod fits and that have its GPUs, or any. Without such nodes, those for the other
    /// nodes that a pod without GPUs fits, if they are of one provider; else those for all nodes with GPUs, or all: a pool
    /// that scales from zero has the provider of the others.
    fn policies_for(&self, pod: &Value, gpus: Option<&[(&str, i64)]>) -> Named {
        let fitting = self.nodes.candidates(pod, &|_| false, self.work);
        let has_them =
            |node: &Node| gpus.iter().copied().flatten().all(|(gpu, count)| node.count(gpu) >= *count);
        let with_gpus = fitting.iter().copied().filter(|node| self.has_gpus(node) && has_them(node));
        let with_gpus: Vec<_> = with_gpus.collect();
        if !with_gpus.is_empty() {
            return Named { fits_now: true, have_gpus: true, policies: self.policies_of(&with_gpus) };
        }
        let all_with_gpus: Vec<_> = self.nodes.iter().filter(|node| self.has_gpus(node)).collect();
        let have_gpus = !all_with_gpus.is_empty();
        let all = if have_gpus { all_with_gpus } else { self.nodes.iter().collect() };
        let fits_now = gpus.is_none() && !fitting.is_empty();
        let of_fitting = fits_now.then(|| self.policies_of(&fitting));
        // Where no policy names a node without GPUs, the nodes with GPUs are better evidence.
        let is_sure = |named: &Vec<bool>| {
            let mut named = self.policies.iter().zip(named).filter(|(_, named)| **named);
            named.all(|(policy, _)| node_match(policy).is_some())
        };
        let all = of_fitting
            .clone()
            .filter(|named| self.is_one(named) && is_sure(named))
            .unwrap_or_else(|| self.policies_of(&all));
        let policies = of_fitting.filter(|_| !self.is_one(&all)).unwrap_or(all);
        Named { fits_now, have_gpus, policies }
    }

    fn has_gpus(&self, node: &Node) -> bool {
        let mut gpus = self.policies.iter().flat_map(|policy| &policy.definition().gpus.resources);
        gpus.any(|gpu| node.count(gpu) > 0)
    }

    /// Returns whether the named policies are of one provider.
    fn is_one(&self, named: &[bool]) -> bool {
        let named = self.policies.iter().zip(named).filter(|(_, named)| **named);
        let mut providers = named.map(|(policy, _)| &policy.definition().provider);
        let first = providers.next();
        first.is_some() && providers.all(|provider| Some(provider) == first)
    }

    /// For each policy, whether it is for one of these nodes.
    fn policies_of(&self, nodes: &[&Node]) -> Vec<bool> {
        let mut named = vec![false; self.policies.len()];
        let mut others = false;
        // Thousands of nodes have the same few resources.
        let mut devices: HashMap<&str, Vec<bool>> = HashMap::new();
        for node in nodes {
            if !goes_on(self.work, STEPS_OF_POLICY * self.policies.len()) {
                break;
            }
            let mut of_node: Vec<bool> = self
                .policies
                .iter()
                .map(|policy| node_match(policy).is_some_and(|wanted| wanted.matches(node)))
                .collect();
            if !of_node.contains(&true) {
                for (resource, _) in node.resources() {
                    let of_device =
                        devices.entry(resource).or_insert_with(|| self.policies_of_device(resource));
                    of_node.iter_mut().zip(of_device).for_each(|(named, of_device)| *named |= *of_device);
                }
            }
            others |= !of_node.contains(&true);
            named.iter_mut().zip(of_node).for_each(|(named, of_node)| *named |= of_node);
        }
        let without = self.policies.iter().map(|policy| node_match(policy).is_none());
        named.iter_mut().zip(without).for_each(|(named, without)| *named |= others && without);
        named
    }

    /// For each policy with `provider.nodes`, whether it names a resource as a device that no other provider's policy names.
    fn policies_of_device(&self, resource: &str) -> Vec<bool> {
        let is_device = |policy: &&Policy| {
            let mut parameters =
                policy.definition().parameters.iter().filter_map(|one| one.from_nodes.as_ref());
            policy.devices().own.resources.iter().any(|pattern| pattern.matches(resource))
                || parameters.any(|from_nodes| from_nodes.looks_for(resource))
        };
        let named: Vec<bool> = self.policies.iter().map(is_device).collect();
        let is_one = self.is_one(&named);
        let each = self.policies.iter().zip(named);
        each.map(|(policy, named)| named && is_one && node_match(policy).is_some()).collect()
    }
}
