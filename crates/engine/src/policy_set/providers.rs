//! The choice of the provider for a pod, if policies of several providers are in use.
//!
//! In this order: the annotation in which the pod names it, the policy that injected the pod before, the node labels
//! that the pod selects and that only one provider has, and the nodes that the pod fits.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{DEVICE_CLASS, NodesLookedAt, PROVIDER, Reason, STAMP, requests};
use fabric_policy::nodes::{Node, Nodes, expressions, scheduling_of, terms};
use fabric_policy::work::{Work, goes_on};
use fabric_policy::{PodContext, Policy};

/// The policies of the provider that was chosen.
pub(super) struct Chosen<'p> {
    pub(super) policies: Vec<&'p Policy>,
    /// True if the pod names the policy itself.
    pub(super) by_name: bool,
}

/// Chooses among policies that match a pod. If they are not of `several` providers, only the pod can choose.
pub(super) fn choose<'p>(
    mut policies: Vec<&'p Policy>,
    several: bool,
    pod: &Value,
    context: &PodContext,
) -> Result<Chosen<'p>, Reason> {
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
    let provider = |policy: &&'p Policy| policy.definition().provider.as_str();
    if let Some(named) = annotation(PROVIDER) {
        let known = providers(&policies);
        let by_name = !known.iter().any(|provider| provider == named);
        policies.retain(|policy| if by_name { policy.name() == named } else { provider(policy) == named });
        if policies.is_empty() {
            return Err(Reason::OtherProvider { named: Some(named.to_owned()), known });
        }
        return Ok(Chosen { policies, by_name });
    }
    let chosen = |policies| Ok(Chosen { policies, by_name: false });
    if !several {
        return chosen(policies);
    }
    let before = stamped(pod).and_then(|name| policies.iter().find(|policy| policy.name() == name));
    if let Some(before) = before.map(provider) {
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
    chosen(of_nodes(policies, pod, context)?)
}

/// The name of the policy that injected a pod before.
pub(super) fn stamped(pod: &Value) -> Option<&str> {
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
type Providers<'p> = BTreeSet<&'p str>;

/// The providers of the nodes with one of these values of a label.
type OfLabel<'f, 'p> = dyn Fn(&str, &[Option<&str>]) -> Option<Providers<'p>> + 'f;

/// The providers of the nodes that a pod selects; `None` if it selects no label that only one provider has.
fn selected<'p>(policies: &[&'p Policy], spec: &Value, context: &PodContext) -> Option<Providers<'p>> {
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

/// The policies for the nodes that a pod fits. Nodes that no policy names belong to the policies without `match.nodes`.
fn of_nodes<'p>(
    mut policies: Vec<&'p Policy>,
    pod: &Value,
    context: &PodContext,
) -> Result<Vec<&'p Policy>, Reason> {
    let nodes = context.nodes.as_deref().ok_or(Reason::NodesUnknown)?;
    let stamps: Vec<&str> = policies.iter().map(|policy| policy.stamp()).collect();
    context.count_input();
    let gpus = requested_gpus(&policies, pod);
    let key = format!("{stamps:?} {gpus:?} {}", scheduling_of(pod));
    let work = context.work.as_ref();
    let (fits_now, named) = nodes.named.of(key, work, || named(&policies, pod, &gpus, nodes, work));
    let known = providers(&policies);
    let mut named = named.into_iter();
    policies.retain(|_| named.next().unwrap_or_default());
    let providers = providers(&policies);
    match providers.len() {
        1 => Ok(policies),
        0 if !nodes.is_empty() => Err(Reason::OtherProvider { named: None, known }),
        _ => {
            let looked_at = if fits_now { NodesLookedAt::Fitting } else { NodesLookedAt::All };
            Err(Reason::SeveralProviders { providers, looked_at })
        }
    }
}

/// The GPUs, of those that policies know, that a pod requests. A device class is not a resource of a node.
fn requested_gpus<'p>(policies: &[&'p Policy], pod: &Value) -> Vec<(&'p str, i64)> {
    let requests = requests(pod);
    let names: BTreeSet<&'p str> =
        policies.iter().flat_map(|policy| policy.definition().gpu_resources()).map(String::as_str).collect();
    let requested = names.into_iter().filter(|name| !name.starts_with(DEVICE_CLASS));
    requested.filter_map(|name| Some((name, requests[name].as_i64().filter(|count| *count > 0)?))).collect()
}

/// Whether the pod fits a node now, and for each policy, whether it applies to one of the nodes that decide.
fn named(
    policies: &[&Policy],
    pod: &Value,
    gpus: &[(&str, i64)],
    nodes: &Nodes,
    work: Option<&Work>,
) -> (bool, Vec<bool>) {
    let (fits_now, nodes) = fitting(policies, pod, gpus, nodes, work);
    let wanted: Vec<_> = policies.iter().map(|policy| policy.definition().matcher.nodes.as_ref()).collect();
    let mut named = vec![false; policies.len()];
    let mut others = false;
    for node in nodes {
        if !goes_on(work, STEPS_OF_POLICY * policies.len()) {
            break;
        }
        let mut is_named = false;
        for (named, wanted) in named.iter_mut().zip(&wanted) {
            if wanted.is_some_and(|wanted| wanted.matches(node)) {
                (*named, is_named) = (true, true);
            }
        }
        others |= !is_named;
    }
    named.iter_mut().zip(&wanted).for_each(|(named, wanted)| *named |= others && wanted.is_none());
    (fits_now, named)
}

/// The nodes that a pod fits and that have its GPUs, or any; if there is none now, all with GPUs, or all: a pool that
/// scales from zero has the provider of the others.
fn fitting<'n>(
    policies: &[&Policy],
    pod: &'n Value,
    gpus: &[(&str, i64)],
    nodes: &'n Nodes,
    work: Option<&'n Work>,
) -> (bool, Vec<&'n Node>) {
    let has_gpus = |node: &&Node| {
        let mut gpus = policies.iter().flat_map(|policy| policy.definition().gpu_resources());
        gpus.any(|gpu| node.count(gpu) > 0)
    };
    let mut candidates = nodes.candidates(pod, &|_| false, work);
    candidates.retain(|node| has_gpus(node) && gpus.iter().all(|(gpu, count)| node.count(gpu) >= *count));
    let fits_now = !candidates.is_empty();
    if !fits_now {
        candidates = nodes.iter().filter(has_gpus).collect();
    }
    (fits_now, if candidates.is_empty() { nodes.iter().collect() } else { candidates })
}
