//! The labels of nodes that a pod selects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use fabric_policy::matcher::{LabelsRead, Selection, current, spellings};
use fabric_policy::nodes::{NodeKind, expressions, terms};
use fabric_policy::{PodContext, Policy, SelectedLabel};

use super::containers::{containers, total_gpus};
use super::node_kinds::{kinds, kinds_of_earlier_injection, labels_of_kinds, recorded};
use super::pod_claims::claims;
use crate::record::OrReason;

/// The part of a pod's node selection that the policy reads.
pub(super) fn selected(policy: &Policy, pod: &Value, context: &PodContext) -> OrReason<Selection> {
    let spec = &pod["spec"];
    let of_nodes = || context.nodes.as_ref().map(|nodes| kinds(policy, pod, nodes, context));
    let kinds = kinds_of_earlier_injection(pod, context).or_else(of_nodes).unwrap_or_default();
    let mut labels = match &policy.nodes.labels {
        _ if !kinds.is_empty() => labels_of_kinds(&kinds),
        LabelsRead::These(labels) => labels_of(spec, labels, context),
        LabelsRead::All => labels_of(spec, &all(spec), context),
    };
    if kinds.is_empty() && Selection::combinations(&labels).is_none() {
        context.exhaust();
        labels = Vec::new();
    }
    let gpus = if policy.nodes.tables_read_gpus && !labels.is_empty() {
        context.count_input();
        let claims = claims(pod, policy.devices(), context);
        let containers = containers(pod, &claims, policy.devices(), context)?;
        Some(total_gpus(pod, &containers, &claims, policy.devices()))
    } else {
        None
    };
    Ok(Selection { labels, kinds, gpus })
}

/// The values of these labels that the pod selects by `nodeSelector` or by required node affinity, in lower case.
fn labels_of(spec: &Value, labels: &BTreeSet<String>, context: &PodContext) -> Vec<Arc<SelectedLabel>> {
    let by_affinity = labels_of_affinity(spec, labels, context);
    let of = |label: &String| {
        let by_selector = spellings(label).find_map(|key| spec["nodeSelector"][key].as_str());
        let by_affinity = || by_affinity.get(current(label)).into_iter().flatten().copied();
        // Sorted, because their order in the pod means nothing.
        let values: BTreeSet<String> = match by_selector {
            Some(value) => [value.to_lowercase()].into(),
            None => by_affinity().map(str::to_lowercase).collect(),
        };
        let values: Vec<String> = values.into_iter().collect();
        (!values.is_empty()).then(|| Arc::new(SelectedLabel { label: label.clone(), values }))
    };
    labels.iter().take_while(|_| context.goes_on(2)).filter_map(of).collect()
}

/// The values by required node affinity. Terms are alternatives: unless each of them names values, any value will do.
fn labels_of_affinity<'p>(
    spec: &'p Value,
    labels: &BTreeSet<String>,
    context: &PodContext,
) -> HashMap<&'p str, Vec<&'p str>> {
    let wanted: HashSet<&str> = labels.iter().map(|label| current(label)).collect();
    // Each with the number of terms that name values of it, one after the other.
    let mut found: HashMap<&str, (usize, Vec<&str>)> = HashMap::new();
    let terms = terms(spec);
    let all = terms.iter().enumerate().flat_map(|(at, term)| expressions(term).map(move |one| (at, one)));
    for (at, expression) in all.take_while(|_| context.goes_on(2)) {
        let label = expression["key"].as_str().map(current).filter(|label| wanted.contains(label));
        let values = expression["values"].as_array().filter(|_| expression["operator"] == "In");
        let (Some(label), Some(values)) = (label, values) else { continue };
        let (named, known) = found.entry(label).or_default();
        if *named == at && context.goes_on(2 * values.len()) {
            *named = if values.is_empty() { usize::MAX } else { at + 1 };
            known.extend(values.iter().filter_map(Value::as_str));
        }
    }
    let in_each = |(label, (named, values))| (named == terms.len()).then_some((label, values));
    found.into_iter().filter_map(in_each).collect()
}

/// What the pod selects by a label of which the nodes have another value that an earlier injection recorded, and that
/// value. The pod fitted these nodes, so its manifest has changed since. `policy` is the one that recorded them.
pub(crate) fn contradicted_label(
    policy: &Policy,
    pod: &Value,
    context: &PodContext,
) -> Option<(String, SelectedLabel)> {
    let kinds = recorded(pod, context)?;
    // A pod that is bound to a node is there, whatever it selects.
    if pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty()) {
        return None;
    }
    let mut labels: BTreeSet<String> = kinds.iter().flat_map(|kind| kind.labels.keys()).cloned().collect();
    if let LabelsRead::These(read) = &policy.nodes.labels {
        labels.extend(read.iter().cloned());
    }
    let selected = labels_of(&pod["spec"], &labels, context).into_iter().find_map(|selected| {
        let kinds = kinds.iter().take_while(|_| context.goes_on(2 * selected.values.len()));
        let recorded = |kind: &NodeKind| kind.labels.get(&selected.label).cloned();
        let other = kinds
            .map(recorded)
            .find(|value| value.as_ref().is_none_or(|value| !selected.values.contains(value)))?;
        let values = other.into_iter().collect();
        Some((selected.to_string(), SelectedLabel { label: selected.label.clone(), values }))
    });
    selected.or_else(|| kinds.iter().find_map(|kind| excluded_label(&pod["spec"], kind, context)))
}

/// A label of a kind of nodes, with its value, that each alternative of the pod's affinity excludes.
fn excluded_label(spec: &Value, kind: &NodeKind, context: &PodContext) -> Option<(String, SelectedLabel)> {
    let mut found = None;
    for term in terms(spec) {
        let mut expressions = expressions(term).take_while(|_| context.goes_on(2));
        let excluded = expressions.find_map(|expression| {
            let label =
                spellings(expression["key"].as_str()?).find(|label| kind.labels.contains_key(*label))?;
            let value = &kind.labels[label];
            let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
            let is_excluded = match expression["operator"].as_str()? {
                "NotIn" if context.goes_on(values.len()) => {
                    values.iter().filter_map(Value::as_str).any(|one| one.eq_ignore_ascii_case(value))
                }
                operator => operator == "DoesNotExist",
            };
            let known = || SelectedLabel::one(label, value);
            is_excluded.then(|| (format!("others than those with {}", known()), known()))
        });
        found = Some(excluded?);
    }
    found
}

/// All labels that the pod names, in each of their spellings.
fn all(spec: &Value) -> BTreeSet<String> {
    let selector = spec["nodeSelector"].as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let affinity =
        terms(spec).iter().flat_map(expressions).filter_map(|expression| expression["key"].as_str());
    selector.chain(affinity).flat_map(spellings).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

    fn values(pod: &Value, label: &str) -> Vec<String> {
        let labels = labels_of(&pod["spec"], &BTreeSet::from([label.to_owned()]), &PodContext::default());
        labels.into_iter().flat_map(|selected| selected.values.clone()).collect()
    }

    fn affinity(terms: &Value) -> Value {
        json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
    }

    fn term(values: &Value) -> Value {
        json!({"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]},
            {"key": "pool", "operator": "In", "values": values}]})
    }

    #[test]
    fn the_node_selector_counts_in_any_case() {
        let pod = json!({"spec": {"nodeSelector": {"pool": "P5", "other": "x"}}});
        assert_eq!(values(&pod, "pool"), ["p5"]);
        assert_eq!(values(&pod, "zone"), Vec::<String>::new());
    }

    #[test]
    fn the_old_label_of_instance_types_counts_as_the_present_one() {
        let old = json!({"spec": {"nodeSelector": {"beta.kubernetes.io/instance-type": "p5.48xlarge"}}});
        assert_eq!(values(&old, INSTANCE_TYPE), ["p5.48xlarge"]);
        assert_eq!(all(&old["spec"]).len(), 2);
        let present = json!({"spec": {"nodeSelector": {INSTANCE_TYPE: "p5.48xlarge"}}});
        assert_eq!(values(&present, "beta.kubernetes.io/instance-type"), ["p5.48xlarge"]);
    }

    #[test]
    fn each_of_many_values_counts_once() {
        let terms = |count: usize| -> Value {
            (0..count).map(|at| term(&json!([format!("p{at}"), format!("P{at}")]))).collect()
        };
        assert_eq!(values(&affinity(&terms(20_000)), "pool").len(), 20_000);
    }

    #[test]
    fn all_alternatives_of_the_affinity_count_in_any_order_or_none() {
        let both = affinity(&json!([term(&json!(["c", "b"])), term(&json!(["B", "a"]))]));
        assert_eq!(values(&both, "pool"), ["a", "b", "c"]);
        assert_eq!(values(&both, "zone"), ["a"]);
        let open = affinity(&json!([term(&json!(["a"])), {"matchExpressions": []}]));
        assert_eq!(values(&open, "pool"), Vec::<String>::new());
        let exists = json!([{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]);
        assert_eq!(values(&affinity(&exists), "pool"), Vec::<String>::new());
        assert_eq!(values(&json!({"spec": {"affinity": "x"}}), "pool"), Vec::<String>::new());
    }
}
