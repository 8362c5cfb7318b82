//! The labels of nodes that a pod selects.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use fabric_policy::matcher::{LabelsRead, Selection, spellings};
use fabric_policy::nodes::{NodeKind, expressions, terms};
use fabric_policy::{PodContext, Policy, SelectedLabel};

use super::claims::claims;
use super::containers::{containers, total_gpus};
use super::node_kinds::{kinds, kinds_of_earlier_injection, labels_of_kinds, recorded};
use crate::record::Reason;

/// The part of a pod's node selection that the policy reads.
pub(super) fn selected(policy: &Policy, pod: &Value, context: &PodContext) -> Result<Selection, Reason> {
    let spec = &pod["spec"];
    let kinds = match kinds_of_earlier_injection(pod) {
        Some(kinds) => kinds,
        None => match &context.nodes {
            Some(nodes) => kinds(policy, pod, nodes, context),
            None => Vec::new(),
        },
    };
    let mut labels = match policy.labels() {
        _ if !kinds.is_empty() => labels_of_kinds(&kinds),
        LabelsRead::These(labels) => labels_of(spec, labels, context),
        LabelsRead::All => labels_of(spec, &all(spec), context),
    };
    if kinds.is_empty() && Selection::combinations(&labels).is_none() {
        context.exhaust();
        labels = Vec::new();
    }
    let gpus = if policy.tables_read_gpus() && !labels.is_empty() {
        context.count_input();
        let claims = claims(pod, policy.devices(), context);
        let containers = containers(pod, &claims, policy.devices(), context)?;
        Some(total_gpus(pod, &containers, &claims, policy.devices()))
    } else {
        None
    };
    Ok(Selection { labels, kinds, gpus })
}

fn labels_of(spec: &Value, labels: &BTreeSet<String>, context: &PodContext) -> Vec<SelectedLabel> {
    let of = |label: &String| {
        // Sorted, because their order in the pod means nothing.
        let values: BTreeSet<String> =
            values_of(spec, label, context).into_iter().map(str::to_lowercase).collect();
        let values: Vec<String> = values.into_iter().collect();
        (!values.is_empty()).then(|| SelectedLabel { label: label.clone(), values })
    };
    labels.iter().filter_map(of).collect()
}

/// What the pod selects by a label of which the nodes have another value that an earlier injection recorded, and that
/// value. The pod fitted these nodes, so its manifest has changed since. `policy` is the one that recorded them.
pub(crate) fn contradicted_label(
    policy: Option<&Policy>,
    pod: &Value,
    context: &PodContext,
) -> Option<(String, SelectedLabel)> {
    let kinds = recorded(pod)?;
    // A pod that is bound to a node is there, whatever it selects.
    if pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty()) {
        return None;
    }
    let mut labels: BTreeSet<String> = kinds.iter().flat_map(|kind| kind.labels.keys()).cloned().collect();
    if let Some(LabelsRead::These(read)) = policy.map(Policy::labels) {
        labels.extend(read.iter().cloned());
    }
    let selected = labels_of(&pod["spec"], &labels, context).into_iter().find_map(|selected| {
        let mut values = kinds.iter().map(|kind| kind.labels.get(&selected.label));
        let other = values.find(|value| value.is_none_or(|value| !selected.values.contains(value)))?;
        let values = other.cloned().into_iter().collect();
        Some((selected.to_string(), SelectedLabel { label: selected.label, values }))
    });
    selected.or_else(|| kinds.iter().find_map(|kind| excluded_label(&pod["spec"], kind, context)))
}

/// A label of a kind of nodes, with its value, that each alternative of the pod's affinity excludes.
fn excluded_label(spec: &Value, kind: &NodeKind, context: &PodContext) -> Option<(String, SelectedLabel)> {
    let mut found = None;
    for term in terms(spec) {
        let excluded = expressions(term).find_map(|expression| {
            let label =
                spellings(expression["key"].as_str()?).find(|label| kind.labels.contains_key(*label))?;
            let value = &kind.labels[label];
            let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
            let is_excluded = match expression["operator"].as_str()? {
                "NotIn" => values.iter().filter_map(Value::as_str).any(|one| one.eq_ignore_ascii_case(value)),
                operator => operator == "DoesNotExist",
            };
            let known = SelectedLabel { label: label.to_owned(), values: vec![value.clone()] };
            let goes_on = context.goes_on(2 + values.len());
            (goes_on && is_excluded).then(|| (format!("others than those with {known}"), known))
        });
        found = Some(excluded?);
    }
    found
}

/// The values of a label that the pod selects by `nodeSelector` or by required node affinity; empty for any value.
fn values_of<'p>(spec: &'p Value, label: &str, context: &PodContext) -> Vec<&'p str> {
    if let Some(value) = spellings(label).find_map(|key| spec["nodeSelector"][key].as_str()) {
        return vec![value];
    }
    // Terms are alternatives: unless each of them names values, any value will do.
    let mut found = Vec::new();
    for term in terms(spec) {
        let named = expressions(term).find_map(|expression| {
            let names = |label: &str| expression["key"].as_str() == Some(label);
            let is_in = expression["operator"].as_str() == Some("In");
            let goes_on = context.goes_on(2);
            if goes_on && is_in && spellings(label).any(names) {
                expression["values"].as_array()
            } else {
                None
            }
        });
        match named {
            Some(values) if context.goes_on(2 * values.len()) && !values.is_empty() => {
                found.extend(values.iter().filter_map(Value::as_str));
            }
            _ => return Vec::new(),
        }
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
        labels.into_iter().flat_map(|selected| selected.values).collect()
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
